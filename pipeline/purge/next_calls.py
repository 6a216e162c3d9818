"""Count how much the next run has to ask again after a purge. People are told before the purge
begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.engine.usage.journal import read_usage
from pipeline.errors import counted
from pipeline.models.base import ANSWERED, ChatModel, Tokens
from pipeline.runs.services import Services

if TYPE_CHECKING:
    from pipeline.purge.taken_out import TakenOut

TEXTS_OF_A_CALL = 64
"""The texts of one call to an embedding model that does not say how many it takes."""


@dataclass(frozen=True)
class NextCalls:
    """Hold the calls of the next run that a purge causes.

    ``replies`` and ``vectors``: how many go. ``calls``, ``input_tokens``, ``cost``: what it takes
    to ask for them again; ``cost`` is None if a model has no price. Replies that follow from these
    replies are not counted.
    """

    replies: int = 0
    vectors: int = 0
    calls: int = 0
    input_tokens: int = 0
    cost: float | None = 0.0

    @classmethod
    def after(cls, project: Services, taken: "Sequence[TakenOut]") -> "NextCalls":
        """Count each request once, however many workflows have it."""
        total, seen = cls(), set[str]()
        # It is the history of all calls, so it is read once.
        usage = read_usage(project.usage_folder)
        for one in taken:
            steps = {step.id: step for step in project.workflow(one.manifest.workflow).steps}
            for name, missing in one.missing.items():
                chats = {key: tokens for key, tokens in missing.chats.items() if key not in seen}
                texts = {key: tokens for key, tokens in missing.texts.items() if key not in seen}
                seen |= {*chats, *texts}
                models = project.resources.models_of(steps[name]).values()
                for model in models:
                    is_chat = isinstance(model, ChatModel)
                    asked = chats if is_chat else texts
                    size = 1 if is_chat else getattr(model, "batch_size", TEXTS_OF_A_CALL)
                    said = _usual_reply(usage, name) if is_chat else 0
                    total = total._with(is_chat, asked, ceil(len(asked) / size), said, model)
        return total

    def _with(
        self, is_chat: bool, asked: dict[str, int], calls: int, said: float, model: object
    ) -> "NextCalls":
        tokens = sum(asked.values())
        price = getattr(model, "cost", None)
        cost = price(Tokens(tokens, ceil(said * len(asked)))) if price and asked else 0.0
        return NextCalls(
            self.replies + (len(asked) if is_chat else 0),
            self.vectors + (0 if is_chat else len(asked)),
            self.calls + calls,
            self.input_tokens + tokens,
            None if self.cost is None or cost is None else self.cost + cost,
        )

    def line(self) -> str:
        """Return the sentence that people read before they confirm."""
        if not self.calls:
            return "no model is called now, and the next run needs no call because of this purge"
        price = (
            "a price that is not known" if self.cost is None else f"a cost of about {self.cost:.4f}"
        )
        what = [counted(self.replies, "reply", "replies")] if self.replies else []
        what += [counted(self.vectors, "vector")] if self.vectors else []
        return (
            f"no model is asked now; the next run asks again for at least {' and '.join(what)} that"
            f" the document had a part in: {counted(self.calls, 'call')}, {self.input_tokens:,}"
            f" input tokens, {price} ('graphmill plan' tells all of it after the purge)"
        )


def _usual_reply(usage: pd.DataFrame, step: str) -> float:
    """Return how many tokens a reply to the step had on average in earlier runs; 0 if none is
    known."""
    tokens = usage.loc[(usage["step"] == step) & usage["outcome"].isin(ANSWERED), "output_tokens"]
    return float(tokens.mean()) if len(tokens) else 0.0
