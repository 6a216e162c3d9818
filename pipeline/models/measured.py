"""What is known of chat models by trial, kept in the project: by address and model, without
either's name or a key.

data/models.json    {"models": {digest of address and model: {window, tried, json_schema, measured,
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
"""Of the window: so many tokens, and of a small one no more than the fourth part."""


@dataclass(frozen=True)
class Measured:
    """``window``: tokens, as we count them, that the model reads, its reply included; None: no
    limit was met up to ``tried``, the longest prompt that was sent. ``json_schema``: it answers in
    the form that ``response_format`` names. ``measured``: on which day. ``source``: who says the
    window: doctor, by what it measured; the endpoint, when it refused a longer prompt; or settings,
    which are not kept here. ``speed``: tokens of replies in a second, of all calls that are under
    way together; None: not measured."""

    window: int | None = None
    tried: int = 0
    json_schema: bool = False
    measured: str = ""
    source: Source = "doctor"
    speed: float | None = None

    def __post_init__(self) -> None:
        if not (self.window is None or (isinstance(self.window, int) and self.window > 0)):
            raise TypeError(f"a window of {self.window}")

    def longest_prompt(self, longest_reply: int | None = None) -> int | None:
        """Return the tokens of a prompt that leave room for a reply, at least 1; None where no
        limit is known.

        ``longest_reply``: max_tokens of the model. Servers refuse a prompt that leaves no room for
        all of it.
        """
        if self.window is None:
            return None
        usual = min(ROOM_FOR_A_REPLY, self.window // MOST_FOR_A_REPLY)
        return max(self.window - max(usual, longest_reply or 0), 1)

    @property
    def known_from(self) -> str:
        """Tell people how the window is known."""
        if self.source == "settings":
            return "as num_ctx in settings.yaml says"
        if self.source == "endpoint":
            return (
                f"as its endpoint said on {self.measured}; 'graphmill doctor --long' measures it"
                " again"
            )
        return "as 'graphmill doctor' has measured"

    def within(self, window: int | None) -> "Measured":
        """Return the same with the window that settings give the model, where that is smaller or
        alone known."""
        if window is None or (self.window is not None and self.window <= window):
            return self
        return replace(self, window=window, source="settings")


UNMEASURED = Measured()


@dataclass(frozen=True)
class MeasuredModels:
    """``root``: the project's."""

    root: Path

    def of(self, digest: str) -> Measured:
        """``digest``: the endpoint's (``Endpoint.digest``)."""
        return self._all().get(digest, UNMEASURED)

    def note(self, digest: str, **found: Any) -> None:
        """``found``: fields of Measured; the others stay as they were."""
        path = self.root / FILE
        try:
            with alone_in(path.parent):
                known = self._all()
                known[digest] = replace(known.get(digest, UNMEASURED), **found)
                write_json(path, {"models": {digest: asdict(one) for digest, one in known.items()}})
        except (OSError, DiskFullError) as error:
            tell(f"{path}: not written ({in_words(error)}); what was measured is not remembered")

    def _all(self) -> dict[str, Measured]:
        path = self.root / FILE
        try:
            models: Mapping[str, Mapping[str, Any]] = read_json(path)["models"]
            return {digest: Measured(**found) for digest, found in models.items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            tell(f"{path}: {fact}; 'graphmill doctor' measures the models anew")
            return {}
