"""Endpoints that support the OpenAI protocol: the client, and the meaning of its failures.

No message contains the API key.
"""

import hashlib
import json
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pipeline.errors import (
    AuthError,
    GraphmillError,
    ModelError,
    NoSuchModelError,
    SettingsError,
    in_words,
)
from pipeline.models.base import NO_TOKENS, PictureChangedError, Tokens
from pipeline.models.conversations import made_once
from pipeline.models.endpoint.connection import SHORTEST_SECRET, Connection

if TYPE_CHECKING:
    from openai import APIResponse, OpenAI


Answer = TypeVar("Answer")
OPENAI = "https://api.openai.com/v1"
PREFLIGHT_SECONDS = 4.0
CONNECT_SECONDS = 10.0
LONGEST_DETAIL = 300
"""Length in characters at which a server's own message is cut."""
SURROGATES = re.compile("[\ud800-\udfff]")

REFUSED_BY_POLICY = re.compile(
    r"content.?filter|content.?(management|usage)?.?polic|responsible.?ai|moderation|safety system"
)
TOO_LONG = re.compile(
    r"context.?(length|window|size)|maximum.{0,20}(tokens|length)|too (long|many"
    r" tokens)|above_max_length"
    r"|max_tokens_per_request|reduce the length|exceeds?.{0,40}(tokens|length)|too large to process"
)
TOO_LARGE = re.compile(r"^(rate_limit_exceeded )?request too large")
"""A single call has more tokens than the endpoint allows in a minute."""
NO_SUCH_MODEL = re.compile(r"^(model_not_found\b|(the )?model\b.{0,60}\b(does not|not) exist)")


class OverdueError(ValueError):
    """The answer has not ended within the time limit of a call."""


class UselessAnswerError(ValueError):
    """An answer without a reply. ``tokens`` is what the call cost all the same."""

    def __init__(self, fact: str, tokens: Tokens):
        super().__init__(fact)
        self.tokens = tokens


@dataclass(frozen=True)
class Failure:
    """Reason why a call got no reply: the reason code of a reject, and a message for users.

    ``fatal`` is the error to raise if no other call can succeed: the key is refused (401, 403), the
    account has no credit (402, or 429 that says so), the model is missing (404, 405, or a text that
    says so), or the certificate is not trusted. ``answered``: anything came back.
    ``listens``: something accepted the connection. ``refused``: the machine exists, but nothing
    listens at its port. ``status``: the HTTP status of an answer. ``retry_after``: the pause in
    seconds that the endpoint requests. ``tokens``: what was billed although the answer is of no
    use.
    """

    reason: str
    message: str
    answered: bool = True
    listens: bool = True
    fatal: GraphmillError | None = None
    status: int | None = None
    retry_after: float | None = None
    tokens: Tokens = NO_TOKENS
    refused: bool = False

    @property
    def throttled(self) -> bool:
        """True if the endpoint refused the call as one too many. The call itself is not at
        fault."""
        return self.status == 429 and self.reason == "server_error"

    @property
    def outcome(self) -> str:
        """Outcome for the usage records."""
        return "throttled" if self.throttled else self.reason

    @property
    def passing(self) -> bool:
        """True for a transient error, after which another attempt may succeed."""
        return self.reason in ("timeout", "server_error")


@dataclass(frozen=True)
class Endpoint:
    """Address of a server with the OpenAI protocol.

    ``where`` names it in messages (its place in settings.yaml). ``base_url`` "" is OpenAI's own
    address. A query in ``base_url`` is sent with every request, after the path. The headers and the
    query of ``connection`` are sent as well.
    """

    where: str
    model: str
    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    timeout: float
    connection: Connection = Connection()

    provider: ClassVar[str] = "openai"
    has_batches: ClassVar[bool] = True
    """True if the provider has OpenAI's Batch API."""

    def __post_init__(self) -> None:
        if not _has_readable_host(self.base_url):
            raise SettingsError(
                f"{self.where}: base_url has a host or a port that cannot be read; write"
                " http://HOST:PORT/..."
            )
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise SettingsError(
                f"{self.where}: base_url '{self.address}' is no web address; write http://... or"
                " https://..."
            )
        if not self.api_key.isascii() or any(c.isspace() for c in self.api_key):
            raise SettingsError(
                f"{self.where}: api_key has a space, a line break or a letter that no key has; copy"
                " it again"
            )

    @property
    def address(self) -> str:
        """base_url without user, password and query."""
        url = urlsplit(self.base_url or OPENAI)
        host = url.netloc.rpartition("@")[2]
        if not host:
            return self.base_url.partition("?")[0].rpartition("@")[2]
        return f"{url.scheme}://{host}{url.path}".rstrip("/")

    @property
    def digest(self) -> str:
        """Digest that identifies address and model without revealing them."""
        return hashlib.sha256(f"{self.address}\n{self.model}".encode()).hexdigest()

    def context_length(self) -> int | None:
        """Return the number of tokens that the model itself can read, or None if the server does
        not say."""
        return None

    @property
    def shown(self) -> str:
        """Provider and address for messages, without secrets."""
        return f"{self.provider}, {self.address}"

    @made_once
    def client(self) -> "OpenAI":
        """Return the client. It has no retries of its own, because ``Attempts`` retries in turn
        with other calls."""
        client = self._open_client()
        # Without this, the garbage collector would close the connections in any order.
        weakref.finalize(self, client.close)
        return client

    def _open_client(self) -> "OpenAI":
        # This import takes 0.7 s, so only commands that make calls pay for it.
        from openai import OpenAI

        url = urlsplit(self.base_url or OPENAI)
        return OpenAI(
            api_key=self.api_key or "none",
            base_url=urlunsplit(url._replace(query="", fragment="")),
            **self.client_arguments(dict(parse_qsl(url.query))),
        )

    def client_arguments(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments that the clients of all providers have in common."""
        from openai import Timeout

        timeout = Timeout(self.timeout, connect=min(self.timeout, CONNECT_SECONDS))
        return {
            "timeout": timeout,
            "max_retries": 0,
            **self.connection.client_arguments(self.where, query),
        }

    def preflight(self) -> None:
        """Request the list of models once, within four seconds.

        Raises AuthError when the key is missing or refused, and ModelError when nothing listens.
        Any other answer is accepted.
        """
        failure = self.probe()
        if failure and not failure.listens:
            raise self.silence_error(failure)
        if failure and failure.fatal and failure.status == 401:
            raise failure.fatal

    def probe(self) -> Failure | None:
        """Request the list of models, which costs nothing. Return the failure, or None.

        Raises AuthError if neither a key nor an address is set.
        """
        if not self.api_key and not self.base_url:
            raise AuthError(f"{self.where}: no api_key and no base_url; {self._ways_to_set_them}")

        def list_models(client: "OpenAI") -> None:
            with client.with_options(
                timeout=PREFLIGHT_SECONDS
            ).models.with_streaming_response.list():
                # Any answer is enough, so its content is not read.
                return

        return self.call(list_models)

    def call(self, function: "Callable[[OpenAI], Answer]") -> "Answer | Failure":
        """Return ``function(client)``, or the failure that its exception means."""
        try:
            return function(self.client)
        except Exception as error:
            return self.failure(error)

    def fetch(self, answering: "AbstractContextManager[APIResponse[Any]]") -> dict[str, Any]:
        """Return the JSON object of an answer, all of which must arrive within ``timeout``.

        The client itself only limits the time between two chunks, and some servers send white space
        while they work. Raises ValueError if the answer is no JSON object, and OverdueError when
        the time is up.
        """
        until = time.monotonic() + self.timeout
        with answering as response:
            answer = json.loads(b"".join(_in_time(response.iter_bytes(), until)))
        if not isinstance(answer, dict):
            raise ValueError("the answer is no JSON object")
        return answer

    def failure(self, error: Exception) -> Failure:
        """Return the failure that an exception of the client means. Any other exception is raised
        again."""
        from openai import APIConnectionError, APITimeoutError, OpenAIError

        # Errors of httpx or httpx2 may come through while a stream is read.
        is_of_http_library = type(error).__module__.startswith("http")
        if not isinstance(error, (OpenAIError, ValueError)) and not is_of_http_library:
            raise error
        if isinstance(error, PictureChangedError):
            return Failure("io_error", f"{error}; the next run reads it again", answered=False)
        if _nobody_listens(error):
            return self._connection_failure(error)
        is_read_timeout = type(error).__name__ == "ReadTimeout"
        if isinstance(error, (APITimeoutError, OverdueError)) or is_read_timeout:
            return Failure("timeout", f"no answer within {self.timeout:g} s", answered=False)
        status = getattr(error, "status_code", None)
        if status is None:
            is_broken = isinstance(error, APIConnectionError) or not isinstance(error, ValueError)
            kind = "the connection broke" if is_broken else "the answer cannot be read"
            detail = self._safe(in_words(error.__cause__ or error))
            tokens = error.tokens if isinstance(error, UselessAnswerError) else NO_TOKENS
            return Failure(
                "server_error", f"{kind} ({detail})", answered=not is_broken, tokens=tokens
            )
        code = getattr(error, "code", None) or ""
        refusal = self.refusal(status, f"{code} {_message_of(error)}".strip())
        return replace(refusal, status=status, retry_after=retry_after(error))

    def _connection_failure(self, error: Exception) -> Failure:
        """Return the failure of a call that found no server, or none with a trusted certificate."""
        untrusted = _certificate_fault(error)
        if untrusted:
            message = f"{self.address}: {self._safe(untrusted)}"
            action = (
                "set ca_bundle to the file of its certificate authority, or SSL_CERT_FILE in"
                " the environment"
            )
            return Failure(
                "server_error",
                message,
                answered=False,
                listens=False,
                fatal=self._error(message, action),
            )
        detail = self._safe(in_words(error.__cause__ or error))
        message = f"{self.address} does not answer ({detail})"
        return Failure(
            "server_error", message, answered=False, listens=False, refused=_is_refused(error)
        )

    def refusal(self, status: int, detail: str) -> Failure:
        """Return the failure that an answer with this HTTP status means. ``detail`` is the server's
        message."""
        said = detail.lower()
        message = f"HTTP {status}: {self._safe(detail)}"
        if status in (400, 403, 422) and REFUSED_BY_POLICY.search(said):
            return Failure("content_filter", message)
        if status in (401, 403):
            return Failure("bad_request", message, fatal=self._key_refused(status))
        if status in (404, 405) or (status in (400, 422) and NO_SUCH_MODEL.search(said)):
            return Failure("bad_request", message, fatal=self._no_such_model(message))
        if status == 402 or (status == 429 and "insufficient_quota" in said):
            fact = f"{self.address} requires payment ({message})"
            return Failure(
                "bad_request", message, fatal=self._error(fact, "check the account's credit")
            )
        is_too_long = status in (400, 422, 500) and TOO_LONG.search(said)
        if status == 413 or is_too_long or TOO_LARGE.search(said):
            return Failure("too_long", message)
        if status == 408:
            return Failure("timeout", message)
        is_transient = status in (409, 425, 429) or status >= 500
        return Failure("server_error" if is_transient else "bad_request", message)

    @property
    def _ways_to_set_them(self) -> str:
        if self.where.startswith("models.chat."):
            return (
                "set OPENAI_API_KEY or OPENAI_BASE_URL (in .env or the environment), which"
                ' settings.yaml names there: api_key: "${OPENAI_API_KEY:-}", base_url:'
                " \"${OPENAI_BASE_URL:-}\"; or run 'graphmill run fast', which needs no chat model"
            )
        return f"set {self.where}.base_url or {self.where}.api_key in settings.yaml"

    def busy_error(self, failure: Failure) -> ModelError:
        """Return the error that ends the work when the endpoint refuses all calls as too many."""
        wait = f" and asks to wait {failure.retry_after:,.0f} s" if failure.retry_after else ""
        fact = f"{self.address} refuses calls as too many{wait} ({failure.message})"
        return self._error(fact, "ask again then, or check the limits of the account")

    def silence_error(self, failure: Failure) -> ModelError:
        """Return the error that ends the work when nothing answers."""
        if isinstance(failure.fatal, ModelError):
            return failure.fatal
        # OpenSSL reports this if the server answers in plain HTTP.
        if "WRONG_VERSION_NUMBER" in failure.message:
            return self._error(failure.message, "write http://, not https://, in base_url")
        if "[SSL" in failure.message:
            action = "does the server speak HTTPS at this port? if not, write http:// in base_url"
            return self._error(failure.message, action)
        return self._error(failure.message, "is the server running? check base_url and timeout")

    def _no_such_model(self, message: str) -> NoSuchModelError:
        fact = (
            f"{self.address} has no model '{self.model}', or is not the address of an API"
            f" ({message})"
        )
        return NoSuchModelError(
            f"{self.where}: {fact}; correct {self.where}.model or base_url in settings.yaml"
        )

    def _error(self, fact: str, action: str) -> ModelError:
        return ModelError(f"{self.where}: {fact}; {action}")

    def _key_refused(self, status: int) -> AuthError:
        what = "the endpoint refused the key" if self.api_key else "the endpoint requires a key"
        variable = "" if self.where.startswith("models.rerank.") else "OPENAI_API_KEY, or "
        return AuthError(f"{self.where}: {what} ({status}); set {variable}api_key in settings.yaml")

    def _safe(self, text: str) -> str:
        """Return the text on one line, cut to LONGEST_DETAIL, without secrets."""
        return " ".join(self.mask(text).split())[:LONGEST_DETAIL]

    def mask(self, text: str) -> str:
        """Return the text with the secrets of the model's settings masked."""
        url = urlsplit(self.base_url)
        parameters = [value for _, value in parse_qsl(url.query) if len(value) >= SHORTEST_SECRET]
        secrets = [self.api_key, url.password or "", *parameters, *self.connection.secrets]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def _has_readable_host(url: str) -> bool:
    """Check that host and port of the URL can be parsed.

    The parser's message is not used, because it may contain a part of a password.
    """
    with suppress(ValueError):
        port = urlsplit(url).port
        return port is None or port > 0
    return False


def _in_time(chunks: Iterator[bytes], until: float) -> Iterator[bytes]:
    """Yield the chunks. Raise OverdueError after ``until``, a time of ``time.monotonic``."""
    for chunk in chunks:
        if time.monotonic() > until:
            raise OverdueError
        yield chunk


def _nobody_listens(error: BaseException) -> bool:
    return type(error.__cause__ or error).__name__ in ("ConnectError", "ConnectTimeout")


def _is_refused(error: BaseException | None) -> bool:
    """Return whether the error, or one in its chain of causes, is a refused connection."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _certificate_fault(error: BaseException) -> str:
    """Return why the server's certificate is not trusted, or "" for any other error."""
    said = in_words(error.__cause__ or error)
    if "CERTIFICATE_VERIFY_FAILED" not in said:
        return ""
    reason = said.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
    return f"its certificate is not trusted ({reason or said})"


def retry_after(error: BaseException) -> float | None:
    """Return the pause in seconds that the headers of the answer request, or None.

    The headers state seconds, milliseconds or a date.
    """
    headers = getattr(getattr(error, "response", None), "headers", {})
    seconds, date = headers.get("retry-after-ms"), headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(seconds) / 1000 if seconds else float(date))
    with suppress(ValueError):
        return max(0.0, (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    return None


def _message_of(error: Exception) -> str:
    """Return the message in the answer of a server, or that of the exception."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return body["message"] + _lengths_in_fields(body)
    return str(body or getattr(error, "message", error))


def _lengths_in_fields(body: Mapping[str, Any]) -> str:
    """Return the window and the prompt's length that llama.cpp states only in fields of its JSON.

    Numbers that its message contains are left out. The result is " (n_ctx: 4096, ...)" or "".
    """
    missing = []
    for name in ("n_ctx", "n_prompt_tokens"):
        length = body.get(name)
        if isinstance(length, int) and str(length) not in body["message"]:
            missing.append(f"{name}: {length}")
    return f" ({', '.join(missing)})" if missing else ""


def sendable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent, by U+FFFD."""
    return SURROGATES.sub("\ufffd", text)
