"""What an evaluation asks for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from pipeline.errors import UsageError
from pipeline.query_options import Mode

ANSWERING = frozenset({"bypass", "community", "drift"})
"""Modes that find no text units before a model answers."""
MODES = tuple(mode for mode in get_args(Mode) if mode not in ANSWERING)
"""Those that retrieve."""
KS = (2, 5, 10, 20)


@dataclass(frozen=True)
class Setup:
    """``budget``: tokens of retrieved text; ``by``: the questions' key to count apart by; ``keywords``: the chat model
    is asked for them, as in a query, where else the question itself is searched for; ``rerank``: so is the reranker,
    where else nothing is ranked anew."""

    modes: tuple[str, ...] = MODES
    ks: tuple[int, ...] = KS
    budget: int | None = None
    by: str = "type"
    keywords: bool = False
    rerank: bool = False

    @classmethod
    def of(
        cls, modes: Sequence[str], ks: Sequence[int], budget: int | None, by: str, keywords: bool, rerank: bool
    ) -> "Setup":
        """Raises UsageError for what makes no sense."""
        chosen = tuple(dict.fromkeys(modes))
        if not chosen or not set(chosen) <= set(MODES):
            strange = ", ".join(mode for mode in chosen if mode not in MODES) or "none"
            raise UsageError(
                f"eval: modes: {strange}: what can be evaluated are modes that find text units without an answer, "
                f"{', '.join(MODES)}"
            )
        if not ks or min(ks) < 1:
            raise UsageError("eval: k: give whole numbers from 1, as in 2,5,10,20")
        if budget is not None and budget < 1:
            raise UsageError("eval: budget: give a number of tokens from 1")
        return cls(chosen, tuple(sorted(set(ks))), budget, by, keywords, rerank)

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
