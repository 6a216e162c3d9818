"""Ask models of any provider that LiteLLM knows: Bedrock, Vertex AI, Gemini, Anthropic, ... (extra
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
"""Exceptions of LiteLLM whose class says more than their status."""
NO_PROVIDER = "LLM Provider NOT provided"
UNREACHABLE = (
    "ConnectError",
    "ConnectionRefusedError",
    "ConnectTimeout",
    "ClientConnectorError",
    "gaierror",
)


@dataclass(frozen=True)
class LitellmEndpoint(InProcessEndpoint):
    """Call LiteLLM.

    ``model``: as LiteLLM names it, with its provider. ``base_url`` and ``api_key`` are handed on if
    they are set. ``arguments`` are those of ``litellm.completion`` that say where and as whom to
    call.
    """

    arguments: Mapping[str, str] = field(default_factory=dict, repr=False)

    provider: ClassVar[str] = "litellm"

    @property
    def shown(self) -> str:
        return (
            f"{self.provider}, {self.address}"
            if self.base_url
            else f"{self.provider}, {self._service}"
        )

    @property
    def address(self) -> str:
        return super().address if self.base_url else self._service

    @property
    def _service(self) -> str:
        """Return the provider's name for LiteLLM, as in "bedrock/..."."""
        return self.model.partition("/")[0]

    def preflight(self) -> None:
        """Check that LiteLLM is installed, knows the model's provider, and finds its key; nothing
        is called.

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
        missing = library.validate_environment(self.model, api_base=self.base_url or None)[
            "missing_keys"
        ]
        # Credentials of clouds may also lie in files and in the machine's own identity: only plain
        # keys are asked for.
        keys = [name for name in missing if name.endswith("_API_KEY")]
        if keys and len(keys) == len(missing):
            fact = f"no api_key for {self._service}"
            raise AuthError(f"{self.where}: {fact}; set api_key, or {keys[0]} in the environment")

    def chat(self, body: Body, seconds: float) -> Body | Iterator[Body]:
        answer = self._library().completion(**self._common(seconds), **body)
        return _chunks(answer) if body.get("stream") else answer.model_dump()

    def embed(self, body: Body, seconds: float) -> Body:
        # Only some providers know an encoding format, and LiteLLM refuses it for the others; all
        # send numbers.
        asked = {name: value for name, value in body.items() if name != "encoding_format"}
        return self._library().embedding(**self._common(seconds), **asked).model_dump()

    def _library(self) -> Any:
        try:
            return library()
        except ImportError:
            fact = "provider: litellm needs LiteLLM"
            raise SettingsError(f"{self.where}: {fact}; {install_extra('litellm')}") from None

    def _common(self, seconds: float) -> dict[str, Any]:
        """Return the arguments of every call. LiteLLM retries nothing: Attempts does, in turn with
        all other calls."""
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
        if not type(error).__module__.startswith("litellm"):
            return None
        said, kind = self._safe(_said(error)), type(error).__name__
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
    """Import LiteLLM in such a way that it asks nothing of the network, reads no .env file and
    prints nothing."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
        "True"  # else its import fetches a list of prices from the web
    )
    os.environ.setdefault(
        "LITELLM_MODE", "PRODUCTION"
    )  # else its import reads .env into the environment
    found: Any = import_module("litellm")
    found.suppress_debug_info = True
    found.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return found


def _chunks(stream: Iterable[Any]) -> Iterator[Body]:
    for chunk in stream:
        yield chunk.model_dump()


def _said(error: BaseException) -> str:
    """Return the message without the names of classes that LiteLLM writes in front of it."""
    return re.sub(
        r"^(litellm\.)?(\w+(Error|Exception): )*", "", str(getattr(error, "message", error))
    )


def _is_unreachable(error: BaseException) -> bool:
    """Tell whether nobody took the connection, as an exception somewhere in the chain of causes
    shows."""
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ in UNREACHABLE:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
