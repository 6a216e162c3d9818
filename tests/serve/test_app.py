"""The API's answers and refusals, over a real server."""

from collections.abc import Iterator
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from pipeline.errors import (
    AuthError,
    DataError,
    ModelError,
    NothingLoadedError,
    OtherOwnerError,
    SettingsError,
    StoreError,
    UsageError,
)
from pipeline.project import Project
from pipeline.query.request import QueryRequest
from pipeline.serve.failures import failure_of
from tests.projects import ProjectFolder
from tests.serve.serving import QUESTION, Serving, events_in, serving, wait_until

PATHS = ["/query", "/query/data", "/query/stream"]
HOSTILE = [
    "'; DROP TABLE chunks; --",
    "\x00\x01\x1b[31m",
    "{{7*7}} ${jndi:ldap://x} %s %(a)s {0}",
    "]]></document>\n\nevent: done\ndata: {}\n\n",
    "\u202egnirts\u202c 𝕏 👩‍👩‍👧‍👦 字",
    "a" * 20_000,
]


@pytest.fixture(scope="module")
def schema(served: Serving) -> dict[str, Any]:
    return served.client.get("/openapi.json").json()


def test_an_answer_is_the_projects(served: Serving, project: Project):
    found = served.ask(mode="local", top_k=5)
    assert found.status_code == 200
    expected = project.query(QUESTION, mode="local", top_k=5)
    assert found.json() | {"timings_ms": 0, "question_id": ""} == expected.to_json(
        evidence=False
    ) | {
        "timings_ms": 0,
        "question_id": "",
    }
    whole = served.client.post(
        "/query?include=evidence", json={"query": QUESTION, "mode": "local", "top_k": 5}
    )
    assert whole.json() | {"timings_ms": 0, "question_id": ""} == expected.to_json() | {
        "timings_ms": 0,
        "question_id": "",
    }
    assert served.client.post("/query?include=all", json={"query": QUESTION}).status_code == 422
    data = served.ask("/query/data", mode="naive")
    expected = project.query_data(QUESTION, mode="naive")
    assert data.json() | {"timings_ms": 0, "question_id": ""} == expected | {
        "timings_ms": 0,
        "question_id": "",
    }
    assert "answer" not in data.json()


def test_a_stream_has_sources_tokens_and_the_whole(served: Serving, project: Project):
    answer = served.ask("/query/stream")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    first, *tokens, done = served.events()
    assert (first.name, {token.name for token in tokens}, done.name) == (
        "sources",
        {"token"},
        "done",
    )
    expected = project.query(QUESTION).to_json(evidence=False)
    assert done.data | {"timings_ms": 0, "question_id": ""} == expected | {
        "timings_ms": 0,
        "question_id": "",
    }
    assert first.data["references"] == expected["references"]
    assert "".join(token.data["text"] for token in tokens) == expected["answer"]
    assert [one for token in tokens for one in token.data["annotations"]] == expected["annotations"]
    assert expected["annotations"]
    wait_until(lambda: served.api.queries.running == 0)


def test_an_answer_has_its_references_and_no_evidence_unless_it_is_asked_for(served: Serving):
    evidence = {"entities", "relationships", "chunks"}
    first, *_, done = served.events()
    assert not evidence & (served.ask().json().keys() | first.data.keys() | done.data.keys())
    asked = served.client.post("/query/stream?include=evidence", json={"query": QUESTION})
    first, *_, done = events_in(asked.text)
    assert evidence <= first.data.keys()
    assert not evidence & done.data.keys()


def test_what_is_null_or_left_out_is_as_settings_have_it(folder: ProjectFolder, served: Serving):
    with (
        folder.open("query.mode=naive", "query.chunk_top_k=1") as project,
        serving(project) as other,
    ):
        for body in ({}, {"mode": None, "chunk_top_k": None, "hl_keywords": None}):
            found = other.ask("/query/data", **body).json()
            assert (found["mode"], len(found["chunks"])) == ("naive", 1)
        fields = other.client.get("/openapi.json").json()["components"]["schemas"]["Query"][
            "properties"
        ]
        assert (fields["mode"]["default"], fields["chunk_top_k"]["default"]) == ("naive", 1)
    assert served.ask("/query/data").json()["mode"] == "graph"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"topk": 3}, "topk", "unknown field 'topk'; did you mean 'top_k'?"),
        ({"zzzz": 3}, "zzzz", "unknown field 'zzzz'; known fields: chunk_top_k, "),
        ({"top_k": 0}, "top_k", "Input should be greater than or equal to 1"),
        ({"top_k": "secret-value"}, "top_k", "Input should be a valid integer"),
        ({"mode": "moon"}, "mode", "Input should be 'naive'"),
        ({"hl_keywords": "rivers"}, "hl_keywords", "no list; write [one, another]"),
        ({"query": ""}, "query", "a question has a letter or a digit"),
        ({"where": "year=1"}, "where", "no names with values; write {name: value}"),
        ({"hl_keywords": ["a"] * 101}, "hl_keywords", "101 entries; write at most 100"),
        ({"query": None}, "query", "Field required"),
        ({"query": ["a"]}, "query", "valid string"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    served: Serving, path: str, body: dict[str, Any], field: str, message: str
):
    answer = served.ask(path, **body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (422, "invalid_request")
    assert [fault["field"] for fault in error["fields"]] == [field]
    assert message in error["fields"][0]["message"]
    assert message in error["message"]
    assert "secret-value" not in answer.text
    assert "Value error" not in answer.text


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 422), (b"{", 422), (b"[]", 422), (b"\xff\xfe", 422), (b"null", 422),
        (b"[" * 100_000, 400)],
    ids=["empty", "broken", "list", "no text", "null", "deep"],
)  # fmt: skip
def test_a_body_that_is_no_object(served: Serving, content: bytes, status: int):
    answer = served.client.post(
        "/query", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request"


def test_a_body_without_its_header_is_told_which_one(served: Serving):
    # As curl -d sends it.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = served.client.post("/query", content=b'{"query": "Who?"}', headers=form)
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["error"]["message"]


def test_white_space_is_no_question(served: Serving):
    for path in PATHS:
        answer = served.ask(path, query=" \n\t ")
        assert (answer.status_code, answer.json()["error"]["type"]) == (422, "invalid_request")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_texts(served: Serving, text: str):
    for path in PATHS:
        answer = served.ask(
            path, query=f"Who? {text}", mode="mix", ll_keywords=[text[:1000]], response_type=text
        )
        assert answer.status_code == 200, answer.text
        assert answer.text.isprintable() or "\x1b" not in answer.text


def test_a_lone_surrogate_is_no_text(served: Serving):
    body = b'{"query": "\\ud800 who?"}'
    answer = served.client.post(
        "/query", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 422)
    assert answer.json()


def test_numbers_beyond_all_measure(served: Serving):
    for number in (10**9, 2**31, 2**62):
        answer = served.ask("/query/data", top_k=number, chunk_top_k=number)
        assert answer.status_code in (200, 422), answer.text


def test_other_paths_and_methods_fail_in_the_same_form(served: Serving):
    missing, wrong = served.client.get("/nothing"), served.client.get("/query")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (405, "method_not_allowed")
    for answer in (missing, wrong):
        assert "/openapi.json" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("error", "status", "type", "told"),
    [
        (UsageError("query: fact; action"), 422, "invalid_request", True),
        (NothingLoadedError("nothing"), 503, "nothing_loaded", True),
        (OtherOwnerError("theirs"), 503, "other_owner", True),
        (SettingsError("settings"), 500, "settings", True),
        (StoreError("gone"), 503, "store_unavailable", True),
        (ModelError("silent"), 502, "model_failed", True),
        (AuthError("refused"), 502, "model_key_refused", True),
        (DataError("newer"), 500, "failed", True),
        (KeyError("secret-value"), 500, "internal", False),
    ],
)
def test_errors_have_a_status_and_a_type(
    error: Exception, status: int, type: str, told: bool, caplog: pytest.LogCaptureFixture
):
    failure, withheld = (
        failure_of(error, sees_internals=True),
        failure_of(error, sees_internals=False),
    )
    assert {(one.status, one.type) for one in (failure, withheld)} == {(status, type)}
    assert (str(error) in failure.message) == told
    assert (str(error) in withheld.message) == (type in ("invalid_request", "nothing_loaded"))
    assert "secret-value" not in failure.message + caplog.text


def test_the_document_is_valid_and_tells_the_truth(served: Serving, schema: dict[str, Any]):
    validate(schema)
    assert {"/query", "/query/stream", "/query/data", "/health"} <= schema["paths"].keys()
    fields = schema["components"]["schemas"]["Query"]
    assert fields["properties"].keys() == QueryRequest.model_fields.keys()
    assert fields["additionalProperties"] is False
    for path, body in answers(served):
        content = schema["paths"][path]["post" if path != "/health" else "get"]["responses"]["200"][
            "content"
        ]
        promised = {**content["application/json"]["schema"], "components": schema["components"]}
        assert not list(OAS31Validator(promised).iter_errors(body))
    for example in fields["examples"]:
        assert served.client.post("/query/data", json=example).status_code == 200


def answers(served: Serving) -> Iterator[tuple[str, Any]]:
    yield "/query", served.ask().json()
    yield "/query", served.client.post("/query?include=evidence", json={"query": QUESTION}).json()
    yield "/query/data", served.ask("/query/data").json()
    yield "/health", served.client.get("/health").json()
