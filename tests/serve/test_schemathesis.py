"""Requests drawn from /openapi.json, right ones and wrong ones, by a key that may see some
documents only."""

import warnings
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode

from pipeline.runs.reports import Runs
from tests.projects import ProjectFolder
from tests.serve.serving import Serving, serving
from tests.sizes import size

EXAMPLES = size(10, 400)
"""Of each operation, of right and of wrong requests each."""
LONGEST_SECONDS = 5.0
"""That an answer may take, on a machine that does other work. A request without limits took a
minute."""
OPERATIONS = [
    ("POST", "/query"),
    ("POST", "/query/data"),
    ("POST", "/query/stream"),
    ("GET", "/health"),
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
]
WRITES = [
    ("GET", "/v1/documents"),
    ("POST", "/v1/documents"),
    ("GET", "/v1/documents/{id}"),
    ("PUT", "/v1/documents/{id}"),
    ("DELETE", "/v1/documents/{id}"),
    ("POST", "/v1/runs"),
    ("GET", "/v1/runs/{id}"),
]
"""Operations of a writer. No run begins, for the test holds the project."""
NEEDS_ONE = {"GET /v1/documents/{id}", "DELETE /v1/documents/{id}", "GET /v1/runs/{id}"}
"""Operations that are about something that no drawn id names."""
CHAT = "/v1/chat/completions"
KEYS = [
    "serve.keys={narrow: {key: narrow, where: {nowhere: {exists: false}}}, other: {key: other},"
    " writer: {key: writer, writer: true}}",
    "serve.read_only=false",
]
HEADERS = {"X-API-Key": "narrow"}
WRITER = {"X-API-Key": "writer"}
OWN = frozenset({"x-api-key", "authorization"})
"""Headers that the client sends, whatever is drawn."""
DRAWN = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)


@pytest.fixture(scope="module")
def narrow(folder: ProjectFolder) -> Iterator[Serving]:
    with (
        folder.open(*KEYS) as project,
        serving(project) as served,
        Runs.of(folder.root).alone(),
    ):
        yield served


def test_all_operations_are_asked(narrow: Serving):
    paths = narrow.client.get("/openapi.json", headers=HEADERS).json()["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == set(
        OPERATIONS + WRITES
    )


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), OPERATIONS + WRITES)
def test_no_request_fails_the_server_or_takes_long(
    narrow: Serving, method: str, path: str, mode: GenerationMode
):
    key = WRITER if (method, path) in WRITES else HEADERS
    with httpx2.Client(base_url=narrow.url, headers=key, timeout=60) as client:
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        operation = schema[path][method]
        statuses: list[int] = []

        def ask(case: Case) -> None:
            asked = case.as_transport_kwargs(base_url=narrow.url)
            headers = {
                name: value
                for name, value in (asked.get("headers") or {}).items()
                if name.lower() not in OWN
            }
            body: dict[str, Any] = {"content": _bytes(asked.get("data"))}
            if "json" in asked:
                body = {"json": asked["json"]}
                if path == CHAT and isinstance(asked["json"], dict):
                    # No drawn name is that of a workspace.
                    asked["json"].pop("model", None)
            elif asked.get("files"):
                body = {"files": [(name, _as_bytes(value)) for name, value in asked["files"]]}
            answer = client.request(
                asked["method"], asked["url"], params=asked.get("params"), headers=headers, **body
            )
            statuses.append(answer.status_code)
            assert answer.status_code < 500, answer.text
            assert answer.elapsed.total_seconds() < LONGEST_SECONDS
            assert b"event: error" not in answer.content
            assert not answer.content.startswith(b'data: {"error"')

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Schemathesis tells of schemas that it cannot make wrong
            try:
                cases = operation.as_strategy(generation_mode=mode)
                DRAWN(given(cases)(ask))()
            except Exception as error:
                if not _cannot_be_wrong(error):
                    raise
                pytest.skip("every request of this operation is a right one")
    assert statuses
    if mode is GenerationMode.POSITIVE and f"{method} {path}" not in NEEDS_ONE:
        # Otherwise nothing but refusals was looked at.
        assert {200, 202} & set(statuses)


def _cannot_be_wrong(error: Exception) -> bool:
    return type(error).__name__ in ("Unsatisfiable", "InvalidArgument", "SkipTest")


def _bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _as_bytes(value: Any) -> bytes:
    """Return a drawn file as its bytes; a wrong one may be a number."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")
