"""A workflow: ordered steps read from one YAML file, its wiring checked before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.prompts import Prompt
from pipeline.registry import REGISTRY, Params, Verb
from pipeline.validation import explain, not_yaml

REJECTS = "rejects"
"""The one output that every step may write: the run gathers them into one table."""


@dataclass(frozen=True)
class Step:
    """One use of a verb. ``inputs`` and ``outputs`` map the verb's table names to the workflow's;
    ``prompts`` and ``models`` map its roles to names of files and of settings."""

    id: str
    verb: Verb
    params: Params
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    prompts: Mapping[str, str]
    models: Mapping[str, str]


@dataclass(frozen=True)
class Workflow:
    name: str
    steps: tuple[Step, ...]


NAME = r"^[a-z][a-z0-9_-]*$"
TableName = Annotated[str, Field(pattern=NAME)]
"""Names of tables and workflows name files as well."""


class _StepFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    verb: str
    id: Annotated[str, Field(pattern=NAME)] | Literal[""] = ""
    args: dict[str, Any] = {}
    inputs: dict[str, str] = {}
    outputs: dict[str, TableName] = {}
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}


class _WorkflowFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: TableName
    steps: list[_StepFile]


def read_workflow(path: Path, settings: Mapping[str, Mapping[str, Any]]) -> Workflow:
    """Read and check a workflow file. ``settings`` are the sections that give verbs their default args.

    Raises SettingsError when the file is missing or malformed, a verb, arg, role or table is unknown, a
    table has two writers, or a step reads what no earlier step wrote.
    """
    if not path.is_file():
        have = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml"))) or "none"
        raise SettingsError(f"{path}: no such workflow; have: {have}")
    try:
        content = _WorkflowFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from error
    except ValidationError as error:
        raise SettingsError(explain(str(path), error, _known_keys(_WorkflowFile, _StepFile))) from error
    if content.name != path.stem:
        raise SettingsError(f"{path}: its name is '{content.name}'; name the file and the workflow alike")
    steps = tuple(_step(entry, f"{path}: step '{entry.id or entry.verb}'", settings) for entry in content.steps)
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
    return Step(
        id=entry.id or entry.verb,
        verb=verb,
        params=params,
        inputs=_renamed(f"{where}: inputs", verb.inputs, entry.inputs),
        outputs=_renamed(f"{where}: outputs", verb.outputs, entry.outputs),
        prompts=_bound(f"{where}: prompts", verb.roles_of(Prompt), entry.prompts, None),
        models=_bound(
            f"{where}: models",
            verb.roles_of(ChatModel) + verb.roles_of(EmbeddingModel),
            entry.models,
            "default",
        ),
    )


def _renamed(where: str, declared: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise SettingsError(f"{where}: the verb has no table {unknown}; have: {', '.join(declared)}")
    return {name: given.get(name, name) for name in declared}


def _bound(where: str, roles: list[str], given: Mapping[str, str], default: str | None) -> dict[str, str]:
    unknown = sorted(set(given) - set(roles))
    missing = [role for role in roles if role not in given and default is None]
    if unknown or missing:
        raise SettingsError(f"{where}: unknown roles {unknown}, unbound roles {missing}; roles: {roles}")
    return {role: given.get(role, default or "") for role in roles}


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
