"""Measured limits of chat models, kept in the project.

The key is a digest of address and model, so that the file contains neither name nor key.

data/models.json {"models": {digest of address and model: {window, tried, json_schema, measured,
source, speed}}}
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import DamagedError, DiskFullError, in_words
from pipeline.files import alone_in, read_json, tell, write_json

FILE = "data/models.json"
Source = Literal["doctor", "endpoint", "settings"]
ROOM_FOR_A_REPLY, MOST_FOR_A_REPLY = 2000, 4
"""The part of the window that is left for a reply: this many tokens, but no more than a quarter of
the window."""


@dataclass(frozen=True)
class Measured:
    """Limits of one model.

    ``window``: the number of tokens that the model reads, its reply included, as graphmill counts
    them. None means that no limit was met up to ``tried``, the longest prompt that was sent.
    ``json_schema``: the model answers in the form of ``response_format``. ``measured``: the day of
    the measurement.

    ``source``: where the window is known from. It is "doctor" if measured, "endpoint" if the
    endpoint refused a longer prompt, and "settings" if configured (not kept in this file).
    ``speed``: reply tokens per second, over all calls under way together; None if not measured.
    """

    window: int | None = None
    tried: int = 0
    json_schema: bool = False
    measured: str = ""
    source: Source = "doctor"
    speed: float | None = None

    def __post_init__(self) -> None:
        if self.window is None:
            return
        if not isinstance(self.window, int) or self.window <= 0:
            raise TypeError(f"a window of {self.window}")

    def longest_prompt(self, longest_reply: int | None = None) -> int | None:
        """Return the longest prompt in tokens, at least 1, that leaves room for a reply.

        None means that no limit is known. ``longest_reply`` is max_tokens of the model: servers
        refuse a prompt that leaves no room for all of it.
        """
        if self.window is None:
            return None
        usual_reply = min(ROOM_FOR_A_REPLY, self.window // MOST_FOR_A_REPLY)
        reserved = max(usual_reply, longest_reply or 0)
        return max(self.window - reserved, 1)

    @property
    def known_from(self) -> str:
        """A phrase for messages that says where the window is known from."""
        if self.source == "settings":
            return "as num_ctx in settings.yaml says"
        if self.source == "endpoint":
            return (
                f"as its endpoint said on {self.measured}; 'graphmill doctor --long' measures it"
                " again"
            )
        return "as 'graphmill doctor' has measured"

    def within(self, window: int | None) -> "Measured":
        """Return the same limits with the window from the settings, if that is smaller or the only
        one known."""
        if window is None:
            return self
        if self.window is not None and self.window <= window:
            return self
        return replace(self, window=window, source="settings")


UNMEASURED = Measured()


@dataclass(frozen=True)
class MeasuredModels:
    """The measured limits of all models of the project in the folder ``root``."""

    root: Path

    def of(self, digest: str) -> Measured:
        """Return the limits of the model with this digest (``Endpoint.digest``), or
        ``UNMEASURED``."""
        return self._all().get(digest, UNMEASURED)

    def note(self, digest: str, **found: Any) -> None:
        """Store new values for fields of ``Measured``. Other fields keep their values.

        If the file cannot be written, a warning is printed and nothing is stored.
        """
        path = self.root / FILE
        try:
            with alone_in(path.parent):
                known = self._all()
                known[digest] = replace(known.get(digest, UNMEASURED), **found)
                models = {known_digest: asdict(limits) for known_digest, limits in known.items()}
                write_json(path, {"models": models})
        except (OSError, DiskFullError) as error:
            tell(f"{path}: not written ({in_words(error)}); what was measured is not remembered")

    def _all(self) -> dict[str, Measured]:
        """Return the limits of all models by digest. Warn and return {} if the file is damaged."""
        path = self.root / FILE
        try:
            models: Mapping[str, Mapping[str, Any]] = read_json(path)["models"]
            return {digest: Measured(**found) for digest, found in models.items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            tell(f"{path}: {fact}; 'graphmill doctor' measures the models again")
            return {}
