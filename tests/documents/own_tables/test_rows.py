"""Rows of tables: what they say, and which ones are refused with a reason."""

from typing import Any

import pytest

from pipeline.documents.own_tables.columns import AS_NAMED, TableColumns, parse_columns
from pipeline.documents.own_tables.rows import LONGEST_ROW, TableRow, read_row
from pipeline.documents.records import Fault, Record
from pipeline.errors import SettingsError

FACT: dict[str, Any] = {"source": "Acme", "type": "MAKES_WITH", "target": "Rocket"}


def row(cells: dict[str, Any], columns: TableColumns = AS_NAMED) -> TableRow:
    found = read_row(Record(7, cells), columns)
    assert isinstance(found, TableRow), found
    return found


def fault(cells: dict[str, Any]) -> Fault:
    found = read_row(Record(7, cells), AS_NAMED)
    assert isinstance(found, Fault), found
    return found


def test_a_row_relates_two_names_and_its_other_cells_are_properties():
    found = row(
        dict(**FACT, weight="2.5", Country="DE", valid_from="3 May 1990", properties='{"a": 1}')
    )
    assert (found.source, found.type, found.target) == ("Acme", "MAKES_WITH", "Rocket")
    assert (found.weight, found.line) == (2.5, 7)
    assert found.attributes == {"a": 1, "Country": "DE", "valid_from": "1990-05-03"}
    words = "Acme makes with Rocket. Country: DE; a: 1; valid_from: 1990-05-03."
    assert found.sentence() == words


def test_a_row_with_a_name_and_no_ends_describes_an_entity():
    found = row(
        {"name": " Acme ", "type": "organization", "description": "A firm.", "founded": 1990.0}
    )
    assert (found.name, found.source) == ("Acme", "")
    assert found.sentence() == "Acme (organization). A firm. founded: 1990."


def test_bytes_that_are_a_text_are_this_text():
    assert row({"source": "Öl".encode(), "target": b"Rocket"}).sentence() == "Öl – Rocket."


def test_a_column_name_beside_both_ends_is_a_property():
    assert row(dict(**FACT, name="contract 7")).properties == {"name": "contract 7"}


def test_columns_may_have_other_names_and_values_hold_for_empty_cells():
    columns = TableColumns(columns={"source": "Company"}, values={"type": "MAKES"})
    assert row({"Company": "Acme", "target": "Rocket"}, columns).type == "MAKES"
    assert row({"Company": "Acme", "target": "Rocket", "type": "SELLS"}, columns).type == "SELLS"


def test_the_key_is_that_of_the_id_column_or_of_all_cells_and_never_of_the_place():
    assert row(dict(**FACT, id="F-1")).key == "F-1"
    assert row(dict(**FACT, id=3.0)).key == "3"
    elsewhere = read_row(Record(900, dict(FACT)), AS_NAMED)
    assert isinstance(elsewhere, TableRow)
    assert elsewhere.key == row(dict(**FACT)).key
    assert row(dict(**FACT, country="DE")).key != row(dict(**FACT)).key


@pytest.mark.parametrize(
    ("cells", "reason", "said"),
    [
        ({"source": "Acme"}, "incomplete", "no 'target'"),
        ({"country": "DE"}, "incomplete", "no 'source' and 'target'"),
        ({"source": " ", "target": "\t", "name": ""}, "incomplete", "no 'source' and 'target'"),
        ({**FACT, "weight": "much"}, "parse", "no number above 0"),
        ({**FACT, "weight": -1}, "parse", "no number above 0"),
        ({**FACT, "weight": True}, "parse", "no number above 0"),
        ({**FACT, "weight": "1e999"}, "parse", "no number above 0"),
        ({**FACT, "valid_to": "soon"}, "parse", "'valid_to' is no date"),
        ({**FACT, "properties": "red"}, "parse", "no JSON object but a text"),
        ({**FACT, "properties": [1]}, "parse", "no JSON object but a list"),
        ({**FACT, "target": ["a"]}, "parse", "no name but a list"),
        ({**FACT, "target": "=VLOOKUP(A1;B:C)"}, "parse", "formula"),
        ({**FACT, "source": "#REF!"}, "parse", "formula"),
        ({**FACT, "source": "x" * 1001}, "parse", "1,001 characters"),
        ({**FACT, "description": "x" * (1 << 20)}, "too_large", "1,048,576 characters"),
    ],
)
def test_a_row_that_cannot_be_used_is_a_fault_with_what_to_do(
    cells: dict[str, Any], reason: str, said: str
):
    found = fault(cells)
    assert (found.reason, found.line) == (reason, 7)
    assert said in found.message
    assert ";" in found.message


def test_the_longest_cell_is_taken():
    assert len(row(dict(**FACT, description="x" * LONGEST_ROW)).description) == LONGEST_ROW


def test_names_that_begin_like_formulas_are_names():
    assert row({"source": "=", "target": "@home"}).target == "@home"
    assert row({"source": "C#", "target": "#1 Dental"}).target == "#1 Dental"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.csv: {columns: {sorce: X}}", "a.csv: columns: 'sorce' is no field"),
        ("a.csv: {values: {source: X}}", "a.csv: values: 'source' is no field"),
        ("a.csv: {colums: {}}", "unknown key 'colums'"),
        ("[a]", "expected names of tables"),
        ("a: [", "tables.yaml"),
    ],
)
def test_mistakes_in_the_file_of_columns_name_the_table_and_the_key(text: str, said: str):
    with pytest.raises(SettingsError, match=r"tables\.yaml") as raised:
        parse_columns(text, "tables.yaml")
    assert said in str(raised.value)
