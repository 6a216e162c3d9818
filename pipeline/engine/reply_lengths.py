"""Limit the length of replies to a step's requests: no good reply is cut, and a model that repeats
itself ends.

The limit is not part of the verbs: it can change no good reply, so it is in no fingerprint. Verbs
of one's own have none, since nobody knows how long their replies are.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from pipeline.engine.workflow import Step
from pipeline.models.base import ChatReply, ChatRequest

Measure = Literal["text", "words", "pairs"]
MEASURES: Mapping[str, Measure] = {
    "extract_graph": "text",
    "extract_graph_with_headers": "text",
    "extract_claims": "text",
    "summarize_descriptions": "words",
    "report_communities": "words",
    "report_communities_with_claims": "words",
    "report_new_communities": "words",
    "resolve_entities": "pairs",
}
"""Verb -> the measure of its replies' length: the text that is read, the words that the prompt
allows, or the pairs that are judged in one request."""
TIMES_THE_TEXT, TOKENS_BESIDE_A_TEXT = 3, 2000
"""A long text brings about as many tokens of records as it has, rarely twice. A short text full of
names brings up to ten times as many, so the fixed part is large: a text of 100 tokens has brought
1,100."""
TOKENS_BESIDE = 500
TIMES_THE_WORDS = 4
"""A word has about 1.5 tokens; models exceed the words that they are allowed, and JSON adds to
them."""
TOKENS_OF_A_VERDICT = 100
"""A verdict has ten tokens; some models give a reason with each."""
SLACK = 1.5
"""The factor on the longest good reply so far that a reply may have: the next one may be longer."""
CHARACTERS_PER_TOKEN = 4
USUAL_SHARE, ENOUGH_REPLIES = 0.99, 100
"""The quantile that counts as the longest usual reply. With fewer replies, the longest hundredth is
less than one."""


@dataclass
class ReplyLengths:
    """Limit the requests of one step.

    ``tokens``: of each row's text, by row id. ``otherwise``: the limit of any other request; None
    for no limit. ``longest``: returns the tokens of the longest good reply of earlier runs; it is
    called once.
    """

    tokens: Mapping[str, int] = field(default_factory=dict)
    otherwise: int | None = None
    longest: Callable[[], int] = lambda: 0
    seen: int | None = None

    def limited(self, request: ChatRequest) -> ChatRequest:
        """Return the request with its limit, which is never below what good replies of the step
        have needed."""
        tokens_of_text = self.tokens.get(request.row_id)
        limit = self.otherwise
        if tokens_of_text is not None:
            limit = TIMES_THE_TEXT * tokens_of_text + TOKENS_BESIDE_A_TEXT
        if limit is None or request.max_tokens is not None:
            return request
        if self.seen is None:
            self.seen = self.longest()
        needed_so_far = int(SLACK * self.seen)
        return replace(request, max_tokens=max(limit, needed_so_far))

    def learn(self, replies: Iterable[ChatReply]) -> None:
        """Note how long good replies are, known ones included."""
        if self.seen is None:
            # Nothing is limited yet: the first limit begins with the replies of earlier runs.
            return
        for reply in replies:
            is_complete = reply.finish_reason != "length"
            if reply.good and is_complete:
                self.seen = max(self.seen, reply.output_tokens)


NO_LENGTHS = ReplyLengths()


def lengths_of(
    step: Step, inputs: Mapping[str, pd.DataFrame], longest: Callable[[str], int]
) -> ReplyLengths:
    """Return the limits of the step's requests on these inputs.

    ``longest``: returns the tokens of the longest good reply that a step had in earlier runs.
    """
    measure = MEASURES.get(step.verb.name)
    if measure == "text":
        texts = inputs[str(step.verb.rowwise)]
        # Texts of tables may have no count of tokens, or one of another tokenizer.
        least_tokens = texts["text"].str.len() // CHARACTERS_PER_TOKEN
        tokens = texts["n_tokens"].fillna(0).clip(lower=least_tokens).astype(int)
        tokens_of_rows = dict(zip(texts["id"], tokens, strict=True))
        return ReplyLengths(tokens_of_rows, None, lambda: longest(step.id))
    params = step.params.model_dump()
    if measure == "words":
        limit = TIMES_THE_WORDS * params["max_length"] + TOKENS_BESIDE
        return ReplyLengths({}, limit, lambda: longest(step.id))
    if measure == "pairs":
        limit = TOKENS_OF_A_VERDICT * params["batch"] + TOKENS_BESIDE
        return ReplyLengths({}, limit, lambda: longest(step.id))
    return NO_LENGTHS


def longest_replies(usage: pd.DataFrame) -> dict[str, int]:
    """Return the output tokens of the longest good reply of each step: of the usual ones, where
    there are many.

    Earlier versions wrote the outcome "ok" also for replies that ended at a limit of the endpoint.
    One such reply without end would raise the limit of the step for ever, so the longest hundredth
    is left out.
    """
    replies = usage[(usage["outcome"] == "ok") & (usage["kind"] == "chat")]
    found: dict[str, int] = {}
    for step, lengths in replies.groupby("step")["output_tokens"]:
        if len(lengths) >= ENOUGH_REPLIES:
            # "lower" takes a length that occurred, not one between a usual reply and one without
            # end.
            found[str(step)] = int(lengths.quantile(USUAL_SHARE, interpolation="lower"))
        else:
            found[str(step)] = int(lengths.max())
    return found
