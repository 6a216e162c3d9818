"""A workflow: ordered steps, their wiring checked before anything runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from pipeline.contract.registry import Params, Verb
from pipeline.contract.schemas import TableSchema
from pipeline.errors import DataError, SettingsError
from pipeline.settings.validation import did_you_mean
from pipeline.snapshots.ranks import advise_on_missing_column

REJECTS = "rejects"
"""The one output that every step may write: the run gathers them into one table."""

LOADER, DOCUMENTS = "load_documents", "documents"

READ_TABLE = "read_table"
"""The verb that reads a project's own tables."""
READ_GRAPHRAG, READ_GRAPHRAG_CACHE = "read_graphrag", "read_graphrag_cache"
OF_GRAPHRAG = frozenset({READ_GRAPHRAG, READ_GRAPHRAG_CACHE})
"""The verbs that read an index of GraphRAG: its tables alone, or its replies too."""
FILE_TEXT_UNITS, FILE_EXTRACTIONS = "file_text_units", "file_extractions"
"""Text units and extractions of documents alone, in a project with tables of its own."""

READ_LIGHTRAG = "read_lightrag"
"""The verb that reads an index of LightRAG."""
READ_REPLIES = frozenset({READ_LIGHTRAG, READ_GRAPHRAG_CACHE})
"""The verbs that read an imported index whose passages have replies, so that files can join it."""
INPUT_DOCUMENTS, IMPORTED_DOCUMENTS = "input_documents", "imported_documents"
"""Documents of the input folder and of an imported index, where a workflow has both."""
OWN_TEXT_UNITS = "own_text_units"
"""Text units for which an imported index has no reply, where a workflow has both."""

PLACE = "args."
"""The prefix of the names in a step's ``place``."""

Execution = Literal["direct", "batch"]
FORMATS = ("records", "json")
"""The formats in which a chat model may write a graph."""


@dataclass(frozen=True)
class Step:
    """A use of a verb in a workflow.

    ``inputs`` and ``outputs`` map the verb's table names to the workflow's; ``prompts`` and
    ``models`` map its roles to names of files and of settings. ``execution``: "batch" sends what it
    asks of a chat model to the endpoint's Batch API; the result is the same. ``place``: for a
    source, where it reads, if the workflow itself says so; it counts as an input of the step.
    ``reads`` and ``writes``: the schemas of inputs and outputs, by the verb's names; they are set
    by ``wired``.
    """

    id: str
    verb: Verb
    params: Params
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    prompts: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    execution: Execution = "direct"
    place: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, TableSchema] = field(default_factory=dict)
    writes: Mapping[str, TableSchema] = field(default_factory=dict)

    @property
    def format_undecided(self) -> bool:
        """A trial still has to decide in which format the step's chat model replies."""
        return self.params.format_undecided()

    def in_format(self, format: str) -> "Step":
        """Return the step with its format decided."""
        return replace(self, params=self.params.model_copy(update={"format": format}))

    def in_each_format(self) -> "tuple[Step, ...]":
        """Return the step; while its format is not decided, one step for each format."""
        if not self.format_undecided:
            return (self,)
        return tuple(self.in_format(format) for format in FORMATS)

    def inputs_from(self, table: Callable[[str], pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return the verb's inputs, by its own names, with the columns that it reads.

        ``table``: returns a table of the workflow by name. Raises DataError where a column is
        missing: the table was made before the workflow was edited.
        """
        inputs = {}
        for name, read in self.inputs.items():
            frame = table(read)
            schema = self.reads[name]
            missing = schema.missing(frame.columns)
            if missing:
                raise DataError(
                    f"step '{self.id}': table '{read}' has no {missing} (has"
                    f" {list(frame.columns)}); connect '{name}' to another table"
                )
            inputs[name] = schema.seen(frame)
        return inputs

    def call(
        self, inputs: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """Call the verb and return its outputs. ``roles``: all but its params."""
        bound = dict(roles)
        if self.verb.takes_params:
            bound["params"] = self.params
        return self.verb.call(inputs, bound)


def wired(where: str, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps with the schemas of what they read and write.

    Raises SettingsError when two steps share an id or write one table, a step reads what no earlier
    step writes, a table lacks a column that a verb reads or has it of another type, or args name
    something that does not exist.
    """
    writers: dict[str, str] = {}
    schemas: dict[str, TableSchema] = {}
    done: list[Step] = []
    for step in steps:
        if step.id in {one.id for one in done}:
            raise SettingsError(
                f"{where}: two steps are called '{step.id}'; give one of them an id"
            )
        _check_inputs(where, step, schemas)
        _check_outputs(where, step, writers)
        connected = _with_schemas(f"{where}: step '{step.id}'", step, schemas)
        for name, table in step.outputs.items():
            if name != REJECTS:
                writers[table] = step.id
                schemas[table] = connected.writes[name]
        done.append(connected)
    return tuple(done)


def _check_inputs(where: str, step: Step, schemas: Mapping[str, TableSchema]) -> None:
    """Raise SettingsError for an input that is none of the tables of earlier steps."""
    for table in step.inputs.values():
        if table not in schemas:
            have = ", ".join(sorted(schemas)) or "none"
            raise SettingsError(
                f"{where}: step '{step.id}' reads '{table}', which no earlier step writes (have:"
                f" {have})"
            )


def _check_outputs(where: str, step: Step, writers: Mapping[str, str]) -> None:
    """Raise SettingsError for an output that another output or the run itself writes.

    ``writers``: the tables of earlier steps -> the step that writes each.
    """
    written: set[str] = set()
    for name, table in step.outputs.items():
        if name == REJECTS:
            continue
        if table == REJECTS:
            raise SettingsError(
                f"{where}: step '{step.id}' writes '{table}', which the run gathers itself; rename"
                " the output"
            )
        if table in writers or table in written:
            first = writers.get(table, step.id)
            raise SettingsError(
                f"{where}: steps '{first}' and '{step.id}' both write '{table}'; rename one output"
            )
        written.add(table)


def _with_schemas(where: str, step: Step, schemas: Mapping[str, TableSchema]) -> Step:
    """Return the step with the schemas of its inputs and outputs.

    ``schemas``: those of the tables that earlier steps write.
    """
    reads = {
        name: _schema_seen(where, step, name, schemas[table]) for name, table in step.inputs.items()
    }
    try:
        writes = step.verb.written(reads, step.params)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error
    return replace(step, reads=reads, writes=writes)


def _schema_seen(where: str, step: Step, name: str, given: TableSchema) -> TableSchema:
    """Return the schema of an input: the columns that the verb declares, or all of the table if it
    takes any."""
    declared = step.verb.inputs[name]
    table = step.inputs[name]
    for missing in declared.missing(given.columns):
        earlier = advise_on_missing_column(missing, given.columns)
        advice = earlier or did_you_mean(missing, given.columns)
        raise SettingsError(
            f"{where}: table '{table}' has no column '{missing}', which '{name}' needs "
            f"({advice}); connect '{name}' to another table, or make the column first"
        )
    for column in declared.arrow:
        if column.name not in given.columns:
            continue
        kind = given.arrow.field(column.name).type
        if kind != column.type:
            raise SettingsError(
                f"{where}: table '{table}' has column '{column.name}' as"
                f" {kind}, and '{name}' needs {column.type}; convert"
                " it first"
            )
    return given if declared.more else declared


Format = Literal["parquet", "csv", "json"]


@dataclass(frozen=True)
class Workflow:
    """A workflow. ``emit``: the tables that are written to data/output -> the formats."""

    name: str
    steps: tuple[Step, ...]
    emit: Mapping[str, tuple[Format, ...]] = field(default_factory=dict)
