"""Conditions in SQL say of every document what ``holds`` says of it."""

import random
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select
from sqlalchemy.dialects import postgresql

from pipeline.contract.conditions import Comparison, holds, operators
from pipeline.stores.postgres import conditions as conditions_module
from pipeline.stores.postgres.conditions import SPACES, _bytes_of, _satisfied
from pipeline.stores.postgres.schema import DOCUMENTS as SCHEMA
from pipeline.stores.postgres.store import PostgresStore
from tests.query.memory_stores import of_documents
from tests.records import column
from tests.sizes import size
from tests.stores.test_vector_store import load

TEXTS = [
    "", " ", "a", "A", "ab", "a-b", "é", "数", "\u3000b ", "2020", " 2020", "2020.0", "+3", "-3",
    "1e2", "true", "True",
    "x\ny", "[a]", "*", "%", "\\", "'", "{}",
]  # fmt: skip
SCALARS = [*TEXTS, 2020, 2020.0, 0, -3, 0.5, 100, 10**30, True, False]
FIELDS = ["year", "tags", "title", "source", "it's; --"]
DATES = ["", "2019", "2020", "2020-01", "2020-05", "2020-05-03", "2020-12-31", "2021"]
ASKED_DATES = [*DATES[1:], 2020, "May 2020", "3. Mai 2020", "2020-05-03T10:00", "soon"]
ASKED_DATE = st.sampled_from(ASKED_DATES)
ORDERS = ["=", "!=", "<", "<=", ">", ">="]
GLOBS = st.lists(st.sampled_from([*"ab-]![*?^\\é\n", "[a-b]", "[!a]"]), max_size=5).map("".join)
SCALAR = st.sampled_from(SCALARS)
DATE_CONDITION = st.one_of(
    ASKED_DATE,
    st.dictionaries(st.sampled_from(ORDERS), ASKED_DATE, min_size=1, max_size=2),
    st.dictionaries(
        st.sampled_from(["in", "not in"]), st.lists(ASKED_DATE, min_size=1, max_size=3), min_size=1
    ),
    st.sampled_from(["2020*", "*-0?", "*"]).map(lambda glob: {"matches": glob}),
    st.booleans().map(lambda there: {"exists": there}),
)
CONDITIONS = st.dictionaries(
    st.sampled_from(FIELDS),
    st.one_of(
        SCALAR,
        st.lists(SCALAR, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(ORDERS), SCALAR, min_size=1, max_size=2),
        st.dictionaries(
            st.sampled_from(["in", "not in"]), st.lists(SCALAR, min_size=1, max_size=3), min_size=1
        ),
        GLOBS.map(lambda glob: {"matches": glob}),
        st.booleans().map(lambda there: {"exists": there}),
    ),
    min_size=1,
    max_size=2,
)


def some_documents() -> pd.DataFrame:
    """One for each text and value, alone and in a list, and some of several fields."""
    draw = random.Random(1)
    cells = [*SCALARS, *([value, None] for value in SCALARS), [], None, ["a", 2020], {"a": 1}]
    metadata = [{field: draw.choice(cells) for field in draw.sample(FIELDS, 2)} for _ in cells]
    metadata += [{"year": cell} for cell in cells]
    metadata += [{"date": date} for date in ASKED_DATES * 2]
    titles = [draw.choice(TEXTS) for _ in metadata]
    rows = zip(
        (f"doc-{n:03}" for n in range(len(metadata))),
        titles,
        reversed(titles),
        metadata,
        strict=True,
    )
    found = pd.DataFrame(rows, columns=["id", "title", "source", "metadata"])
    return found.assign(date=[draw.choice(DATES) for _ in metadata])


DOCUMENTS = some_documents()


@pytest.fixture(params=[0, 2000], ids=["each asked", "few named"])
def store(
    postgres: Callable[..., PostgresStore],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> PostgresStore:
    monkeypatch.setattr("pipeline.stores.postgres.conditions.FEW", request.param)
    opened = postgres()
    load(opened, {"documents": DOCUMENTS}, 0)
    return opened


@settings(max_examples=size(60, 3000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"title": {"matches": "[]a-]*"}})
@example({"title": {"matches": "[!]"}})
@example({"title": {"matches": "[b-a]"}})
@example({"title": {"matches": "[!b-a]"}})
@given(st.one_of(CONDITIONS, DATE_CONDITION.map(lambda condition: {"date": condition})))
def test_the_database_finds_the_documents_that_satisfy_the_conditions(
    store: PostgresStore, drawn: dict[str, Any]
):
    where = {field: operators(field, wanted) for field, wanted in drawn.items()}
    expected = [
        row.id
        for row in DOCUMENTS.itertuples()
        if holds(
            where,
            {**row.metadata, "id": row.id, "title": row.title, "source": row.source},
            row.date,
        )
    ]
    assert sorted(column(store.documents([where]), "id")) == expected
    assert column(store.documents([where, *of_documents("doc-000")]), "id") == [
        id for id in expected if id == "doc-000"
    ]


def test_conditions_of_few_documents_are_remembered_until_the_next_load(store: PostgresStore):
    of_2020 = [{"year": {"=": 2020}}]
    assert "doc-999" not in set(column(store.documents(of_2020), "id"))
    newer = DOCUMENTS.head(1).assign(id="doc-999", metadata=[{"year": 2020}])
    load(store, {"documents": newer}, 0, version="2")
    assert column(store.documents(of_2020), "id") == ["doc-999"]


def test_a_reader_of_an_old_load_adds_nothing_to_what_is_remembered_of_the_new_one(
    store: PostgresStore,
):
    of_2020 = [{"year": {"=": 2020}}]

    def few(version: str, year: int = 2020) -> set[str]:
        with store.connection() as connection:
            found = store.filters.find(
                connection, store.workspace, version, [{"year": {"=": year}}]
            )
        return set(found.few or ())

    class Before(str):
        """A version that is compared just as somebody asks the next load."""

        def __ne__(self, other: object) -> bool:
            few("2", 2021)
            return str(self) != str(other)

        __hash__ = str.__hash__

    few("1", 2021)
    assert "doc-999" not in few(Before("1"))
    load(
        store,
        {"documents": DOCUMENTS.head(1).assign(id="doc-999", metadata=[{"year": 2020}])},
        0,
        version="2",
    )
    assert few("2") in ({"doc-999"}, set())
    assert column(store.documents(of_2020), "id") == ["doc-999"]


def test_the_database_strips_what_python_does():
    assert "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1)))) == SPACES


def test_a_list_of_values_is_a_constant_number_of_parameters(store: PostgresStore):
    def parameters(values: list[object]) -> int:
        conditions = {"year": operators("year", {"in": values})}
        compiled = (
            select(SCHEMA)
            .where(*_satisfied(SCHEMA, [conditions]))
            .compile(dialect=postgresql.dialect())
        )
        return len(compiled.params)

    few = ["a", 2020, True]
    assert parameters([*few, *map(str, range(1000, 2000)), *range(1000)]) == parameters(few)


def statement(field: str, operands: list[Any]) -> str:
    tests = _satisfied(SCHEMA, [{field: {"in": operands}}])
    return str(select(SCHEMA.c.id).where(*tests).compile(dialect=postgresql.dialect()))


def test_a_list_of_dates_is_a_constant_number_of_parameters():
    years = [str(year) for year in range(1000, 2000)]
    assert statement("date", years) == statement("date", years[:2])


@pytest.mark.parametrize("type", ["number", "date", "enum", "text"])
def test_a_list_of_values_of_a_property_is_a_constant_number_of_parameters(type: str):
    comparisons = [Comparison(type, "", str(number)) for number in range(1000, 2000)]
    assert statement("entity.built", comparisons) == statement("entity.built", comparisons[:2])


def test_the_limit_on_the_documents_that_are_listed_is_no_parameter(store: PostgresStore):
    """With such a parameter PostgreSQL would compare each document with one value after the
    other."""
    statements: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    store.documents([{"year": {"in": ["a", "b"]}}])
    [scan] = [one for one in statements if "ANY" in one and "LIMIT" in one]
    assert scan.rstrip().endswith(f"LIMIT {conditions_module.FEW + 1}")


def test_remembered_conditions_take_limited_memory(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.conditions.MOST_REMEMBERED_BYTES", 10_000)
    for number in range(50):
        asked = [{"title": {"=": f"{number}{'x' * 100_000}"}}]
        assert column(store.documents(asked), "id") == []
    remembered = store.filters.remembered
    assert remembered.size <= 10_000
    assert 0 < len(remembered.answers) < 500
    assert remembered.size == sum(_bytes_of(key, few) for key, few in remembered.answers.items())
