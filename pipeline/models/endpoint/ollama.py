"""Chat models of Ollama, called by Ollama's own protocol
(https://github.com/ollama/ollama/blob/main/docs/api.md).

Under /v1, Ollama accepts no num_ctx and cuts longer prompts silently. Its own protocol accepts
num_ctx with every call.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline.errors import ModelError, NoSuchModelError
from pipeline.models.base import NO_TOKENS, ChatRequest, Tokens
from pipeline.models.cache.replies import Completion
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.client import (
    PREFLIGHT_SECONDS,
    Endpoint,
    Failure,
    UselessAnswerError,
    sendable,
)
from pipeline.models.endpoint.pictures import base64_of
from pipeline.models.endpoint.remote_model import PROBE_SECONDS
from pipeline.models.endpoint.reply_limits import Limit
from pipeline.models.endpoint.streams import Chunk, StreamedError, json_object, lines_in_time
from pipeline.models.endpoint.token_counts import reported_tokens, written_text
from pipeline.text.ids import clean

if TYPE_CHECKING:
    from openai import OpenAI, Stream


ADDRESS = "http://localhost:11434"
CHAT, SHOW = "/api/chat", "/api/show"
NUM_CTX = 8192
"""Default window in tokens. An extraction from a text unit of usual size needs half of it, its
reply included. A larger window takes more of the machine's memory for each concurrent request."""
NEARLY_FULL, FAR_BELOW = 0.8, 0.8
"""Shares of the window and of our count of a prompt. A prompt was cut if it nearly fills the window
by our count, and the server read far fewer tokens of it. A low count alone may result from the
server's own prompt cache."""
WHOLE = 0.99
"""Share of the window. A prompt that fills this much leaves no room for a reply, so the server has
cut it to fit."""
NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
"""Ollama's names of the options in the settings."""
NO_THINKING = ("none", "minimal")


class UnreadPromptError(UselessAnswerError):
    """The server has silently cut a prompt and answered the rest. The reply is billed but of no
    use."""


def native_address(base_url: str) -> str:
    """Return the server's address without the path of the OpenAI protocol.

    OPENAI_BASE_URL often contains that path. An empty address becomes Ollama's default.
    """
    return base_url.rstrip("/").removesuffix("/v1").removesuffix("/api") or ADDRESS


@dataclass(frozen=True)
class OllamaEndpoint(Endpoint):
    """Endpoint of an Ollama server. ``base_url`` has no path of a protocol."""

    provider: ClassVar[str] = "ollama"
    has_batches: ClassVar[bool] = False

    def probe(self) -> Failure | None:
        """Request the server's description of the model, which costs nothing. Return the failure,
        or None.

        Raises NoSuchModelError for a model that has not been pulled.
        """
        description = self.call(lambda client: self._show(client, PREFLIGHT_SECONDS))
        if not isinstance(description, Failure):
            return None
        if isinstance(description.fatal, NoSuchModelError):
            raise description.fatal
        return description

    def context_length(self) -> int | None:
        """Return the number of tokens that the model itself can read, or None if the server does
        not say.

        Raises the error of the failure if the server does not answer.
        """
        description = self.call(lambda client: self._show(client, self.timeout))
        if isinstance(description, Failure):
            raise description.fatal or ModelError(
                f"{self.where}: {description.message}; check the server"
            )
        info = description.get("model_info") or {}
        length = info.get(f"{info.get('general.architecture')}.context_length")
        return length if isinstance(length, int) else None

    def failure(self, error: Exception) -> Failure:
        if isinstance(error, UnreadPromptError):
            # The failure has no status, because no other form of the same prompt avoids it.
            return Failure("too_long", str(error), tokens=error.tokens)
        return super().failure(error)

    def refusal(self, status: int, detail: str) -> Failure:
        """Return the failure of a refused call. Status 404 means a missing model or another kind of
        server."""
        if status != 404:
            return super().refusal(status, detail)
        message = f"HTTP 404: {self._safe(detail)}"
        if "model" in detail and "not found" in detail:
            fact = f"{self.where}: {self.address} has not pulled the model '{self.model}'"
            missing = NoSuchModelError(
                f"{fact}; run 'ollama pull {self.model}', or correct {self.where}.model"
            )
        else:
            fact = f"{self.where}: {self.address} is no Ollama server ({message})"
            missing = NoSuchModelError(f"{fact}; correct base_url, or remove provider: ollama")
        return Failure("bad_request", message, fatal=missing)

    def _show(self, client: "OpenAI", seconds: float) -> dict[str, Any]:
        """Return the server's description of the model, or {} if the answer is no object."""
        description = client.with_options(timeout=seconds).post(
            SHOW, cast_to=object, body={"model": self.model}
        )
        return description if isinstance(description, dict) else {}


@dataclass(frozen=True)
class OllamaChat(OpenAIChat):
    """ChatModel of Ollama. Only the protocol differs from OpenAIChat.

    ``num_ctx``: the window in tokens, for prompt and reply together. It is not part of the
    identity, because it changes no reply that is kept as good: a prompt that does not fit is
    refused, and a reply that does not fit ends with "length". ``keep_alive``: how long the model
    stays loaded, in Ollama's notation ("10m"; seconds; -1 for ever); "" is the server's default.
    """

    num_ctx: int = NUM_CTX
    keep_alive: str = ""

    @property
    def window(self) -> int:
        """Window in tokens. A value in ``extra_body`` has precedence, because it is sent last."""
        own = (self.options.get("extra_body") or {}).get("options") or {}
        return own.get("num_ctx", self.num_ctx)

    def send_smallest_call(self, client: "OpenAI") -> Tokens:
        """Request the server's description of the model.

        A chat call would load the model, which may take long.
        """
        client.with_options(timeout=PROBE_SECONDS).post(
            SHOW, cast_to=object, body={"model": self.model}
        )
        return NO_TOKENS

    def body(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """Return the JSON body of the request, except ``stream``."""
        own = {NAMES[name]: value for name, value in self.options.items() if name in NAMES}
        more = dict(self.options.get("extra_body", {}))
        limits = {"num_predict": limit.tokens} if limit else {}
        messages: list[dict[str, Any]] = [
            {**message, "content": sendable(message["content"])} for message in request.messages
        ]
        if request.picture:
            messages[-1]["images"] = [base64_of(request.picture)]
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "options": {"num_ctx": self.window, **limits, **own, **more.pop("options", {})},
            # Older servers ignore these two and cut the prompt, which refuse_unread detects.
            "truncate": False,
            "shift": False,
        }
        if "reasoning_effort" in self.options:
            effort = self.options["reasoning_effort"]
            body["think"] = False if effort in NO_THINKING else effort
        if self.keep_alive:
            body["keep_alive"] = _duration(self.keep_alive)
        if request.response_format:
            body["format"] = _format(request.response_format)
        return body | more

    def _fetch(
        self, request: ChatRequest, client: "OpenAI", limit: Limit | None
    ) -> tuple[Completion, Tokens, bool]:
        """Send the request. Return the reply, its tokens, and whether the answer reports hidden
        thinking.

        Raises UnreadPromptError if the server has read only a part of the prompt.
        """
        stream = self._post(request, client, stream=False, limit=limit)
        answer = self.endpoint.fetch(_open_response(stream))
        if answer.get("error"):
            raise StreamedError(answer["error"])
        chunk = self._chunk(answer)
        reported = reported_tokens(chunk.usage)
        completion = Completion(
            clean(chunk.text), chunk.finish_reason or "stop", reported.input, reported.output
        )
        counted, tokens = self.with_counts(
            completion, reported, lambda: self.count(request), chunk.written
        )
        self.refuse_unread(request, tokens._replace(input=reported.input))
        message = answer.get("message") or {}
        return counted, tokens, bool(message.get("thinking"))

    def _open(
        self, request: ChatRequest, limit: Limit | None, client: "OpenAI"
    ) -> tuple[Any, Tokens]:
        return self._post(request, client, stream=True, limit=limit), NO_TOKENS

    def _read_chunks(self, stream: "Stream[Any]") -> Iterator[Chunk]:
        """Yield the chunks of a stream, which has one JSON object on each line."""
        for line in lines_in_time(stream.response.iter_bytes(), self.timeout):
            if line.strip():
                yield self._chunk(json_object(line))

    def _post(
        self, request: ChatRequest, client: "OpenAI", stream: bool, limit: Limit | None = None
    ) -> "Stream[Any]":
        """Send the request and return the open answer. Its bytes are read later, even if it is no
        stream."""
        from openai import Stream

        body = {**self.body(request, limit), "stream": stream}
        return client.post(CHAT, cast_to=object, body=body, stream=True, stream_cls=Stream[object])

    def _chunk(self, answer: Mapping[str, Any]) -> Chunk:
        """Return the chunk in a JSON object of an answer. The last object has the token counts."""
        message = answer.get("message") or {}
        text = message.get("content") or ""
        all_text = written_text(message)
        if not answer.get("done"):
            return Chunk(text, written=all_text)
        read = answer.get("prompt_eval_count") or 0
        written = answer.get("eval_count") or 0
        usage = SimpleNamespace(prompt_tokens=read, completion_tokens=written)
        finish_reason = answer.get("done_reason") or "stop"
        # Older servers continue in a full window by forgetting its beginning. Such a reply counts
        # as cut off.
        if read + written >= self.window:
            finish_reason = "length"
        return Chunk(text, finish_reason, usage, all_text)

    def refuse_unread(self, request: ChatRequest, billed: Tokens) -> None:
        """Raise UnreadPromptError if the server has read only a part of the prompt."""
        read = billed.input
        sent = self.count(request)
        leaves_room = read < WHOLE * self.window
        is_nearly_full = sent > NEARLY_FULL * self.window
        is_count_too_low = 0 < read < FAR_BELOW * sent
        if leaves_room and not (is_nearly_full and is_count_too_low):
            return
        fact = (
            f"the server has read {read:,} tokens of a prompt of about {sent:,}: more than its"
            " context length"
        )
        raise UnreadPromptError(f"{fact} (n_ctx: {self.window})", billed)


@contextmanager
def _open_response(stream: "Stream[Any]") -> "Iterator[Any]":
    """Yield the response of a stream, and close the stream at the end of the block."""
    with stream:
        yield stream.response


def _format(response_format: Mapping[str, Any]) -> Any:
    """Return a JSON schema in Ollama's form, or "json" if only JSON is requested."""
    schema = (response_format.get("json_schema") or {}).get("schema")
    return schema or "json"


def _duration(keep_alive: str) -> str | int:
    """Return seconds as a number, because Ollama accepts no duration without a unit as text."""
    try:
        return int(keep_alive)
    except ValueError:
        return keep_alive
