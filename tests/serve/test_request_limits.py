"""What a request may hold at most, by every way in."""

import asyncio
from typing import Any

import pytest

from pipeline.project import Project
from pipeline.serve.mcp import mcp_of
from pipeline.serve.queries import Queries
from tests.serve.serving import QUESTION, Serving
from tests.serve.test_tools import call

DATES_IN_WORDS = [f"{year} March the 3rd" for year in range(1900, 1951)]
"""One date more than a request may have."""
TOO_MUCH: dict[str, dict[str, Any]] = {
    "conditions": {"where": {f"field {number}": "x" for number in range(101)}},
    "values": {"where": {"field": [str(number) for number in range(1001)]}},
    "a long value": {"where": {"field": "x" * 1001}},
    "a long field": {"where": {"x" * 1001: "x"}},
    "dates in words": {"where": {"date": DATES_IN_WORDS}},
    "values of properties in words": {"where": {"entity.founded": {"not in": DATES_IN_WORDS}}},
    "an order by no date": {"where": {"date": {">=": "banana"}}},
    "wildcards": {"where": {"field": {"matches": "*x" * 51}}},
    "a pattern within a list": {"where": {"title": {"matches": "?" * 51}}},
    "names": {"ll_keywords": ["x"] * 101},
    "themes": {"hl_keywords": ["x"] * 101},
    "a long name": {"ll_keywords": ["x" * 1001]},
}
HISTORY: dict[str, dict[str, Any]] = {
    "turns": {"conversation_history": [{"role": "user", "content": "x"}] * 501},
    "a long turn": {"conversation_history": [{"role": "user", "content": "x" * 100_001}]},
}


@pytest.mark.parametrize("path", ["/query", "/query/data", "/query/stream"])
@pytest.mark.parametrize("name", [*TOO_MUCH, *HISTORY])
def test_over_http(served: Serving, path: str, name: str):
    refused = served.ask(path, **{**TOO_MUCH, **HISTORY}[name])
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "invalid_request")


def test_as_many_dates_in_words_as_a_request_may_have_are_read(served: Serving):
    answer = served.ask("/query/data", where={"date": DATES_IN_WORDS[1:]})
    assert answer.status_code == 200


def test_by_tools(chatting: Project):
    """The tools take no history."""
    queries = Queries(chatting.settings.serve)
    tools, _ = call(mcp_of(chatting, queries))
    taken = {tool.name: tool.input_schema["properties"].keys() for tool in tools}
    assert not any("conversation_history" in names for names in taken.values())
    calls = [
        (tool, {"query": QUESTION, **body})
        for tool, names in taken.items()
        for body in TOO_MUCH.values()
        if body.keys() <= names
    ]
    _, results = call(mcp_of(chatting, queries), *calls)
    asyncio.run(queries.close())
    assert len(calls) == 21
    assert all(result.is_error for result in results)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/documents", {"where": "title matches " + "*x" * 51}),
        ("/documents", {"where": "x" * 1001 + "=1"}),
        ("/documents", {"where": "\n".join(f"f{number}=1" for number in range(101))}),
        ("/documents", {"where": "x" * 2001}),
        ("/documents", {"q": "x" * 501}),
        ("/documents/" + "x" * 501, {}),
        ("/ui/passage", {"unit": "x" * 301}),
        ("/ui/graph", {"entity": ["x"] * 21}),
        ("/ui/graph", {"entity": "x" * 301}),
        ("/ui/graph", {"community": "x" * 301}),
        ("/ui/graph", {"limit": 2001}),
        ("/ui/graph/entity", {"id": "x" * 301}),
    ],
)
def test_by_the_page(served: Serving, path: str, asked: dict[str, Any]):
    assert served.client.get(path, params=asked).status_code == 422


@pytest.mark.parametrize("path", ["/ui/graph/find", "/ui/graph/documents"])
def test_what_the_page_looks_for(served: Serving, path: str):
    assert served.client.post(path, json={"text": "x" * 501}).status_code == 422
