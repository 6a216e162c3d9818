"""Values of entities' properties, on a real PostgreSQL."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.search.filtered import FilteredVectors
from pipeline.query.search.visible import VisiblePassages
from pipeline.stores.base import Live
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import AttributeLimit
from pipeline.stores.records import Attribute
from tests.query.memory_stores import of_documents

OpenStore = Callable[..., PostgresStore]
DATES = {"doc-1": "1990", "doc-2": "2001-05-02", "doc-3": ""}
ALL = AttributeLimit(9, 9, 9)


def attribute(number: int, entity: str, name: str, value: str, unit: str) -> dict[str, str]:
    """Return a row; ``unit`` is "2.0" for the first text unit of doc-2."""
    return {
        "id": f"attr-{number}", "entity_id": entity, "name": name, "type": "date", "value": value,
        "unit": "", "text_unit_id": f"chunk-{unit}", "document_id": f"doc-{unit[0]}",
        "correction": "",
    }  # fmt: skip


ROWS = [
    attribute(1, "ent-a", "founded", "1850", "1.1"),
    attribute(2, "ent-a", "founded", "1850", "1.0"),
    attribute(3, "ent-a", "founded", "1851", "2.0"),
    attribute(4, "ent-a", "founded", "1849", "3.0"),
    attribute(5, "ent-a", "founded", "1850", "3.0"),
    attribute(6, "ent-a", "closed", "1900", "3.0"),
    attribute(7, "ent-b", "founded", "1700", "1.0"),
]


def load_rows(store: PostgresStore, attributes: Sequence[dict[str, str]]) -> PostgresStore:
    documents = pd.DataFrame(
        {
            "id": list(DATES),
            "title": [f"Title of {id}" for id in DATES],
            "source": list(DATES),
            "metadata": [{}] * len(DATES),
            "date": list(DATES.values()),
        }
    )
    places = [(id[4:], order) for id in DATES for order in (0, 1)]
    chunks = pd.DataFrame(
        {
            "id": [f"chunk-{document}.{order}" for document, order in places],
            "full_doc_id": [f"doc-{document}" for document, _ in places],
            "chunk_order_index": [order for _, order in places],
            "tokens": 1,
            "content": "text",
            "char_start": 0,
            "char_end": 4,
            "heading": "",
            "header": "",
            "embedding": list(np.eye(len(places), 3, dtype=np.float32)),
        }
    )
    tables = {"documents": documents, "chunks": chunks, "attributes": pd.DataFrame(attributes)}
    with store.writing(Live("index", "1", {"model": "m"}, 3)) as writer:
        for table, rows in tables.items():
            if len(rows):
                writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
    return store


@pytest.fixture
def store(postgres: OpenStore) -> PostgresStore:
    return load_rows(postgres(), ROWS)


def shown(found: Sequence[Attribute]) -> list[tuple[str, str, str, str]]:
    return [(one.entity_id, one.name, one.value, one.text_unit_id) for one in found]


def test_each_value_comes_with_its_documents_the_newest_first(store: PostgresStore):
    found = store.attributes_of(["ent-b", "ent-a", "ent-unknown"], ALL)
    assert shown(found) == [
        ("ent-a", "closed", "1900", "chunk-3.0"),
        ("ent-a", "founded", "1851", "chunk-2.0"),
        ("ent-a", "founded", "1850", "chunk-1.0"),
        ("ent-a", "founded", "1850", "chunk-3.0"),
        ("ent-a", "founded", "1849", "chunk-3.0"),
        ("ent-b", "founded", "1700", "chunk-1.0"),
    ]
    newest = found[1]
    assert newest == Attribute(
        "attr-3", "ent-a", "founded", "date", "1851", "", "chunk-2.0", "doc-2", "Title of doc-2", 0,
        "2001-05-02",
    )  # fmt: skip


def test_limits_leave_room_for_other_properties_values_and_entities(store: PostgresStore):
    asked = ["ent-a", "ent-b"]
    one_value = store.attributes_of(asked, AttributeLimit(9, 1, 9))
    assert [one.value for one in one_value] == ["1900", "1851", "1700"]
    one_document = store.attributes_of(asked, AttributeLimit(9, 9, 1))
    assert [one.value for one in one_document] == ["1900", "1851", "1850", "1849", "1700"]
    one_property = store.attributes_of(asked, AttributeLimit(1, 9, 9))
    assert [one.value for one in one_property] == ["1900", "1700"]


def test_a_question_about_some_documents_sees_their_values_only(store: PostgresStore):
    found = FilteredVectors(store, of_documents("doc-1")).attributes_of(["ent-a", "ent-b"], ALL)
    assert shown(found) == [
        ("ent-a", "founded", "1850", "chunk-1.0"),
        ("ent-b", "founded", "1700", "chunk-1.0"),
    ]


def test_a_value_that_a_person_set_has_the_correction_for_its_source(postgres: OpenStore):
    decided = attribute(8, "ent-a", "founded", "1852", "1.0")
    decided |= {"text_unit_id": "", "document_id": "", "correction": "correction 5f0c, by ann"}
    store = load_rows(postgres(), [decided])
    (found,) = store.attributes_of(["ent-a"], ALL)
    assert (found.value, found.title, found.text_unit_id) == ("1852", "correction 5f0c, by ann", "")
    assert store.attributes_of(["ent-a"], ALL, of_documents("doc-1")) == []


def test_a_caller_of_some_documents_sees_no_values(store: PostgresStore):
    """Whether a value counts depends on the type of its entity, which all documents decide."""
    assert VisiblePassages(store, of_documents("doc-1")).attributes_of(["ent-a"], ALL) == []


def test_without_values_the_table_is_not_read(postgres: OpenStore):
    """The database of an earlier version does not have the table before its next load."""
    store = load_rows(postgres(), [])
    with store.connection() as connection:
        connection.exec_driver_sql("ALTER TABLE graphmill_attributes RENAME TO elsewhere")
        connection.commit()
    try:
        assert store.attributes_of(["ent-a"], ALL) == []
    finally:
        with store.connection() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO graphmill_attributes")
            connection.commit()
