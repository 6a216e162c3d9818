"""A workflow: ordered steps read from one YAML file, its wiring checked before anything runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.prompts import Prompt
from pipeline.registry import REGISTRY, Params, Verb
from pipeline.validation import explain, not_yaml
from pipeline.yaml_text import parse_yaml

REJECTS = "rejects"
"""The one output that every step may write: the run gathers them into one table."""


Execution = Literal["direct", "batch"]


@dataclass(frozen=True)
class Step:
    """One use of a verb. ``inputs`` and ``outputs`` map the verb's table names to the workflow's;
    ``prompts`` and ``models`` map its roles to names of files and of settings. ``execution``: "batch" sends what it
    asks of a chat model to the endpoint's Batch API; the result is the same."""

    id: str
    verb: Verb
    params: Params
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    prompts: Mapping[str, str]
    models: Mapping[str, str]
    execution: Execution = "direct"


@dataclass(frozen=True)
class Workflow:
    name: str
    steps: tuple[Step, ...]


NAME = r"^[a-z][a-z0-9_-]*$"
TableName = Annotated[str, Field(pattern=NAME)]
"""Names of tables and workflows name files as well."""


@dataclass(frozen=True)
class InputStep:
    """A verb that every workflow applies to its documents; ``where`` says which setting asks for it."""

    where: str
    verb: str
    args: Mapping[str, Any]


LOADER, DOCUMENTS = "load_documents", "documents"


class _StepFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    verb: str
    id: Annotated[str, Field(pattern=NAME)] | Literal[""] = ""
    args: dict[str, Any] = {}
    inputs: dict[str, str] = {}
    outputs: dict[str, TableName] = {}
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}
    execution: Execution = "direct"


class _WorkflowFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: TableName
    steps: list[_StepFile]


def read_workflow(
    path: Path, settings: Mapping[str, Mapping[str, Any]], input_steps: Sequence[InputStep] = ()
) -> Workflow:
    """Read and check a workflow file. ``settings`` are the sections that give verbs their default args;
    ``input_steps`` come right after the step that loads the documents.

    Raises SettingsError when the file is missing or malformed, a verb, arg, role or table is unknown, a
    table has two writers, a step reads what no earlier step wrote, or input steps find no documents.
    """
    if not path.is_file():
        have = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml"))) or "none"
        raise SettingsError(f"{path}: no such workflow; have: {have}")
    try:
        content = _WorkflowFile.model_validate(parse_yaml(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from error
    except ValidationError as error:
        raise SettingsError(explain(str(path), error, _known_keys(_WorkflowFile, _StepFile))) from error
    if content.name != path.stem:
        raise SettingsError(f"{path}: its name is '{content.name}'; name the file and the workflow alike")
    steps = tuple(_step(entry, f"{path}: step '{entry.id or entry.verb}'", settings) for entry in content.steps)
    if input_steps:
        steps = _with_input_steps(steps, input_steps, settings)
    _check_wiring(str(path), steps)
    return Workflow(content.name, steps)


def _known_keys(*models: type[BaseModel]) -> list[str]:
    return [name for model in models for name in model.model_fields]


def _step(entry: _StepFile, where: str, settings: Mapping[str, Mapping[str, Any]]) -> Step:
    verb = REGISTRY.get(entry.verb, where)
    defaults = settings.get(verb.settings, {}) if verb.settings else {}
    try:
        params = verb.params.model_validate({**defaults, **entry.args})
    except ValidationError as error:
        raise SettingsError(explain(f"{where}: args", error, _known_keys(verb.params))) from error
    if entry.execution == "batch" and not verb.roles_of(ChatModel):
        raise SettingsError(f"{where}: execution: batch is for steps that ask a chat model; remove it")
    return Step(
        id=entry.id or entry.verb,
        verb=verb,
        params=params,
        inputs=_renamed(f"{where}: inputs", verb.inputs, entry.inputs),
        outputs=_renamed(f"{where}: outputs", verb.outputs, entry.outputs),
        prompts=_bound(f"{where}: prompts", verb.roles_of(Prompt), entry.prompts, None, verb.optional),
        models=_bound(
            f"{where}: models",
            verb.roles_of(ChatModel) + verb.roles_of(EmbeddingModel),
            entry.models,
            "default",
            verb.optional,
        ),
        execution=entry.execution,
    )


def _with_input_steps(
    steps: tuple[Step, ...], entries: Sequence[InputStep], settings: Mapping[str, Mapping[str, Any]]
) -> tuple[Step, ...]:
    if not any(step.verb.name == LOADER for step in steps):
        raise SettingsError(f"{entries[0].where}: the workflow has no step '{LOADER}' to follow; add it or run another")
    followed = [_chain(step, entries, settings) if step.verb.name == LOADER else [step] for step in steps]
    return tuple(chain.from_iterable(followed))


def _chain(loader: Step, entries: Sequence[InputStep], settings: Mapping[str, Mapping[str, Any]]) -> Iterator[Step]:
    """The loader and what follows it, connected so that the last one writes the loader's table."""
    prefix = "input" if loader.id == LOADER else loader.id
    loaded = loader.outputs[DOCUMENTS]
    between = [f"{loaded}_{prefix}_{position}" for position in range(1, len(entries))]
    tables = [f"{loaded}_loaded", *between, loaded]
    yield replace(loader, outputs={**loader.outputs, DOCUMENTS: tables[0]})
    for position, entry in enumerate(entries, start=1):
        _check_turns_documents_into_documents(REGISTRY.get(entry.verb, entry.where), entry.where)
        content = _StepFile(verb=entry.verb, id=f"{prefix}-{position}-{entry.verb}", args=dict(entry.args))
        step = _step(content, entry.where, settings)
        yield replace(
            step,
            inputs={DOCUMENTS: tables[position - 1]},
            outputs={**step.outputs, DOCUMENTS: tables[position]},
        )


def _check_turns_documents_into_documents(verb: Verb, where: str) -> None:
    if _turns_documents_into_documents(verb):
        return
    have = ", ".join(sorted(name for name, verb in REGISTRY.verbs.items() if _turns_documents_into_documents(verb)))
    raise SettingsError(f"{where}: verb '{verb.name}' does not turn documents into documents; have: {have}")


def _turns_documents_into_documents(verb: Verb) -> bool:
    return set(verb.inputs) == {DOCUMENTS} == set(verb.outputs) - {REJECTS}


def _renamed(where: str, declared: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise SettingsError(f"{where}: the verb has no table {unknown}; have: {', '.join(declared)}")
    return {name: given.get(name, name) for name in declared}


def _bound(
    where: str, roles: list[str], given: Mapping[str, str], default: str | None, optional: frozenset[str]
) -> dict[str, str]:
    unknown = sorted(set(given) - set(roles))
    wanted = [role for role in roles if role in given or role not in optional]
    missing = [role for role in wanted if role not in given and default is None]
    if unknown or missing:
        raise SettingsError(f"{where}: unknown roles {unknown}, unbound roles {missing}; roles: {roles}")
    return {role: given.get(role, default or "") for role in wanted}


def _check_wiring(where: str, steps: tuple[Step, ...]) -> None:
    writers: dict[str, str] = {}
    ids: set[str] = set()
    for step in steps:
        if step.id in ids:
            raise SettingsError(f"{where}: two steps are called '{step.id}'; give one of them an id")
        ids.add(step.id)
        for table in step.inputs.values():
            if table not in writers:
                have = ", ".join(sorted(writers)) or "none"
                raise SettingsError(
                    f"{where}: step '{step.id}' reads '{table}', which no earlier step writes (have: {have})"
                )
        for name, table in step.outputs.items():
            if name == REJECTS:
                continue
            if table == REJECTS:
                raise SettingsError(
                    f"{where}: step '{step.id}' writes '{table}', which the run gathers itself; rename the output"
                )
            if table in writers:
                raise SettingsError(
                    f"{where}: steps '{writers[table]}' and '{step.id}' both write '{table}'; rename one output"
                )
            writers[table] = step.id
