"""The file of a workflow: its steps as YAML, and those of the workflow that it extends."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import REGISTRY, Registry, Verb
from pipeline.engine.workflow import (
    DOCUMENTS,
    LOADER,
    PLACE,
    READ_REPLIES,
    REJECTS,
    Execution,
    Format,
    Step,
    Workflow,
    wired,
)
from pipeline.errors import SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.settings.validation import did_you_mean, explain, not_yaml, parse_yaml

NAME = r"^[a-z][a-z0-9_-]*$"
TableName = Annotated[str, Field(pattern=NAME)]
"""Names of tables and workflows, which are names of files too."""


@dataclass(frozen=True)
class InputStep:
    """A verb that every workflow applies to its documents; ``where`` says which setting asks for
    it."""

    where: str
    verb: str
    args: Mapping[str, Any]


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
    emit: tuple[Format, ...] = ()
    after: str = ""


class _WorkflowFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: TableName
    extends: TableName | Literal[""] = ""
    emit: dict[str, tuple[Format, ...]] = {}
    steps: list[_StepFile]


def read_workflow(
    path: Path,
    settings: Mapping[str, Mapping[str, Any]],
    input_steps: Sequence[InputStep] = (),
    verbs: Registry = REGISTRY,
    models: Mapping[type, Collection[str]] | None = None,
) -> Workflow:
    """Read and check a workflow file. ``settings`` are the sections that give verbs their default
    args; ``input_steps`` come right after the step that loads the documents. ``verbs``: those that
    steps may use, ``models``: the names of those of each kind, where they are known.

    A workflow that ``extends`` another one has its steps first. A step with the id of one of them
    takes its place, one with ``after`` comes right after the step of that id, all others come last.

    Raises SettingsError when the file is missing or malformed, a verb, arg, role, model, table or
    column is unknown, a table has two writers, a step reads what no earlier step wrote, input steps
    find no documents, or a workflow extends itself.
    """
    content, entries = _read_with_extended(path, ())
    read = _Reader(settings, verbs, models or {})
    steps = tuple(read.step(entry.step, entry.where) for entry in entries)
    emit = _formats_by_table(str(path), content.emit, entries, steps)
    if input_steps:
        steps = _with_input_steps(steps, input_steps, read)
    return Workflow(content.name, wired(str(path), steps), emit)


@dataclass(frozen=True)
class _Entry:
    """A step as it is in a file, and the file."""

    file: Path
    step: _StepFile

    @property
    def id(self) -> str:
        return self.step.id or self.step.verb

    @property
    def where(self) -> str:
        return f"{self.file}: step '{self.id}'"


def _read_with_extended(
    path: Path, extending: tuple[str, ...]
) -> tuple[_WorkflowFile, list[_Entry]]:
    """Return a workflow's file with all its steps, those of the workflow that it extends included.

    ``extending``: the workflows that have led to it. Raises SettingsError for a cycle, or a step
    with a misplaced ``after``.
    """
    content = _read_file(path)
    own = [_Entry(path, step) for step in content.steps]
    if not content.extends:
        for entry in own:
            if entry.step.after:
                raise SettingsError(
                    f"{entry.where}: after: {path.stem} extends no workflow; put the step in its"
                    " place"
                )
        return content, own
    chain_of_names = (*extending, path.stem)
    if content.extends in chain_of_names:
        cycle = " -> ".join((*chain_of_names, content.extends))
        raise SettingsError(f"{path}: extends itself ({cycle}); remove one")
    extended, entries = _read_with_extended(path.parent / f"{content.extends}.yaml", chain_of_names)
    extended_ids = {entry.id for entry in entries}
    for entry in own:
        if entry.id not in extended_ids:
            entries.insert(_place_after(entry, entries), entry)
            continue
        # A second step of this id is a new one, which ``wired`` will refuse.
        extended_ids.discard(entry.id)
        if entry.step.after:
            raise SettingsError(
                f"{entry.where}: takes the place of the step of '{content.extends}'; remove after,"
                " or give it an id"
            )
        ids = [known.id for known in entries]
        entries[ids.index(entry.id)] = entry
    return content.model_copy(update={"emit": extended.emit | content.emit}), entries


def _place_after(entry: _Entry, entries: Sequence[_Entry]) -> int:
    """Return the position for a new step: behind the one that it names, or at the end."""
    after = entry.step.after
    if not after:
        return len(entries)
    names = [known.id for known in entries]
    if after not in names:
        raise SettingsError(
            f"{entry.where}: after: no step '{after}'; {did_you_mean(after, names)}"
        )
    return names.index(after) + 1


def _read_file(path: Path) -> _WorkflowFile:
    if not path.is_file():
        names = sorted(file.stem for file in path.parent.glob("*.yaml"))
        have = ", ".join(names) or "none"
        raise SettingsError(f"{path}: no such workflow; have: {have}")
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"))
        content = _WorkflowFile.model_validate(values)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {not_yaml(error)}") from error
    except ValidationError as error:
        keys = _known_keys(_WorkflowFile, _StepFile)
        raise SettingsError(explain(str(path), error, keys)) from error
    if content.name != path.stem:
        raise SettingsError(
            f"{path}: its name is '{content.name}'; name the file and the workflow alike"
        )
    return content


def _formats_by_table(
    where: str,
    named: Mapping[str, tuple[Format, ...]],
    entries: Sequence[_Entry],
    steps: Sequence[Step],
) -> dict[str, tuple[Format, ...]]:
    """Return the formats of each table to be written, Parquet always included.

    These are the tables that the workflow names and those of steps with ``emit``.
    """
    tables = []
    for step in steps:
        tables += [table for name, table in step.outputs.items() if name != REJECTS]
    tables.append(REJECTS)
    wanted: dict[str, list[Format]] = {table: list(formats) for table, formats in named.items()}
    for table in wanted:
        if table not in tables:
            raise SettingsError(
                f"{where}: emit: no step writes a table '{table}'; {did_you_mean(table, tables)}"
            )
    for entry, step in zip(entries, steps, strict=True):
        if not entry.step.emit:
            continue
        for name, table in step.outputs.items():
            if name != REJECTS:
                wanted.setdefault(table, []).extend(entry.step.emit)
    formats_by_table: dict[str, tuple[Format, ...]] = {}
    for table, formats in sorted(wanted.items()):
        # A dict keeps each format once, in its order.
        formats_by_table[table] = tuple(dict.fromkeys(("parquet", *formats)))
    return formats_by_table


def _known_keys(*models: type[BaseModel]) -> list[str]:
    return [name for model in models for name in model.model_fields]


@dataclass(frozen=True)
class _Reader:
    settings: Mapping[str, Mapping[str, Any]]
    verbs: Registry
    models: Mapping[type, Collection[str]]

    def verb(self, name: str, where: str) -> Verb:
        if name not in self.verbs.verbs:
            raise SettingsError(
                f"{where}: no verb '{name}'; {did_you_mean(name, self.verbs.verbs)}"
            )
        return self.verbs.verbs[name]

    def step(self, entry: _StepFile, where: str) -> Step:
        verb = self.verb(entry.verb, where)
        defaults = self.settings.get(verb.settings, {}) if verb.settings else {}
        try:
            params = verb.params.model_validate({**defaults, **entry.args})
        except ValidationError as error:
            raise SettingsError(
                explain(f"{where}: args", error, _known_keys(verb.params))
            ) from error
        if entry.execution == "batch" and not verb.roles_of(ChatModel):
            raise SettingsError(
                f"{where}: execution: batch is for steps that ask a chat model; remove it"
            )
        prompt_roles = verb.roles_of(Prompt)
        model_roles = verb.roles_of(ChatModel) + verb.roles_of(EmbeddingModel)
        models = _bind_roles(
            f"{where}: models", model_roles, entry.models, "default", verb.optional
        )
        self._refuse_unknown_models(where, verb, models)
        inputs = _map_tables(f"{where}: inputs", verb.inputs, entry.inputs)
        outputs = _map_tables(f"{where}: outputs", verb.outputs, entry.outputs)
        prompts = _bind_roles(f"{where}: prompts", prompt_roles, entry.prompts, None, verb.optional)
        return Step(
            id=entry.id or entry.verb,
            verb=verb,
            params=params,
            inputs=inputs,
            outputs=outputs,
            prompts=prompts,
            models=models,
            execution=entry.execution,
            place=_place(verb, entry.args),
        )

    def _refuse_unknown_models(self, where: str, verb: Verb, models: Mapping[str, str]) -> None:
        for role, name in models.items():
            kind = verb.roles[role]
            known = self.models.get(kind)
            if known is None or name in known:
                continue
            section = "chat" if kind is ChatModel else "embedding"
            have = ", ".join(sorted(known)) or "none"
            raise SettingsError(
                f"{where}: models: {role}: no model '{name}' in the settings; name one of"
                f" models.{section}: {have}"
            )


def _with_input_steps(
    steps: tuple[Step, ...], entries: Sequence[InputStep], read: _Reader
) -> tuple[Step, ...]:
    """Return the steps with the input steps after each one that loads documents."""
    if any(step.verb.name in READ_REPLIES for step in steps):
        # Files that join an imported index are loaded by another workflow, which has the steps.
        return steps
    if not any(step.verb.name == LOADER for step in steps):
        raise SettingsError(
            f"{entries[0].where}: the workflow has no step '{LOADER}' to follow; add it or run"
            " another"
        )
    connected: list[Step] = []
    for step in steps:
        if step.verb.name == LOADER:
            connected += _connect_input_steps(step, entries, read)
        else:
            connected.append(step)
    return tuple(connected)


def _connect_input_steps(
    loader: Step, entries: Sequence[InputStep], read: _Reader
) -> Iterator[Step]:
    """Yield the loader and the steps after it, connected so that the last one writes the loader's
    table."""
    prefix = "input" if loader.id == LOADER else loader.id
    loaded = loader.outputs[DOCUMENTS]
    between = [f"{loaded}_{prefix}_{position}" for position in range(1, len(entries))]
    # Each input step reads the table at its position less one, and writes the one at its position.
    tables = [f"{loaded}_loaded", *between, loaded]
    yield replace(loader, outputs={**loader.outputs, DOCUMENTS: tables[0]})
    for position, entry in enumerate(entries, start=1):
        _check_turns_documents_into_documents(entry, read)
        id = f"{prefix}-{position}-{entry.verb}"
        content = _StepFile(verb=entry.verb, id=id, args=dict(entry.args))
        step = read.step(content, entry.where)
        outputs = {**step.outputs, DOCUMENTS: tables[position]}
        yield replace(step, inputs={DOCUMENTS: tables[position - 1]}, outputs=outputs)


def _check_turns_documents_into_documents(entry: InputStep, read: _Reader) -> None:
    verb = read.verb(entry.verb, entry.where)
    if _turns_documents_into_documents(verb):
        return
    fitting = [
        name for name, verb in read.verbs.verbs.items() if _turns_documents_into_documents(verb)
    ]
    raise SettingsError(
        f"{entry.where}: verb '{verb.name}' does not turn documents into documents; have:"
        f" {', '.join(sorted(fitting))}"
    )


def _turns_documents_into_documents(verb: Verb) -> bool:
    reads_documents_alone = set(verb.inputs) == {DOCUMENTS}
    writes_documents_alone = set(verb.outputs) - {REJECTS} == {DOCUMENTS}
    return reads_documents_alone and writes_documents_alone


def _place(verb: Verb, args: Mapping[str, Any]) -> dict[str, str]:
    """Return args of a source that name where it reads, to tell two sources apart.

    They are no part of its params' fingerprint, since a project may move. Args that must not be
    shown are left out.
    """
    if verb.inputs:
        return {}
    places: dict[str, str] = {}
    for name, declared in verb.params.model_fields.items():
        # ``exclude`` leaves a field out of fingerprints, ``repr=False`` out of what is shown.
        names_place = declared.exclude and declared.repr
        if names_place and args.get(name):
            places[f"{PLACE}{name}"] = str(args[name])
    return places


def _map_tables(
    where: str, declared: Mapping[str, Any], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the workflow's name of each table of a verb; by default the verb's own name."""
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise SettingsError(
            f"{where}: the verb has no table {unknown}; have: {', '.join(declared)}"
        )
    return {name: given.get(name, name) for name in declared}


def _bind_roles(
    where: str,
    roles: list[str],
    given: Mapping[str, str],
    default: str | None,
    optional: frozenset[str],
) -> dict[str, str]:
    unknown = sorted(set(given) - set(roles))
    wanted = [role for role in roles if role in given or role not in optional]
    missing = [role for role in wanted if role not in given and default is None]
    if unknown or missing:
        raise SettingsError(
            f"{where}: unknown roles {unknown}, unbound roles {missing}; roles: {roles}"
        )
    fallback = default or ""
    return {role: given.get(role, fallback) for role in wanted}
