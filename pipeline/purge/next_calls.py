"""Count how much the next run has to ask again after a purge. People are told before the purge
begins."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
        total = cls()
        counted_keys = set[str]()
        # It is the history of all calls, so it is read once.
        usage = read_usage(project.usage_folder)
        for workflow in taken:
            steps = {step.id: step for step in project.workflow(workflow.manifest.workflow).steps}
            for name, missing in workflow.missing.items():
                chats = _leave_out(missing.chats, counted_keys)
                texts = _leave_out(missing.texts, counted_keys)
                counted_keys |= {*chats, *texts}
                for model in project.resources.models_of(steps[name]).values():
                    if isinstance(model, ChatModel):
                        total = total._with_replies(chats, _usual_reply(usage, name), model)
                    else:
                        total = total._with_vectors(texts, model)
        return total

    def _with_replies(
        self, asked: Mapping[str, int], usual_reply: float, model: object
    ) -> "NextCalls":
        """Add the replies of a chat model; ``usual_reply``: the tokens of one."""
        if not asked:
            return self
        input_tokens = sum(asked.values())
        output_tokens = ceil(usual_reply * len(asked))
        return replace(
            self,
            replies=self.replies + len(asked),
            calls=self.calls + len(asked),
            input_tokens=self.input_tokens + input_tokens,
            cost=self._add_cost(model, Tokens(input_tokens, output_tokens)),
        )

    def _with_vectors(self, asked: Mapping[str, int], model: object) -> "NextCalls":
        """Add the vectors of an embedding model."""
        if not asked:
            return self
        input_tokens = sum(asked.values())
        texts_of_a_call = getattr(model, "batch_size", TEXTS_OF_A_CALL)
        return replace(
            self,
            vectors=self.vectors + len(asked),
            calls=self.calls + ceil(len(asked) / texts_of_a_call),
            input_tokens=self.input_tokens + input_tokens,
            cost=self._add_cost(model, Tokens(input_tokens, 0)),
        )

    def _add_cost(self, model: object, tokens: Tokens) -> float | None:
        """Return the cost with that of these tokens; None if one of the two is not known."""
        price = getattr(model, "cost", None)
        # A model on this machine has no price, and costs nothing.
        cost = price(tokens) if price else 0.0
        if self.cost is None or cost is None:
            return None
        return self.cost + cost

    def line(self) -> str:
        """Return the sentence that people read before they confirm."""
        if not self.calls:
            return "no model is called now, and the next run needs no call because of this purge"
        price = "a price that is not known"
        if self.cost is not None:
            price = f"a cost of about {self.cost:.4f}"
        lost: list[str] = []
        if self.replies:
            lost.append(counted(self.replies, "reply", "replies"))
        if self.vectors:
            lost.append(counted(self.vectors, "vector"))
        return (
            f"no model is asked now; the next run asks again for at least {' and '.join(lost)} that"
            f" the document had a part in: {counted(self.calls, 'call')}, {self.input_tokens:,}"
            f" input tokens, {price} ('graphmill plan' tells all of it after the purge)"
        )


def _usual_reply(usage: pd.DataFrame, step: str) -> float:
    """Return how many tokens a reply to the step had on average in earlier runs; 0 if none is
    known."""
    is_reply = (usage["step"] == step) & usage["outcome"].isin(ANSWERED)
    tokens = usage.loc[is_reply, "output_tokens"]
    return float(tokens.mean()) if len(tokens) else 0.0


def _leave_out(requests: Mapping[str, int], keys: Collection[str]) -> dict[str, int]:
    """Return the tokens of the requests by key, without those that have one of the keys."""
    return {key: tokens for key, tokens in requests.items() if key not in keys}
