"""A cell that is missing counts as empty, whatever verb reads it, or is refused: it never becomes
another row's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.cells import as_json_text
from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import EXTRACTIONS, FOLLOWED, RELATIONSHIPS, TableSchema
from pipeline.errors import DataError
from tests.sizes import size
from tests.verbs.graphs import entity, extractions, link
from tests.verbs.test_verb_laws import CHAIN, folder, inputs_of, run, schemas_of, tables

__all__ = ["folder", "tables"]

some = settings(
    max_examples=size(5, 8), deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
every_reader = pytest.mark.parametrize(
    "name", sorted(name for name in CHAIN if REGISTRY.verbs[name].inputs)
)


def nothing(kind: pa.DataType) -> Any:
    if str(kind).endswith("string"):
        return ""
    return [] if pa.types.is_nested(kind) else 0.0 if pa.types.is_floating(kind) else 0


def may_lack(schema: TableSchema) -> list[str]:
    return [
        field.name
        for field in schema.arrow
        if field.name not in FOLLOWED and not pa.types.is_boolean(field.type)
    ]


def with_cell(frame: pd.DataFrame, row: int, column: str, cell: Any) -> pd.DataFrame:
    cells = frame[column].astype(object).tolist()
    cells[row] = cell
    return frame.assign(**{column: pd.Series(cells, frame.index, dtype=object)})


@every_reader
@some
@given(data=st.data())
def test_a_missing_cell_is_an_empty_one(
    name: str, tables: dict[str, pa.Table], folder: Path, data: st.DataObject
):
    verb = REGISTRY.verbs[name]
    lacking: dict[str, pd.DataFrame] = inputs_of(name, tables)
    blank = dict(lacking)
    for table, schema in schemas_of(verb).items():
        if not (columns := may_lack(schema)):
            continue
        places = st.tuples(st.sampled_from(columns), st.integers(0, len(lacking[table]) - 1))
        for column, row in data.draw(st.lists(places, max_size=4, unique=True), label=table):
            kind = schema.arrow.field(column).type
            lacking[table] = with_cell(lacking[table], row, column, None)
            blank[table] = with_cell(blank[table], row, column, nothing(kind))
        lacking[table] = schema.encode(lacking[table], table).to_pandas()
        blank[table] = schema.encode(blank[table], table).to_pandas()
    found, wanted = (filled(run(verb, given, folder)) for given in (lacking, blank))
    assert found == wanted


def filled(found: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """Return the rows as sorted texts, with empty values in place of missing cells.

    A verb may pass a missing cell on, so missing and empty cells count as equal.
    """
    kinds = {
        name: {field.name: nothing(field.type) for field in table.schema}
        for name, table in found.items()
    }
    return {
        name: sorted(
            as_json_text(
                {
                    column: kinds[name][column] if cell is None else cell
                    for column, cell in row.items()
                }
            )
            for row in table.to_pylist()
        )
        for name, table in found.items()
    }


@every_reader
def test_a_row_without_its_key_is_refused(name: str, tables: dict[str, pa.Table], folder: Path):
    verb = REGISTRY.verbs[name]
    if name == "prune_graph":
        pytest.skip("it takes tables of any columns, and passes rows on as they are")
    for table, schema in schemas_of(verb).items():
        for column in (column for column in FOLLOWED if column in schema.columns):
            given = inputs_of(name, tables)
            given[table] = with_cell(given[table], 0, column, None)
            with pytest.raises(
                DataError,
                match=rf"verb '{name}': table '{table}': column '{column}' is empty in 1 row",
            ):
                run(verb, given, folder)


def test_a_record_without_a_description_does_not_get_that_of_another():
    extracted, units = extractions(
        {
            "d/0": [
                entity("Ann"),
                entity("Bob", description="zebra text about Bob"),
                link("Ann", "Bob"),
            ]
        }
    )
    described = extracted["description"].where(extracted["description"] != "", None)
    made = REGISTRY.verbs["merge_graphs"].function(extracted.assign(description=described), units)
    descriptions = dict(zip(made[0]["name"], made[0]["descriptions"], strict=True))
    assert descriptions == {"Ann": [], "Bob": ["zebra text about Bob"]}
    assert made[1]["descriptions"].tolist() == [[]]


@pytest.mark.parametrize("column", ["name", "kind", "text_unit_id"])
@pytest.mark.parametrize("cell", [None, " "])
def test_a_record_without_its_name_kind_or_text_unit_is_rejected(column: str, cell: str | None):
    extracted, units = extractions({"d/0": [entity("Ann"), entity("Bob"), link("Bob", "Cy")]})
    entities, links, mentions, _, rejects = REGISTRY.verbs["merge_graphs"].function(
        with_cell(extracted, 0, column, cell), units
    )
    assert entities["name"].tolist().count("Ann") == 0
    assert set(entities["name"]) == {"Bob", "Cy"}
    assert (len(links), len(mentions)) == (1, 2)
    assert rejects["reason"].tolist() == ["incomplete"]


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_relationship_without_an_end_is_rejected(end: str):
    extracted, units = extractions({"d/0": [entity("Ann"), link("Ann", "Bob"), link("Bob", "Cy")]})
    entities, links, _, _, rejects = REGISTRY.verbs["merge_graphs"].function(
        with_cell(extracted, 1, end, None), units
    )
    assert set(entities["name"]) == {"Ann", "Bob", "Cy"}
    assert links[["source", "target"]].to_numpy().tolist() == [["Bob", "Cy"]]
    assert rejects[["row_id", "kind", "reason"]].to_numpy().tolist() == [
        ["d/0", "record", "incomplete"]
    ]
    assert "'Ann'" in rejects["message"][0] or "'Bob'" in rejects["message"][0]


def test_tables_say_which_of_their_columns_must_be_there():
    assert RELATIONSHIPS.required == ("id", "source_entity_id", "target_entity_id")
    assert EXTRACTIONS.required == ()
