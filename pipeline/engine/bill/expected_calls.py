"""Bounds of what a step may ask and cost: certain calls, calls that follow from pending replies,
and the length of replies.

Earlier runs tell how often a row is asked again, how many summaries a new text brings and how long
replies are. Before there are any, guesses are used, and the estimate says so.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

import pandas as pd

from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.resources import Model
from pipeline.engine.workflow import Step
from pipeline.models.base import ANSWERED, ChatModel, Tokens

Range = tuple[int, int]
Seconds = tuple[float, float]
"""The least and the most seconds."""
ENOUGH = 5
"""The number of calls of earlier runs below which nothing is concluded from them."""
SPREAD = (0.7, 1.4)
"""Factors that bound the mean of future calls, relative to the mean of earlier ones."""
DEVIATIONS = 3
"""The number of standard deviations by which the sum of few replies may differ from the expected
sum."""
UNSEEN = 3
"""If something was never seen in n trials, its rate is below 3 / n with a confidence of 95 % (rule
of three)."""
FEW = 0.5
"""A share of the rows: a run that asks about more of them is treated like a first run."""
LEAST_REPLY = 15
REPLY_OF_A_TEXT = 3
"""The most that a list of what is in a text is longer than the request, as a factor."""
TOKENS_OF_A_WORD = 1.5
SHARE_OF_A_REPORT = 3
"""The divisor of a text's allowed words that gives its expected words."""
TOKENS_OF_A_ROW = (60, 20)
"""Tokens of a reply for each row of the graph that it yields: expected, and at least."""
TOKENS_OF_A_TEXT = (30, 90)
"""Tokens of an entity's or relationship's text: expected, and at most on average."""
COMMUNITY = (6, 5)
"""Rows of the graph for each community, over all levels: expected, and at least."""
SUMMARIES = 0.25
"""The expected share of the summaries for which pending replies have enough words."""
LONGEST_SUBJECT = 8
"""The most that a text to be summarised is longer than the limit, on average, as a factor."""
COMMUNITIES = "communities"
"""The table in which any row may change when the graph has one row more."""


@dataclass(frozen=True)
class Amount:
    """Calls, tokens and cost. ``cost`` is None without a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0


@dataclass(frozen=True)
class Estimate:
    """The estimate of a step.

    ``rows`` of model work, of which ``known`` need no call. Ranges hold the least and the most,
    which differ where pending replies decide; ``expected`` lies between. ``cost`` is None without a
    price. ``guessed``: no earlier run tells how long replies are, or what follows from them, so
    that the upper ends are no bounds.
    """

    rows: int = 0
    known: int = 0
    calls: Range = (0, 0)
    input_tokens: Range = (0, 0)
    output_tokens: Range = (0, 0)
    cost: tuple[float, float] | None = (0.0, 0.0)
    expected: Amount = Amount()
    guessed: bool = False


@dataclass(frozen=True)
class Expectation:
    """A number that is not known yet: the expected value, and the most."""

    expected: float = 0
    most: float = 0

    def times(self, factor: float) -> "Expectation":
        return Expectation(self.expected * factor, self.most * factor)


@dataclass(frozen=True)
class PendingReplies:
    """Replies of the step ``step`` that are still to come.

    ``replies``: how many of its ``rows`` they are for. ``gone``: ids of rows that it had in the
    last run and no longer has. ``said``: the tokens of the replies. ``made``: the rows that they
    will yield.
    """

    step: str
    replies: int
    rows: int
    gone: frozenset[str]
    said: Expectation
    made: Expectation
    guessed: bool = False

    @property
    def share(self) -> float:
        """The share of rows whose reply is pending, or that are gone."""
        return min(1.0, (self.replies + len(self.gone)) / max(self.rows, 1))


@dataclass(frozen=True)
class PastCalls:
    """Statistics over the calls of earlier runs."""

    usage: pd.DataFrame

    def calls(self, step: str) -> pd.DataFrame:
        """Return the calls of a step that the endpoint took."""
        is_of_step = self.usage["step"] == step
        is_throttled = self.usage["outcome"] == "throttled"
        return self.usage[is_of_step & ~is_throttled]

    def replies(self, step: str) -> pd.DataFrame:
        """Return the calls of a step that were answered."""
        is_of_step = self.usage["step"] == step
        is_answered = self.usage["outcome"].isin(ANSWERED)
        return self.usage[is_of_step & is_answered]

    def again(self, step: str) -> float:
        """Return the number of calls after the first one, for each row; 0 if too few are known."""
        calls = self.calls(step)
        rows = len(calls.drop_duplicates(["run_id", "row_id"]))
        if rows < ENOUGH:
            return 0.0
        return len(calls) / rows - 1

    def for_each(self, step: str, of: str) -> Expectation | None:
        """Return how many rows the step asked about for each row of the step ``of``; None if too
        few are known."""
        asked = self.calls(step)["row_id"].nunique()
        base = self.calls(of)["row_id"].nunique()
        if base < ENOUGH:
            return None
        most_asked = 2 * (asked + UNSEEN)
        return Expectation(asked / base, most_asked / base)

    def rows_in_small_runs(self, step: str, to_come: PendingReplies) -> float | None:
        """Return how many rows the step is expected to ask about, judged by earlier runs with few
        new replies.

        Returns None if there were fewer than ENOUGH replies in such runs.
        """
        asked_by_run = self.calls(step).groupby("run_id")["row_id"].nunique()
        replies_by_run = self.calls(to_come.step).groupby("run_id")["row_id"].nunique()
        is_small = replies_by_run < to_come.rows * FEW
        small_runs = replies_by_run[is_small]
        replies = small_runs.sum()
        if replies < ENOUGH:
            return None
        # A run in which the step asked nothing is missing in ``asked_by_run``, and counts as 0.
        asked = asked_by_run.reindex(small_runs.index).sum()
        for_each_reply = asked / replies
        return float(for_each_reply * to_come.replies)

    def tokens_of_a_text(self, step: str) -> Expectation:
        """Return the tokens of a text that the step embeds; a guess if too few are known."""
        calls = self.replies(step)
        texts = int(calls["texts"].sum())
        tokens = float(calls["input_tokens"].sum())
        if texts < ENOUGH or not tokens:
            return Expectation(*TOKENS_OF_A_TEXT)
        return Expectation(tokens / texts, 2 * tokens / texts)


class Bounds(NamedTuple):
    """A number that is between the fewest and the most."""

    fewest: int
    expected: int
    most: int

    def plus(self, other: "Bounds") -> "Bounds":
        """Return the bounds of the sum of both numbers."""
        return Bounds(
            self.fewest + other.fewest, self.expected + other.expected, self.most + other.most
        )


@dataclass(frozen=True)
class CallRange:
    """Calls, and the input tokens of all of them."""

    calls: Bounds
    tokens: Bounds

    def with_more(self, other: "CallRange") -> "CallRange":
        """Return these calls and the other ones together."""
        return CallRange(self.calls.plus(other.calls), self.tokens.plus(other.tokens))


NOTHING = Bounds(0, 0, 0)
NOTHING_ASKED = CallRange(NOTHING, NOTHING)


def surely(step: Step, tally: Tally, former: PastCalls) -> CallRange:
    """Return the calls that were counted, with those that may be added to them.

    A model is asked again for what it missed (gleaning), in further rounds, and to repair a reply.
    """
    calls, tokens = tally.calls, tally.input_tokens
    gleanings = getattr(step.params, "gleanings", 0)
    more_rounds = getattr(step.params, "rounds", 1) - 1
    # The n-th gleaning repeats the n exchanges before it.
    repeated = gleanings * (gleanings + 1) // 2
    again = 0.0
    if not gleanings and step.verb.roles_of(ChatModel):
        again = 2 * former.again(step.id)
    more_calls = ceil(calls * (gleanings + more_rounds + again))
    # A request that is sent again may be twice as long.
    more_tokens = ceil(tokens * (gleanings + repeated + more_rounds + 2 * again))
    more_tokens += calls * repeated * TOKENS_OF_A_GLEANING
    # Half of what may be added is expected.
    return CallRange(
        Bounds(calls, calls + more_calls // 2, calls + more_calls),
        Bounds(tokens, tokens + more_tokens // 2, tokens + more_tokens),
    )


TOKENS_OF_A_GLEANING = 400
"""Tokens of a reply that a gleaning repeats in its request."""


def of_reports(
    step: Step,
    tally: Tally,
    at_hand: bool,
    communities: int,
    to_come: PendingReplies,
    instructions: int,
    former: PastCalls,
) -> CallRange:
    """Return the calls for reports on communities.

    ``tally``: calls for the communities that are known; these are all if they are ``at_hand``.
    ``communities``: how many the last run had, 0 before the first. ``instructions``: tokens of the
    prompts.
    """
    tokens_of_a_call = float(instructions)
    if at_hand or tally.rows:
        tokens_of_rows = tally.input_tokens + tally.known_tokens
        tokens_of_a_call = tokens_of_rows / max(tally.rows, 1)
    if at_hand:
        # A known report is written again if a pending reply changes its community.
        reports = Expectation(tally.calls + tally.known * to_come.share, tally.rows)
    elif communities:
        usual = former.rows_in_small_runs(step.id, to_come)
        touched = 2 * to_come.share * communities if usual is None else usual
        growth = communities * to_come.replies / max(to_come.rows, 1)
        reports = Expectation(min(touched, communities), communities + growth + UNSEEN)
        tokens_of_a_call = _mean(former.replies(step.id)["input_tokens"], instructions)
    else:
        usual_rows, least_rows = COMMUNITY
        new_expected = to_come.made.expected / usual_rows
        new_most = to_come.made.most / least_rows
        reports = Expectation(tally.calls + new_expected, tally.rows + new_most)
    calls_for_each = 1 + former.again(step.id)
    calls = Expectation(reports.expected * calls_for_each, reports.most * (2 * calls_for_each - 1))
    # The text of a pending reply is in one request, in two where there are no reports yet.
    is_first = not communities and not at_hand
    said = to_come.said.times(2 if is_first else 1)
    expected_tokens = calls.expected * tokens_of_a_call + said.expected
    most_tokens = calls.most * tokens_of_a_call * SPREAD[1] + 2 * said.most
    return _from_zero(calls, Expectation(expected_tokens, most_tokens))


def of_summaries(
    step: Step, tally: Tally, to_come: PendingReplies, instructions: int, former: PastCalls
) -> CallRange:
    """Return the calls for summaries, or for anything asked once for a row that is merged from
    many.

    ``tally``: calls for the rows of the last run that changed or vanished rows had a part in.
    ``instructions``: tokens of the prompts.
    """
    # The model is asked about a row whose texts have more tokens than this.
    limit = getattr(step.params, "max_tokens", TOKENS_OF_A_ROW[1])
    for_each_reply = former.for_each(step.id, to_come.step)
    summaries_with_enough_words = to_come.said.expected / limit
    by_length = Expectation(SUMMARIES, 1).times(summaries_with_enough_words)
    new = by_length
    if for_each_reply:
        new = for_each_reply.times(to_come.replies)
        has_many_new_texts = to_come.replies > FEW * to_come.rows / 2
        if has_many_new_texts:
            # Names of many new texts recur among these texts, which earlier runs do not show.
            new = Expectation(new.expected, max(new.most, 2 * by_length.most))
    rounds = getattr(step.params, "rounds", 1)
    calls_for_each = 1 + former.again(step.id)
    most_new = ceil(new.most)
    calls = Expectation(
        (tally.rows + new.expected) * calls_for_each,
        (tally.rows + most_new) * (2 * calls_for_each - 1) * rounds,
    )
    tokens_before = tally.input_tokens + tally.known_tokens
    tokens_of_a_request = instructions + limit
    # A subject cannot have more words than the pending replies have.
    longest_subjects = min(2 * to_come.said.most, most_new * limit * LONGEST_SUBJECT)
    tokens = Expectation(
        tokens_before + new.expected * tokens_of_a_request,
        2 * tokens_before + most_new * tokens_of_a_request + longest_subjects,
    )
    return _from_zero(calls, tokens.times(calls_for_each))


def of_texts(
    step: Step, tally: Tally, before: int, to_come: PendingReplies, former: PastCalls
) -> CallRange:
    """Return the calls that embed texts.

    ``tally``: calls for the texts that are known. ``before``: the number of texts in the last run;
    0 without one, or if the texts are pending replies themselves.
    """
    batch_size = tally.batch_size
    if before:
        # The share of rows that change is expected to be that of the texts that change.
        changed_rows = max(to_come.replies, len(to_come.gone))
        changed_share = min(1.0, changed_rows / max(to_come.rows, 1))
        changed_texts = before * changed_share
        texts = Expectation(changed_texts, 2 * changed_texts + batch_size)
    else:
        unknown_texts = tally.rows - tally.known
        texts = Expectation(to_come.made.expected + unknown_texts, to_come.made.most + tally.rows)
    calls = Expectation(ceil(texts.expected / batch_size), ceil(texts.most / batch_size))
    if not to_come.rows:
        # The texts are the replies themselves.
        return _from_zero(calls, to_come.said)
    of_a_text = former.tokens_of_a_text(step.id)
    expected_tokens = texts.expected * of_a_text.expected
    most_tokens = texts.most * of_a_text.most
    return _from_zero(calls, Expectation(expected_tokens, most_tokens))


def _from_zero(calls: Expectation, tokens: Expectation) -> CallRange:
    """Return a range that begins at 0, since none of these calls is certain."""
    most = ceil(calls.most)
    expected = min(round(calls.expected), most)
    tokens_in = Bounds(0, round(tokens.expected), ceil(tokens.most))
    return CallRange(Bounds(0, expected, most), tokens_in)


def replies(step: Step, asked: CallRange, former: PastCalls) -> tuple[Bounds, bool]:
    """Return the output tokens of the replies to what is asked, and whether they are guessed."""
    known = former.replies(step.id)["output_tokens"]
    calls = asked.calls
    if len(known) >= ENOUGH:
        mean = float(known.mean())
        deviation = DEVIATIONS * float(known.std())
        # A sum of n replies deviates from n means by about the root of n standard deviations.
        fewest_tokens = calls.fewest * mean * SPREAD[0] - deviation * sqrt(calls.fewest)
        most_tokens = calls.most * mean * SPREAD[1] + deviation * sqrt(calls.most)
        expected_tokens = round(calls.expected * mean)
        return Bounds(max(0, int(fewest_tokens)), expected_tokens, ceil(most_tokens)), False
    fewest_tokens = calls.fewest * LEAST_REPLY
    words = getattr(step.params, "max_length", None)
    if words:
        expected_tokens = round(calls.expected * words / SHARE_OF_A_REPORT)
        most_tokens = ceil(calls.most * words * TOKENS_OF_A_WORD)
        return Bounds(fewest_tokens, expected_tokens, most_tokens), True
    most_tokens = REPLY_OF_A_TEXT * asked.tokens.most
    return Bounds(fewest_tokens, asked.tokens.expected, most_tokens), True


def estimate(
    step: Step, model: Model, tally: Tally, asked: CallRange, former: PastCalls, guessed: bool
) -> Estimate:
    """Return the estimate of a step from its calls.

    A step in batches may pay the full price in the end: for few calls, and for those that failed in
    a batch.
    """
    calls, tokens = asked.calls, asked.tokens
    said, replies_are_guessed = NOTHING, False
    if step.verb.roles_of(ChatModel):
        said, replies_are_guessed = replies(step, asked, former)
    price = getattr(model, "cost", _free)
    full_price = getattr(model, "full_cost", price)
    # A batch of fewer calls than ``least`` is not sent as one: its calls pay the full price.
    fewest_of_a_batch = calls.fewest or calls.most
    is_too_small = fewest_of_a_batch < getattr(model, "least", 0)
    low_price = full_price if is_too_small else price
    lowest_cost = low_price(Tokens(tokens.fewest, said.fewest))
    expected_cost = low_price(Tokens(tokens.expected, said.expected))
    highest_cost = full_price(Tokens(tokens.most, said.most))
    cost: tuple[float, float] | None = None
    if lowest_cost is not None and highest_cost is not None:
        cost = (lowest_cost, highest_cost)
    return Estimate(
        rows=tally.rows,
        known=tally.known,
        calls=(calls.fewest, calls.most),
        input_tokens=(tokens.fewest, tokens.most),
        output_tokens=(said.fewest, said.most),
        cost=cost,
        expected=Amount(calls.expected, tokens.expected, said.expected, expected_cost),
        guessed=calls.most > 0 and (guessed or replies_are_guessed),
    )


def _mean(values: pd.Series, otherwise: float) -> float:
    """Return the mean of the values; ``otherwise`` if there are none."""
    return float(values.mean()) if len(values) else otherwise


def _free(tokens: Tokens) -> float:
    """Return the cost of tokens of a model that has no price: it works in this process."""
    return 0.0
