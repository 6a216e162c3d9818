import json

import pytest

from pipeline.documents.graphrag import GraphragRejects, read_documents
from pipeline.text.ids import document_id


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ('{"b": 1.5, "a": "ü"}', {"a": "ü", "b": 1.5}),
        ('{"nul\\u0000": "\\ud800 and \\u0000", "all": [NaN, Infinity]}',
            {"nul": " and ", "all": [None, None]}),
        ("[1]", {}),
        ("no JSON", {}),
        ("[" * 100_000, {}),
    ],
)  # fmt: skip
def test_metadata_of_an_export_is_what_a_database_takes(stored: str, read: object):
    row = {
        "id": document_id("a"), "title": "a", "text": "text", "creation_date": None,
        "metadata": {"source": "a.txt", "metadata": stored},
    }  # fmt: skip
    rejects = GraphragRejects()
    [document] = read_documents([row], rejects).values()
    assert json.loads(document["metadata"]) == read
    assert (document["source"], rejects.rows) == ("a.txt", [])
