"""The rows of a batch: what its input file asks for, and what its output and error files say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tests.servers.openai_answers import answer, answer_json
from tests.servers.openai_shapes import Request, error_json, read_request

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer

EXPIRED = "This request was not executed before its batch expired."


@dataclass(frozen=True)
class Row:
    custom_id: str
    url: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Answered:
    """One line of the output file (if ``ok``) or of the error file; ``request`` is None if it was
    not executed."""

    line: Mapping[str, Any]
    ok: bool
    request: Request | None


def read_rows(content: bytes, endpoint: str) -> tuple[list[Row], list[dict[str, Any]]]:
    """(the rows, what is wrong with the file as the batch's ``errors`` have it)."""
    rows: dict[str, Row] = {}
    errors = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        try:
            given = json.loads(line)
            row = Row(given["custom_id"], given["url"], given["body"])
            method = given["method"]
        except (ValueError, KeyError, TypeError):
            errors.append(
                row_error("invalid_json_line", "This line is not the JSON of a request.", number)
            )
            continue
        if row.custom_id in rows:
            errors.append(
                row_error(
                    "duplicate_custom_id", f"custom_id {row.custom_id} is used twice.", number
                )
            )
        elif (method, row.url) != ("POST", endpoint):
            errors.append(
                row_error("mismatched_url", f"{method} {row.url} is not POST {endpoint}.", number)
            )
        elif rows and row.body.get("model") != next(iter(rows.values())).body.get("model"):
            errors.append(
                row_error(
                    "mismatched_model", "All rows of a batch have to name the same model.", number
                )
            )
        rows.setdefault(row.custom_id, row)
    if not rows and not errors:
        errors.append(row_error("empty_file", "The input file holds no request.", None))
    return list(rows.values()), errors


def row_error(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": None}


def run_row(endpoint: "OpenAIServer", row: Row) -> Answered:
    """Answer a row as a direct request would be, except for what was scripted for rows."""
    request = read_request("POST", row.url, row.body, endpoint.counting, row.custom_id)
    assert request is not None
    if (failed := endpoint.fail_batch_rows(row.custom_id)) is True:
        message = "This row failed, as told."
        return Answered(
            line(row, None, {"code": "server_error", "message": message}), False, fail(request, 500)
        )
    if failed:
        return Answered(line(row, response(failed, error_json(failed, "This row failed, as told."))), False,  # noqa: E501
                        fail(request, failed))  # fmt: skip
    request, reply = answer(endpoint, request)
    kept = replace(request, kind="batch")
    if reply.hold or reply.drop:
        return Answered(
            line(row, response(504, error_json(504, "No answer came in time."))), False, kept
        )
    if reply.status >= 400:
        return Answered(
            line(row, response(reply.status, error_json(reply.status, reply.text or ""))),
            False,
            kept,
        )
    body = (
        reply.raw.decode()
        if reply.raw is not None
        else answer_json(request, reply, endpoint.dimensions)
    )
    return Answered(line(row, response(200, body)), True, kept)


def expire_row(row: Row) -> Answered:
    return Answered(line(row, None, {"code": "batch_expired", "message": EXPIRED}), False, None)


def fail(request: Request, status: int) -> Request:
    return replace(request, kind="batch", prompt_tokens=0, status=status)


def response(status: int, body: Any) -> dict[str, Any]:
    return {"status_code": status, "request_id": "req_test", "body": body}


def line(
    row: Row, response: Mapping[str, Any] | None, error: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    number = crc32(row.custom_id.encode("utf-8", "surrogatepass"))
    return {
        "id": f"batch_req_{number:08x}",
        "custom_id": row.custom_id,
        "response": response,
        "error": error,
    }


def jsonl(answered: list[Answered]) -> bytes:
    """Not in the order of the input, which is not promised either."""
    lines = sorted((row.line for row in answered), key=lambda line: (line["id"], line["custom_id"]))
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
