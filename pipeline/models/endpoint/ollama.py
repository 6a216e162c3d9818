"""Speak to chat models of Ollama, by its own protocol
(https://github.com/ollama/ollama/blob/main/docs/api.md).

Under /v1 Ollama takes no num_ctx, and cuts longer prompts without a word. Its own protocol takes
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
from pipeline.models.endpoint.attempts import SECONDS_OF_A_LOOK
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.client import (
    PREFLIGHT_SECONDS,
    Endpoint,
    Failure,
    UselessAnswerError,
    sendable,
)
from pipeline.models.endpoint.reply_limits import Limit
from pipeline.models.endpoint.streams import Chunk, StreamedError, json_object, lines_in_time
from pipeline.models.endpoint.token_counts import reported_tokens, written_text
from pipeline.text.ids import clean

if TYPE_CHECKING:
    from openai import OpenAI, Stream


ADDRESS = "http://localhost:11434"
CHAT, SHOW = "/api/chat", "/api/show"
NUM_CTX = 8192
"""Tokens of the window by default: an extraction of a text unit of usual size takes half of them,
its reply included. A larger window takes more of the machine's memory, for each request that is
answered at once."""
NEARLY_FULL, FAR_BELOW = 0.8, 0.8
"""Shares of the window and of our count of a prompt. A prompt was cut if it nearly fills the window
by our count, and the server read far fewer tokens of it. A low count alone may be the work of the
server's own cache of prompts."""
WHOLE = 0.99
"""A share of the window. A prompt that takes so much leaves no room for a reply: the server has cut
it to fit."""
NAMES = {
    "temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop",
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict", "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}  # fmt: skip
"""The name of an option in settings -> its name for Ollama."""
NO_THINKING = ("none", "minimal")


class UnreadPromptError(UselessAnswerError):
    """The server has cut a prompt without a word, and answered the rest. Its reply is billed, and
    of no use."""


def native_address(base_url: str) -> str:
    """Return the server's address without the path of the OpenAI protocol, which many have in
    OPENAI_BASE_URL."""
    return base_url.rstrip("/").removesuffix("/v1").removesuffix("/api") or ADDRESS


@dataclass(frozen=True)
class OllamaEndpoint(Endpoint):
    """Speak to a server of Ollama. ``base_url`` has no path of a protocol."""

    provider: ClassVar[str] = "ollama"
    has_batches: ClassVar[bool] = False

    def look(self) -> Failure | None:
        """Ask what the server knows of the model, which costs nothing; return why that failed, or
        None.

        Raises NoSuchModelError for a model that is not pulled.
        """
        told = self.call(lambda client: self._show(client, PREFLIGHT_SECONDS))
        if not isinstance(told, Failure):
            return None
        if isinstance(told.fatal, NoSuchModelError):
            raise told.fatal
        return told

    def context_length(self) -> int | None:
        """Return the tokens that the model itself can read; None if the server does not say.

        Raises the error of the failure if the server does not answer.
        """
        told = self.call(lambda client: self._show(client, self.timeout))
        if isinstance(told, Failure):
            raise told.fatal or ModelError(f"{self.where}: {told.message}; look at the server")
        info = told.get("model_info") or {}
        length = info.get(f"{info.get('general.architecture')}.context_length")
        return length if isinstance(length, int) else None

    def failure(self, error: Exception) -> Failure:
        if isinstance(error, UnreadPromptError):
            # Without a status: this is no refusal that the same prompt in another form could avoid.
            return Failure("too_long", str(error), tokens=error.tokens)
        return super().failure(error)

    def refusal(self, status: int, detail: str) -> Failure:
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
        told = client.with_options(timeout=seconds).post(
            SHOW, cast_to=object, body={"model": self.model}
        )
        return told if isinstance(told, dict) else {}


@dataclass(frozen=True)
class OllamaChat(OpenAIChat):
    """Ask a chat model of Ollama. Only the protocol differs from OpenAIChat.

    ``num_ctx``: the window in tokens, prompt and reply together. It is not part of the identity: a
    prompt that does not fit is refused, and a reply that does not fit ends with "length", so it
    changes no reply that is kept as good. ``keep_alive``: how long the model stays loaded, as
    Ollama writes it ("10m"; seconds; -1 for ever); "" is the server's own.
    """

    num_ctx: int = NUM_CTX
    keep_alive: str = ""

    @property
    def window(self) -> int:
        """Return the tokens of the window: those of ``extra_body`` if it names them, because they
        are sent last."""
        own = (self.options.get("extra_body") or {}).get("options") or {}
        return own.get("num_ctx", self.num_ctx)

    def look(self, client: "OpenAI") -> Tokens:
        """Ask what the server knows of the model: it loads a model when it is first asked, which
        may take long."""
        client.with_options(timeout=SECONDS_OF_A_LOOK).post(
            SHOW, cast_to=object, body={"model": self.model}
        )
        return NO_TOKENS

    def body(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """Return the JSON that is sent, but for ``stream``."""
        own = {NAMES[name]: value for name, value in self.options.items() if name in NAMES}
        more = dict(self.options.get("extra_body", {}))
        limits = {"num_predict": limit.tokens} if limit else {}
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {**message, "content": sendable(message["content"])} for message in request.messages
            ],
            "options": {"num_ctx": self.window, **limits, **own, **more.pop("options", {})},
            # Older servers know neither of the two, and cut: refuse_unread finds that out.
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
        answer = self.endpoint.fetch(
            _answering(self._post(request, client, stream=False, limit=limit))
        )
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
        return counted, tokens, bool((answer.get("message") or {}).get("thinking"))

    def _open(
        self, request: ChatRequest, limit: Limit | None, client: "OpenAI"
    ) -> tuple[Any, Tokens]:
        return self._post(request, client, stream=True, limit=limit), NO_TOKENS

    def _chunks(self, stream: "Stream[Any]") -> Iterator[Chunk]:
        """Yield what comes of a stream of JSON objects, one on each line."""
        for line in lines_in_time(stream.response.iter_bytes(), self.timeout):
            if line.strip():
                yield self._chunk(json_object(line))

    def _post(
        self, request: ChatRequest, client: "OpenAI", stream: bool, limit: Limit | None = None
    ) -> "Stream[Any]":
        """Send the request; the answer's bytes are read later, whether it is streamed or not."""
        from openai import Stream

        body = {**self.body(request, limit), "stream": stream}
        return client.post(CHAT, cast_to=object, body=body, stream=True, stream_cls=Stream[object])

    def _chunk(self, said: Mapping[str, Any]) -> Chunk:
        message = said.get("message") or {}
        text, all_text = message.get("content") or "", written_text(message)
        if not said.get("done"):
            return Chunk(text, written=all_text)
        read, written = said.get("prompt_eval_count") or 0, said.get("eval_count") or 0
        usage = SimpleNamespace(prompt_tokens=read, completion_tokens=written)
        # Older servers go on in a full window by forgetting its beginning: such a reply is as good
        # as cut off.
        full = read + written >= self.window
        return Chunk(text, "length" if full else said.get("done_reason") or "stop", usage, all_text)

    def refuse_unread(self, request: ChatRequest, billed: Tokens) -> None:
        """Raise UnreadPromptError for a prompt of which the server has read only a part."""
        read = billed.input
        sent = self.count(request)
        whole = read < WHOLE * self.window
        nearly_full = sent > NEARLY_FULL * self.window
        if whole and not (nearly_full and 0 < read < FAR_BELOW * sent):
            return
        said = (
            f"the server has read {read:,} tokens of a prompt of about {sent:,}: more than its"
            " context length"
        )
        raise UnreadPromptError(f"{said} (n_ctx: {self.window})", billed)


@contextmanager
def _answering(stream: "Stream[Any]") -> "Iterator[Any]":
    with stream:
        yield stream.response


def _format(response_format: Mapping[str, Any]) -> Any:
    """Return a JSON schema as Ollama takes it, or "json" where only JSON is asked for."""
    schema = (response_format.get("json_schema") or {}).get("schema")
    return schema or "json"


def _duration(keep_alive: str) -> str | int:
    """Return seconds as a number: Ollama reads a text without a unit as no duration."""
    try:
        return int(keep_alive)
    except ValueError:
        return keep_alive
