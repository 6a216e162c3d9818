"""What doctor has measured of chat models, kept in the project: by address and model, without either's name or a key.

data/models.json    {"models": {digest of address and model: {window, tried, json_schema, measured}}}
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.errors import DamagedError, DiskFullError, in_words
from pipeline.files import alone_in, read_json, tell, write_json

FILE = "data/models.json"
ROOM_FOR_A_REPLY, MOST_FOR_A_REPLY = 2000, 4
"""Of the window: so many tokens, and of a small one no more than the fourth part."""


@dataclass(frozen=True)
class Measured:
    """``window``: tokens, as we count them, that the model reads, its reply included; None: no limit was met up to
    ``tried``, the longest prompt that was sent. ``json_schema``: it answers in the form that ``response_format`` names.
    ``measured``: on which day."""

    window: int | None = None
    tried: int = 0
    json_schema: bool = False
    measured: str = ""

    def __post_init__(self) -> None:
        if not (self.window is None or (isinstance(self.window, int) and self.window > 0)):
            raise TypeError(f"a window of {self.window}")

    @property
    def longest_prompt(self) -> int | None:
        if self.window is None:
            return None
        return self.window - min(ROOM_FOR_A_REPLY, self.window // MOST_FOR_A_REPLY)


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
