"""The OpenAI protocol's JSON, as the test endpoint reads and writes it."""

import base64
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.servers.openai_replies import Reply, content_of, count_tokens, embed

KINDS = {"/v1/models": "models", "/v1/chat/completions": "chat", "/v1/embeddings": "embeddings"}
STORED = ("files", "batches")
MODELS = ("gpt-4o-mini", "text-embedding-3-small")


@dataclass(frozen=True)
class Request:
    """One request, or one row of a batch (kind "batch"), and its answer.

    ``status`` 0: the connection was dropped or held; a failure costs no tokens. ``at`` is the
    monotonic time of arrival. Requests for files and batches have the kinds "files" and "batches"
    and cost nothing.
    """

    kind: str
    model: str
    body: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]
    inputs: Sequence[str]
    prompt_tokens: int
    completion_tokens: int = 0
    status: int = 200
    at: float = 0.0
    method: str = "POST"
    path: str = ""
    custom_id: str = ""  # of a row of a batch
    fault: str = ""


@dataclass(frozen=True)
class Counting:
    """How tokens are counted: those of a text, and how many a message and a chat request have
    beside their texts."""

    text: Callable[[str], int] = count_tokens
    a_message: int = 0
    a_request: int = 0

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> int:
        own = sum(self.text(content_of(message)) + self.a_message for message in messages)
        return own + self.a_request if messages else 0


def read_request(
    method: str, path: str, body: Mapping[str, Any], counting: Counting, custom_id: str = ""
) -> Request | None:
    """The request that arrives now; None where there is no such path."""
    kind = kind_of(path)
    if kind is None:
        return None
    messages, inputs = body.get("messages", []), inputs_of(body)
    tokens = counting.prompt(messages) + sum(map(counting.text, inputs))
    model, at = str(body.get("model", "")), time.monotonic()
    return Request(
        kind,
        model,
        body,
        messages,
        inputs,
        tokens,
        at=at,
        method=method,
        path=path,
        custom_id=custom_id,
    )


def kind_of(path: str) -> str | None:
    name = path.removeprefix("/v1/").partition("/")[0]
    return KINDS.get(path) or (name if path.startswith("/v1/") and name in STORED else None)


def inputs_of(body: Mapping[str, Any]) -> list[str]:
    """The texts to embed; token ids are taken as words."""
    given = body.get("input", [])
    if isinstance(given, str) or (given and isinstance(given[0], int)):
        given = [given]
    return [text if isinstance(text, str) else " ".join(map(str, text)) for text in given]


def completion_tokens(request: Request, reply: Reply, counting: Counting) -> int:
    if request.kind != "chat":
        return 0
    return reply.thinking + (
        counting.text(reply.text) if reply.text else 0 if reply.thinking else counting.text("")
    )


def usage_json(request: Request, reply: Reply) -> dict[str, dict[str, Any]]:
    """Return the answer's ``usage`` entry, as the reply reports it; an empty dict where it reports
    none."""
    if reply.usage in ("none", False):
        return {}
    prompt, completion = request.prompt_tokens, request.completion_tokens
    if reply.usage == "zeros":
        prompt = completion = 0
    usage: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + completion}
    if request.kind == "chat":
        usage["completion_tokens"] = completion
    if reply.thinking:
        usage["completion_tokens_details"] = {"reasoning_tokens": reply.thinking}
    return {"usage": usage}


def error_json(status: int, message: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    code = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}.get(status)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {
        "error": {"message": message, "type": kind, "param": None, "code": code, **(more or {})}
    }


def models_json() -> dict[str, Any]:
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in MODELS]
    return {"object": "list", "data": data}


def chat_json(request: Request, reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": reply.finish_reason,
    }
    return {**head("chat.completion", request), "choices": [choice]}


def stream_events(request: Request, reply: Reply) -> list[dict[str, Any]]:
    start = head("chat.completion.chunk", request)
    text = reply.text or ""
    pieces = [text[i : i + 8] for i in range(0, len(text), 8)]
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
    events = [
        {**start, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas
    ]
    events.append(
        {**start, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]}
    )
    usage = usage_json(request, reply)
    if usage and (request.body.get("stream_options") or {}).get("include_usage"):
        events.append({**start, "choices": [], **usage})
    return events


def head(kind: str, request: Request) -> dict[str, Any]:
    return {"id": "chatcmpl-test", "object": kind, "created": 0, "model": request.model}


def embeddings_json(request: Request, reply: Reply, dimensions: int) -> dict[str, Any]:
    size = request.body.get("dimensions") or dimensions
    texts = request.inputs[: len(request.inputs) - reply.missing_vectors]
    pack = base64_floats if request.body.get("encoding_format") == "base64" else list
    data = [
        {"object": "embedding", "index": i, "embedding": pack(embed(text, size))}
        for i, text in enumerate(texts)
    ]
    return {"object": "list", "data": data, "model": request.model}


def base64_floats(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
