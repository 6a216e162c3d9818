"""The requests of the test endpoint for files and batches."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from tests.servers.openai_files import RequestError, read_multipart

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer


def answer_stored(
    endpoint: "OpenAIServer", method: str, path: str, query: str, content_type: str, body: bytes
) -> Mapping[str, Any] | bytes:
    """The JSON, or the content of a file. Raises RequestError."""
    asked = dict(parse_qsl(query))
    match method, path.removeprefix("/v1/").split("/"):
        case "POST", ["files"]:
            return upload(endpoint, content_type, body)
        case "GET", ["files"]:
            return endpoint.file_store.page(asked)
        case "GET", ["files", id]:
            return endpoint.file_store.find(id).as_json()
        case "GET", ["files", id, "content"]:
            return endpoint.file_store.find(id).content
        case "DELETE", ["files", id]:
            return endpoint.file_store.delete(id)
        case "POST", ["batches"]:
            return endpoint.batch_store.create(read_json(body)).as_json()
        case "GET", ["batches"]:
            return endpoint.batch_store.page(asked)
        case "GET", ["batches", id]:
            return endpoint.batch_store.poll(id).as_json()
        case "POST", ["batches", id, "cancel"]:
            return endpoint.batch_store.cancel(id).as_json()
        case _:
            raise RequestError(404, f"Unknown request URL: {method} {path}.")


def upload(endpoint: "OpenAIServer", content_type: str, body: bytes) -> Mapping[str, Any]:
    parts = read_multipart(content_type, body)
    if not {"file", "purpose"} <= parts.keys():
        raise RequestError(400, "'file' and 'purpose' are required.")
    file, purpose = parts["file"], parts["purpose"].content.decode()
    if len(file.content) > endpoint.max_file_bytes:
        raise RequestError(400, "File is too large.")
    return endpoint.file_store.add(file.filename, purpose, file.content).as_json()


def read_json(body: bytes) -> Mapping[str, Any]:
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        raise RequestError(400, "The body is not JSON.") from error
