"""Models of any provider that LiteLLM supports: Bedrock, Vertex AI, Gemini, Anthropic, ... (extra
``litellm``)."""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from pipeline.errors import AuthError, SettingsError, install_extra
from pipeline.models.endpoint.client import Failure, retry_after
from pipeline.models.endpoint.connection import SHORTEST_SECRET
from pipeline.models.endpoint.in_process import Body, InProcessEndpoint

REASONS: Mapping[str, str] = {
    "ContextWindowExceededError": "too_long",
    "ContentPolicyViolationError": "content_filter",
}
"""Reasons for exceptions of LiteLLM whose class is more exact than their status."""
NO_PROVIDER = "LLM Provider NOT provided"
"""Words of LiteLLM's message about an unknown provider."""
UNREACHABLE = (
    "ConnectError",
    "ConnectionRefusedError",
    "ConnectTimeout",
    "ClientConnectorError",
    "gaierror",
)
"""Exceptions of several HTTP libraries for a server that cannot be reached."""


@dataclass(frozen=True)
class LitellmEndpoint(InProcessEndpoint):
    """Endpoint that makes its calls through LiteLLM.

    ``model``: LiteLLM's name of the model, with its provider. ``base_url`` and ``api_key`` are
    passed on if they are set. ``arguments``: arguments of ``litellm.completion`` about the address
    and the credentials.
    """

    arguments: Mapping[str, str] = field(default_factory=dict, repr=False)

    provider: ClassVar[str] = "litellm"

    @property
    def shown(self) -> str:
        place = self.address if self.base_url else self._service
        return f"{self.provider}, {place}"

    @property
    def address(self) -> str:
        return super().address if self.base_url else self._service

    @property
    def _service(self) -> str:
        """LiteLLM's name of the provider, as in "bedrock/..."."""
        return self.model.partition("/")[0]

    def preflight(self) -> None:
        """Check that LiteLLM is installed, knows the model's provider, and finds its key. No call
        is made.

        Raises SettingsError or AuthError.
        """
        library = self._library()
        try:
            library.get_llm_provider(self.model, api_base=self.base_url or None)
        except Exception:
            fact = f"LiteLLM knows no provider of the model '{self.model}'"
            action = "write it as provider/model, as in anthropic/claude-sonnet-4-5"
            raise SettingsError(f"{self.where}: {fact}; {action}") from None
        if self.api_key or self.arguments or self.connection.headers:
            return
        environment = library.validate_environment(self.model, api_base=self.base_url or None)
        missing = environment["missing_keys"]
        # Credentials of clouds may also come from files or from the machine's own identity, so only
        # plain keys are required.
        keys = [name for name in missing if name.endswith("_API_KEY")]
        if keys and len(keys) == len(missing):
            fact = f"no api_key for {self._service}"
            raise AuthError(f"{self.where}: {fact}; set api_key, or {keys[0]} in the environment")

    def chat(self, body: Body, seconds: float) -> Body | Iterator[Body]:
        answer = self._library().completion(**self._common(seconds), **body)
        return _dump_chunks(answer) if body.get("stream") else answer.model_dump()

    def embed(self, body: Body, seconds: float) -> Body:
        # Only some providers have an encoding format, and LiteLLM refuses it for the others. All of
        # them send numbers.
        asked = {name: value for name, value in body.items() if name != "encoding_format"}
        return self._library().embedding(**self._common(seconds), **asked).model_dump()

    def _library(self) -> Any:
        """Import LiteLLM. Raise SettingsError if it is not installed."""
        try:
            return library()
        except ImportError:
            fact = "provider: litellm needs LiteLLM"
            raise SettingsError(f"{self.where}: {fact}; {install_extra('litellm')}") from None

    def _common(self, seconds: float) -> dict[str, Any]:
        """Return the arguments that all calls have in common.

        LiteLLM's own retries are off, because ``Attempts`` retries in turn with other calls.
        """
        given = {
            "api_key": self.api_key,
            "api_base": self.base_url,
            "extra_headers": dict(self.connection.headers),
        }
        set_ones = {name: value for name, value in given.items() if value}
        return {
            "timeout": seconds,
            "max_retries": 0,
            "num_retries": 0,
            **set_ones,
            **self.arguments,
        }

    def own_failure(self, error: BaseException) -> Failure | None:
        """Return the failure that an exception of LiteLLM means, or None for any other
        exception."""
        if not type(error).__module__.startswith("litellm"):
            return None
        said = self._safe(_message_of(error))
        kind = type(error).__name__
        if NO_PROVIDER in said:
            fact = f"LiteLLM knows no provider of the model '{self.model}'"
            return Failure(
                "bad_request", said, fatal=self._error(fact, "write it as provider/model")
            )
        if _is_unreachable(error):
            return Failure(
                "server_error",
                f"{self.address} does not answer ({said})",
                answered=False,
                listens=False,
            )
        if kind == "Timeout":
            return Failure("timeout", f"no answer within {self.timeout:g} s", answered=False)
        status = getattr(error, "status_code", None) or 500
        if kind in REASONS:
            return Failure(REASONS[kind], f"HTTP {status}: {said}", status=status)
        return replace(self.refusal(status, said), status=status, retry_after=retry_after(error))

    def _safe(self, text: str) -> str:
        """Return the text as ``Endpoint._safe`` does, without the credentials in ``arguments``."""
        for secret in self.arguments.values():
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return super()._safe(text)

    def _key_refused(self, status: int) -> AuthError:
        action = (
            f"correct api_key, or the credentials of {self._service} in arguments or in the"
            " environment"
        )
        return AuthError(f"{self.where}: {self._service} refused the key ({status}); {action}")


@cache
def library() -> Any:
    """Import LiteLLM without network access, without reading a .env file and without output."""
    # Without this, the import downloads a list of prices.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # Without this, the import reads .env into the environment.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    found: Any = import_module("litellm")
    found.suppress_debug_info = True
    found.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return found


def _dump_chunks(stream: Iterable[Any]) -> Iterator[Body]:
    for chunk in stream:
        yield chunk.model_dump()


def _message_of(error: BaseException) -> str:
    """Return the message without the class names that LiteLLM writes in front of it."""
    message = str(getattr(error, "message", error))
    return re.sub(r"^(litellm\.)?(\w+(Error|Exception): )*", "", message)


def _is_unreachable(error: BaseException) -> bool:
    """Tell whether an exception in the chain of causes means that no server accepted the
    connection."""
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ in UNREACHABLE:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
