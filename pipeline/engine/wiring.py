"""The wiring of a workflow: which table each step reads and writes, and of which schema, known before anything runs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.engine.step import REJECTS, Step
from pipeline.errors import SettingsError
from pipeline.schemas import TableSchema
from pipeline.validation import did_you_mean


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
    for column in declared.arrow:
        if column.name not in given.columns:
            hint = did_you_mean(column.name, given.columns)
            raise SettingsError(
                f"{where}: table '{table}' has no column '{column.name}', which '{name}' needs ({hint}); "
                f"connect '{name}' to another table, or make the column first"
            )
        if given.arrow.field(column.name).type != column.type:
            raise SettingsError(
                f"{where}: table '{table}' has column '{column.name}' as {given.arrow.field(column.name).type}, and "
                f"'{name}' needs {column.type}; convert it first"
            )
    return given if declared.more else declared
