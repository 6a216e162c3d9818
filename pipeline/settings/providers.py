"""Read how a model is reached: its provider, and the headers, parameters and certificates of its
requests."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
"""The characters of a token in RFC 9110."""
FUNCTION_FORM = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\.py)?:[A-Za-z_]\w*$")
PARTS_OF_A_REQUEST = frozenset({
    "model", "messages", "input", "stream", "stream_options", "response_format", "temperature",
    "top_p", "seed",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "stop", "presence_penalty",
    "frequency_penalty",
    "dimensions", "timeout", "num_retries", "max_retries",
})  # fmt: skip
"""Arguments that have settings of their own. As ``arguments`` they would change replies unseen by
cache and plan."""


def _as_text(value: Any) -> Any:
    """Return numbers and dates as text: YAML reads an unquoted 2024-06-01 as a date."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | date) else value


def _sendable(value: SecretStr) -> SecretStr:
    """Check that HTTP can carry the value. The message does not show it, because it may be a
    secret."""
    text = value.get_secret_value()
    if not text.isascii() or not text.isprintable():
        raise ValueError(
            "a line break or a character that no header can carry; copy the value again"
        )
    return value


def _is_function(value: Any) -> Any:
    """Check that the value is a function, or names one as "module:name"; "" is no function yet."""
    if callable(value) or value == "" or (isinstance(value, str) and FUNCTION_FORM.match(value)):
        return value
    raise ValueError(
        'not the name of a function; write "module:name", as in "my_models:chat" for my_models.py'
    )


Text = Annotated[str, BeforeValidator(_as_text)]
SecretText = Annotated[SecretStr, BeforeValidator(_as_text)]
HeaderName = Annotated[str, Field(pattern=HEADER_NAME)]
HeaderValue = Annotated[SecretStr, BeforeValidator(_as_text), AfterValidator(_sendable)]
Function = Annotated[Any, AfterValidator(_is_function), WithJsonSchema({"type": "string"})]
"""A function or class: "module:name" in settings.yaml, or the object itself in Python
(``Project.open(chat=...)``)."""


def revealed(values: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return the texts of a mapping of secrets."""
    return {name: value.get_secret_value() for name, value in values.items()}


class ConnectionSettings(BaseModel):
    """Hold what every request to an endpoint carries beside the key, and which certificates are
    used.

    ``headers`` and ``query`` may hold secrets; an empty header is not sent at all. ``ca_bundle``: a
    file in PEM with the only certificate authorities that are trusted. ``client_cert`` and
    ``client_key``: files in PEM of the certificate that is shown to the endpoint. Paths are
    relative to the project's folder.
    """

    headers: dict[HeaderName, HeaderValue] = {}
    query: dict[str, SecretText] = {}
    ca_bundle: str = ""
    client_cert: str = ""
    client_key: str = ""

    @property
    def secrets(self) -> Iterator[str]:
        """Yield every value that must not be shown."""
        yield from revealed(self.headers).values()
        yield from revealed(self.query).values()

    @model_validator(mode="after")
    def _has_a_certificate_for_its_key(self) -> Self:
        if self.client_key and not self.client_cert:
            raise ValueError("client_key needs a client_cert; set both, or remove client_key")
        return self


CONNECTION = tuple(ConnectionSettings.model_fields)


class ProviderSettings(ConnectionSettings):
    """Hold the settings that only some providers have.

    ``azure``: ``deployment`` (by default the model's name), ``api_version``, and ``entra_id``: sign
    in with Microsoft Entra ID instead of a key. ``python``: ``function``, and its ``version``,
    which its author raises when its replies change. ``litellm``: ``arguments``, for the region,
    project or credentials of the cloud; they may be secrets. ``ollama``, of chat models:
    ``num_ctx``, the tokens of the window, by default 8,192; ``keep_alive``: how long the model
    stays loaded.
    """

    ONLY_OF: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "azure": ("deployment", "api_version", "entra_id"),
        "python": ("function", "version"),
        "litellm": ("arguments",),
        "ollama": ("num_ctx", "keep_alive"),
    }
    WITHOUT: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "builtin": CONNECTION,
        "local": CONNECTION,
        "python": CONNECTION,
        "litellm": tuple(name for name in CONNECTION if name != "headers"),
    }
    """Settings that a provider cannot obey."""

    deployment: str = ""
    api_version: Text = ""
    entra_id: bool = False
    function: Function = ""
    version: Text = ""
    arguments: dict[str, SecretText] = {}

    @property
    def kind(self) -> str:
        """Return the provider's name. Each section has its own default."""
        raise NotImplementedError

    @property
    def needs_no_address(self) -> bool:
        """Tell whether the provider works without base_url and api_key."""
        return self.kind in ("python", "litellm", "ollama")

    @property
    def secrets(self) -> Iterator[str]:
        yield from super().secrets
        yield from revealed(self.arguments).values()

    @property
    def function_name(self) -> str:
        """Return "module:name", also of a function that was given in Python."""
        if isinstance(self.function, str):
            module, _, name = self.function.partition(":")
            return f"{module.removesuffix('.py')}:{name}" if name else ""
        return qualified_name(self.function)

    @model_validator(mode="after")
    def _has_only_settings_of_its_provider(self) -> Self:
        for provider, names in self.ONLY_OF.items():
            foreign = [
                name for name in names if getattr(self, name, None) and provider != self.kind
            ]
            if foreign:
                raise ValueError(
                    f"{foreign[0]} is for provider: {provider}; set that provider, or remove"
                    f" {foreign[0]}"
                )
        useless = [name for name in self.WITHOUT.get(self.kind, ()) if getattr(self, name)]
        if useless:
            fact = f"{useless[0]} has no effect with provider: {self.kind}"
            raise ValueError(f"{fact}; remove it{_instead(self.kind, useless[0])}")
        return self

    @model_validator(mode="after")
    def _has_what_its_provider_needs(self) -> Self:
        if self.kind == "python" and not self.function:
            raise ValueError('provider: python needs a function; set function: "module:name"')
        taken = sorted(set(self.arguments) & PARTS_OF_A_REQUEST)
        if taken:
            raise ValueError(
                f"arguments: '{taken[0]}' is part of a request; set it as a key of the model itself"
            )
        return self


def qualified_name(function: Callable[..., Any]) -> str:
    """Return "module:name" of a function or a class; of any other object, that of its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _instead(provider: str, name: str) -> str:
    if provider == "litellm" and name in ("ca_bundle", "client_cert", "client_key"):
        return ", and set SSL_CERT_FILE in the environment"
    return ""
