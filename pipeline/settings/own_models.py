"""Take models from Python, as functions or objects, instead of from settings.yaml."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pipeline.errors import SettingsError
from pipeline.settings.schema import ChatSettings, EmbeddingSettings, EndpointSettings, Settings

Function = Callable[..., Any]
Given = Function | Mapping[str, Function] | None
"""The model named "default", or several by their names."""
Kind = TypeVar("Kind", bound=EndpointSettings)
KEPT = {
    "concurrency", "timeout", "max_retries", "requests_per_minute", "tokens_per_minute",
    "batch_size",
}  # fmt: skip
"""The settings of a model's section that also hold for the function in its place; its price does
not."""


def with_own_models(settings: Settings, chat: Given = None, embedding: Given = None) -> Settings:
    """Return the settings with these functions as models. A function's attribute ``version`` is its
    version.

    Raises SettingsError for an object that cannot be called.
    """
    models = settings.models
    replaced = {
        "chat": {**models.chat, **_own("chat", chat, models.chat, ChatSettings)},
        "embedding": {
            **models.embedding,
            **_own("embedding", embedding, models.embedding, EmbeddingSettings),
        },
    }
    return settings.model_copy(update={"models": models.model_copy(update=replaced)})


def _own(
    kind: str, given: Given, known: Mapping[str, Kind], section: type[Kind]
) -> dict[str, Kind]:
    if given is None:
        return {}
    functions = given if isinstance(given, Mapping) else {"default": given}
    own = {}
    for name, function in functions.items():
        if not callable(function):
            fact = f"{type(function).__name__} cannot be called"
            raise SettingsError(
                f"{kind}={name}: {fact}; give a function, or an object with __call__"
            )
        kept = known[name].model_dump(include=KEPT, exclude_unset=True) if name in known else {}
        version = str(getattr(function, "version", ""))
        own[name] = section.model_validate(
            {**kept, "provider": "python", "function": function, "version": version}
        )
    return own
