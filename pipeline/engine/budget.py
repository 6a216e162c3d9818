"""What a run may spend: it stops before the first call that begins after the limit has been reached."""

import math
import threading
from dataclasses import dataclass, field

from pipeline.errors import BudgetError, UsageError


@dataclass
class Budget:
    """``max_cost`` in the currency of the price table; ``max_tokens``: in and out. None is unlimited.

    Raises UsageError for a limit that is none.
    """

    max_cost: float | None = None
    max_tokens: int | None = None
    cost: float = 0.0
    tokens: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for option, limit in (("--max-cost", self.max_cost), ("--max-tokens", self.max_tokens)):
            if limit is not None and not 0 <= limit < math.inf:  # nan is not below, and would never be reached
                raise UsageError(f"{option}: {limit:g} is no limit; give a number from 0 on, or leave it out")

    @property
    def limited(self) -> bool:
        return self.max_cost is not None or self.max_tokens is not None

    def spend(self, tokens: int, cost: float | None) -> None:
        with self.lock:
            self.tokens += tokens
            self.cost += cost or 0.0

    def check(self) -> None:
        """Raises BudgetError when nothing is left."""
        with self.lock:
            if self.max_tokens is not None and self.tokens >= self.max_tokens:
                raise _spent(f"{self.tokens:,} tokens of --max-tokens {self.max_tokens:,} are used")
            if self.max_cost is not None and self.cost >= self.max_cost:
                raise _spent(f"{self.cost:.4f} of --max-cost {self.max_cost:g} is spent")

    def reserve(self, tokens: int, cost: float | None) -> None:
        """Whether so much may be bound at once. Raises BudgetError when that is more than what is left."""
        with self.lock:
            if self.max_tokens is not None and self.tokens + tokens > self.max_tokens:
                raise _spent(f"a batch of about {tokens:,} tokens is more than --max-tokens {self.max_tokens:,} leaves")
            if self.max_cost is not None and self.cost + (cost or 0.0) > self.max_cost:
                raise _spent(f"a batch of about {cost or 0:.4f} is more than --max-cost {self.max_cost:g} leaves")


def _spent(fact: str) -> BudgetError:
    return BudgetError(f"budget: {fact}; everything answered is kept: run again, with more, to go on")
