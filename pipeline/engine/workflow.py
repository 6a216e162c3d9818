"""A workflow: ordered steps read from one YAML file, its wiring checked before anything runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import REGISTRY, Params, Registry, Verb
from pipeline.contract.schemas import TableSchema
from pipeline.errors import DataError, SettingsError
from pipeline.models.base import ChatModel, EmbeddingModel
from pipeline.settings.validation import did_you_mean, explain, not_yaml, parse_yaml

REJECTS = "rejects"
"""The one output that every step may write: the run gathers them into one table."""

PLACE = "args."
"""What the names of a step's ``place`` begin with."""

Execution = Literal["direct", "batch"]


@dataclass(frozen=True)
class Step:
    """``inputs`` and ``outputs`` map the verb's table names to the workflow's; ``prompts`` and ``models`` map its roles
    to names of files and of settings. ``execution``: "batch" sends what it asks of a chat model to the endpoint's Batch
    API; the result is the same. ``place``: of a source, what its workflow itself says of where it reads, as an input of
    the step; empty where it reads what the settings name. ``reads`` and ``writes``: the schemas of inputs and outputs,
    by the verb's names, known once the step is wired."""

    id: str
    verb: Verb
    params: Params
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    prompts: Mapping[str, str]
    models: Mapping[str, str]
    execution: Execution = "direct"
    place: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, TableSchema] = field(default_factory=dict)
    writes: Mapping[str, TableSchema] = field(default_factory=dict)

    def inputs_from(self, table: Callable[[str], pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """What the verb reads, by its own names: of each of the workflow's tables, as ``table`` gives it, the columns
        that it sees. Raises DataError where one is missing: the table was made before the workflow was edited."""
        inputs = {}
        for name, read in self.inputs.items():
            frame, schema = table(read), self.reads[name]
            if missing := schema.missing(frame.columns):
                raise DataError(
                    f"step '{self.id}': table '{read}' has no {missing} (has {list(frame.columns)}); "
                    f"connect '{name}' to another table"
                )
            inputs[name] = schema.seen(frame)
        return inputs

    def call(self, inputs: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """What the verb makes of the inputs. ``roles``: all but its params."""
        return self.verb.call(inputs, {**roles, **({"params": self.params} if self.verb.takes_params else {})})


def wired(where: str, steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps with the schemas of what they read and write.

    Raises SettingsError when two steps share an id or write one table, a step reads what no earlier step writes, a
    table lacks a column that a verb reads or has it of another type, or args name what is not there.
    """
    writers: dict[str, str] = {}
    schemas: dict[str, TableSchema] = {}
    done: list[Step] = []
    for step in steps:
        if step.id in {one.id for one in done}:
            raise SettingsError(f"{where}: two steps are called '{step.id}'; give one of them an id")
        _check_inputs(where, step, schemas)
        _check_outputs(where, step, writers)
        done.append(_with_schemas(f"{where}: step '{step.id}'", step, schemas))
        tables = {table: name for name, table in step.outputs.items() if name != REJECTS}
        writers |= dict.fromkeys(tables, step.id)
        schemas |= {table: done[-1].writes[name] for table, name in tables.items()}
    return tuple(done)


def _check_inputs(where: str, step: Step, schemas: Mapping[str, TableSchema]) -> None:
    for table in step.inputs.values():
        if table not in schemas:
            have = ", ".join(sorted(schemas)) or "none"
            raise SettingsError(
                f"{where}: step '{step.id}' reads '{table}', which no earlier step writes (have: {have})"
            )


def _check_outputs(where: str, step: Step, writers: Mapping[str, str]) -> None:
    written: set[str] = set()
    for name, table in step.outputs.items():
        if name == REJECTS:
            continue
        if table == REJECTS:
            raise SettingsError(
                f"{where}: step '{step.id}' writes '{table}', which the run gathers itself; rename the output"
            )
        if table in writers or table in written:
            first = writers.get(table, step.id)
            raise SettingsError(f"{where}: steps '{first}' and '{step.id}' both write '{table}'; rename one output")
        written.add(table)


def _with_schemas(where: str, step: Step, schemas: Mapping[str, TableSchema]) -> Step:
    reads = {name: _read(where, step, name, schemas[table]) for name, table in step.inputs.items()}
    try:
        return replace(step, reads=reads, writes=step.verb.written(reads, step.params))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def _read(where: str, step: Step, name: str, given: TableSchema) -> TableSchema:
    """What the verb will see of the table: the columns it declares, or all where it takes any."""
    declared = step.verb.inputs[name]
    table = step.inputs[name]
    for missing in declared.missing(given.columns):
        raise SettingsError(
            f"{where}: table '{table}' has no column '{missing}', which '{name}' needs "
            f"({did_you_mean(missing, given.columns)}); connect '{name}' to another table, or make the column first"
        )
    for column in declared.arrow:
        if column.name in given.columns and given.arrow.field(column.name).type != column.type:
            raise SettingsError(
                f"{where}: table '{table}' has column '{column.name}' as {given.arrow.field(column.name).type}, and "
                f"'{name}' needs {column.type}; convert it first"
            )
    return given if declared.more else declared


Format = Literal["parquet", "csv", "json"]


@dataclass(frozen=True)
class Workflow:
    """``emit``: the tables that become files of data/output, and in which formats."""

    name: str
    steps: tuple[Step, ...]
    emit: Mapping[str, tuple[Format, ...]] = field(default_factory=dict)


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
    emit: tuple[Format, ...] = ()


class _WorkflowFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: TableName
    emit: dict[str, tuple[Format, ...]] = {}
    steps: list[_StepFile]


def read_workflow(
    path: Path,
    settings: Mapping[str, Mapping[str, Any]],
    input_steps: Sequence[InputStep] = (),
    verbs: Registry = REGISTRY,
) -> Workflow:
    """Read and check a workflow file. ``settings`` are the sections that give verbs their default args;
    ``input_steps`` come right after the step that loads the documents. ``verbs``: those that steps may use.

    Raises SettingsError when the file is missing or malformed, a verb, arg, role, table or column is unknown, a
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
    read = _Reader(settings, verbs)
    steps = tuple(read.step(entry, f"{path}: step '{entry.id or entry.verb}'") for entry in content.steps)
    emit = _emitted(str(path), content, steps)
    if input_steps:
        steps = _with_input_steps(steps, input_steps, read)
    return Workflow(content.name, wired(str(path), steps), emit)


def _emitted(where: str, content: _WorkflowFile, steps: Sequence[Step]) -> dict[str, tuple[Format, ...]]:
    """Table -> formats, Parquet always: what the workflow names, and the tables of the steps that say so."""
    tables = [table for step in steps for name, table in step.outputs.items() if name != REJECTS] + [REJECTS]
    wanted: dict[str, list[Format]] = {table: list(formats) for table, formats in content.emit.items()}
    for table in wanted:
        if table not in tables:
            raise SettingsError(f"{where}: emit: no step writes a table '{table}'; {did_you_mean(table, tables)}")
    for entry, step in zip(content.steps, steps, strict=True):
        for name, table in step.outputs.items() if entry.emit else ():
            if name != REJECTS:
                wanted.setdefault(table, []).extend(entry.emit)
    always: list[Format] = ["parquet"]
    return {table: tuple(dict.fromkeys(always + formats)) for table, formats in sorted(wanted.items())}


def _known_keys(*models: type[BaseModel]) -> list[str]:
    return [name for model in models for name in model.model_fields]


@dataclass(frozen=True)
class _Reader:
    settings: Mapping[str, Mapping[str, Any]]
    verbs: Registry

    def step(self, entry: _StepFile, where: str) -> Step:
        verb = self.verbs.get(entry.verb, where)
        defaults = self.settings.get(verb.settings, {}) if verb.settings else {}
        try:
            params = verb.params.model_validate({**defaults, **entry.args})
        except ValidationError as error:
            raise SettingsError(explain(f"{where}: args", error, _known_keys(verb.params))) from error
        if entry.execution == "batch" and not verb.roles_of(ChatModel):
            raise SettingsError(f"{where}: execution: batch is for steps that ask a chat model; remove it")
        embedded_or_asked = verb.roles_of(ChatModel) + verb.roles_of(EmbeddingModel)
        return Step(
            id=entry.id or entry.verb,
            verb=verb,
            params=params,
            inputs=_renamed(f"{where}: inputs", verb.inputs, entry.inputs),
            outputs=_renamed(f"{where}: outputs", verb.outputs, entry.outputs),
            prompts=_bound(f"{where}: prompts", verb.roles_of(Prompt), entry.prompts, None, verb.optional),
            models=_bound(f"{where}: models", embedded_or_asked, entry.models, "default", verb.optional),
            execution=entry.execution,
            place=_place(verb, entry.args),
        )


def _with_input_steps(steps: tuple[Step, ...], entries: Sequence[InputStep], read: _Reader) -> tuple[Step, ...]:
    if not any(step.verb.name == LOADER for step in steps):
        raise SettingsError(f"{entries[0].where}: the workflow has no step '{LOADER}' to follow; add it or run another")
    followed = [_chain(step, entries, read) if step.verb.name == LOADER else [step] for step in steps]
    return tuple(chain.from_iterable(followed))


def _chain(loader: Step, entries: Sequence[InputStep], read: _Reader) -> Iterator[Step]:
    """The loader and what follows it, connected so that the last one writes the loader's table."""
    prefix = "input" if loader.id == LOADER else loader.id
    loaded = loader.outputs[DOCUMENTS]
    between = [f"{loaded}_{prefix}_{position}" for position in range(1, len(entries))]
    tables = [f"{loaded}_loaded", *between, loaded]
    yield replace(loader, outputs={**loader.outputs, DOCUMENTS: tables[0]})
    for position, entry in enumerate(entries, start=1):
        _check_turns_documents_into_documents(entry, read.verbs)
        content = _StepFile(verb=entry.verb, id=f"{prefix}-{position}-{entry.verb}", args=dict(entry.args))
        step = read.step(content, entry.where)
        yield replace(
            step,
            inputs={DOCUMENTS: tables[position - 1]},
            outputs={**step.outputs, DOCUMENTS: tables[position]},
        )


def _check_turns_documents_into_documents(entry: InputStep, verbs: Registry) -> None:
    verb = verbs.get(entry.verb, entry.where)
    if _turns_documents_into_documents(verb):
        return
    have = ", ".join(sorted(name for name, verb in verbs.verbs.items() if _turns_documents_into_documents(verb)))
    raise SettingsError(f"{entry.where}: verb '{verb.name}' does not turn documents into documents; have: {have}")


def _turns_documents_into_documents(verb: Verb) -> bool:
    return set(verb.inputs) == {DOCUMENTS} == set(verb.outputs) - {REJECTS}


def _place(verb: Verb, args: Mapping[str, Any]) -> dict[str, str]:
    """Args that are no part of what is made, as a project may move, tell two sources apart all the same."""
    places = [name for name, found in verb.params.model_fields.items() if found.exclude and not verb.inputs]
    return {f"{PLACE}{name}": str(args[name]) for name in places if args.get(name)}


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
