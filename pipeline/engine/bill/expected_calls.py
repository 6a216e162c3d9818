"""Bounds of what a step may ask and cost: certain calls, calls that follow from pending replies,
and the length of replies.

Earlier runs tell how often a row is asked again, how many summaries a new text brings and how long
replies are. Before there are any, guesses are used, and the estimate says so.
"""

from dataclasses import dataclass
from math import ceil, sqrt

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
        return self.usage[(self.usage["step"] == step) & (self.usage["outcome"] != "throttled")]

    def replies(self, step: str) -> pd.DataFrame:
        return self.usage[(self.usage["step"] == step) & self.usage["outcome"].isin(ANSWERED)]

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
        return Expectation(asked / base, 2 * (asked + UNSEEN) / base)

    def rows_in_small_runs(self, step: str, to_come: PendingReplies) -> float | None:
        """Return how many rows the step is expected to ask about, judged by earlier runs with few
        new replies.

        Returns None if there were fewer than ENOUGH replies in such runs.
        """
        asked = self.calls(step).groupby("run_id")["row_id"].nunique()
        base = self.calls(to_come.step).groupby("run_id")["row_id"].nunique()
        few = base[base < to_come.rows * FEW]
        if few.sum() < ENOUGH:
            return None
        for_each_reply = asked.reindex(few.index).sum() / few.sum()
        return float(for_each_reply * to_come.replies)

    def tokens_of_a_text(self, step: str) -> Expectation:
        """Return the tokens of a text that the step embeds; a guess if too few are known."""
        calls = self.replies(step)
        texts = int(calls["texts"].sum())
        tokens = float(calls["input_tokens"].sum())
        if texts < ENOUGH or not tokens:
            return Expectation(*TOKENS_OF_A_TEXT)
        return Expectation(tokens / texts, 2 * tokens / texts)


@dataclass(frozen=True)
class CallRange:
    """Calls and their input tokens: the fewest, those expected, the most."""

    calls: tuple[int, int, int]
    tokens: tuple[int, int, int]

    def with_more(self, other: "CallRange") -> "CallRange":
        """Return these calls and the other ones together."""
        return CallRange(_added(self.calls, other.calls), _added(self.tokens, other.tokens))


NOTHING_ASKED = CallRange((0, 0, 0), (0, 0, 0))


def _added(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


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
    more_tokens = ceil(tokens * (gleanings + repeated + more_rounds + 2 * again))
    more_tokens += calls * repeated * TOKENS_OF_A_GLEANING
    # Half of what may be added is expected.
    return CallRange(
        (calls, calls + more_calls // 2, calls + more_calls),
        (tokens, tokens + more_tokens // 2, tokens + more_tokens),
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
    each = float(instructions)
    if at_hand or tally.rows:
        each = (tally.input_tokens + tally.known_tokens) / max(tally.rows, 1)
    if at_hand:
        likely = Expectation(tally.calls + tally.known * to_come.share, tally.rows)
    elif communities:
        usual = former.rows_in_small_runs(step.id, to_come)
        touched = 2 * to_come.share * communities if usual is None else usual
        growth = communities * to_come.replies / max(to_come.rows, 1)
        likely = Expectation(min(touched, communities), communities + growth + UNSEEN)
        each = _mean(former.replies(step.id)["input_tokens"], instructions)
    else:
        more = Expectation(to_come.made.expected / COMMUNITY[0], to_come.made.most / COMMUNITY[1])
        likely = Expectation(tally.calls + more.expected, tally.rows + more.most)
    again = 1 + former.again(step.id)
    calls = Expectation(likely.expected * again, likely.most * (2 * again - 1))
    more = to_come.said.times(1 if communities or at_hand else 2)
    expected_tokens = calls.expected * each + more.expected
    most_tokens = calls.most * each * SPREAD[1] + 2 * more.most
    return _from_zero(calls, Expectation(expected_tokens, most_tokens))


def of_summaries(
    step: Step, tally: Tally, to_come: PendingReplies, instructions: int, former: PastCalls
) -> CallRange:
    """Return the calls for summaries, or for anything asked once for a row that is merged from
    many.

    ``tally``: calls for the rows of the last run that changed or vanished rows had a part in.
    ``instructions``: tokens of the prompts.
    """
    limit = getattr(step.params, "max_tokens", TOKENS_OF_A_ROW[1])
    known = former.for_each(step.id, to_come.step)
    by_length = Expectation(SUMMARIES, 1).times(to_come.said.expected / limit)
    new = known.times(to_come.replies) if known else by_length
    if known and to_come.replies > FEW * to_come.rows / 2:
        # Names of many new texts recur among these texts, which earlier runs do not show.
        new = Expectation(new.expected, max(new.most, 2 * by_length.most))
    rounds = getattr(step.params, "rounds", 1)
    again = 1 + former.again(step.id)
    most_new = ceil(new.most)
    calls = Expectation(
        (tally.rows + new.expected) * again,
        (tally.rows + most_new) * (2 * again - 1) * rounds,
    )
    tokens_before = tally.input_tokens + tally.known_tokens
    longest_subjects = min(2 * to_come.said.most, most_new * limit * LONGEST_SUBJECT)
    tokens = Expectation(
        tokens_before + new.expected * (instructions + limit),
        2 * tokens_before + most_new * (instructions + limit) + longest_subjects,
    )
    return _from_zero(calls, tokens.times(again))


def of_texts(
    step: Step, tally: Tally, before: int, to_come: PendingReplies, former: PastCalls
) -> CallRange:
    """Return the calls that embed texts.

    ``tally``: calls for the texts that are known. ``before``: the number of texts in the last run;
    0 without one, or if the texts are pending replies themselves.
    """
    batch_size, each = tally.batch_size, former.tokens_of_a_text(step.id)
    expected_texts = to_come.made.expected + tally.rows - tally.known
    texts = Expectation(expected_texts, to_come.made.most + tally.rows)
    if before:
        changed_rows = max(to_come.replies, len(to_come.gone))
        changed = before * min(1.0, changed_rows / max(to_come.rows, 1))
        texts = Expectation(changed, 2 * changed + batch_size)
    calls = Expectation(ceil(texts.expected / batch_size), ceil(texts.most / batch_size))
    if not to_come.rows:
        # The texts are the replies themselves.
        return _from_zero(calls, to_come.said)
    return _from_zero(calls, Expectation(texts.expected * each.expected, texts.most * each.most))


def _from_zero(calls: Expectation, tokens: Expectation) -> CallRange:
    """Return a range that begins at 0, since none of these calls is certain."""
    most = ceil(calls.most)
    expected = min(round(calls.expected), most)
    return CallRange((0, expected, most), (0, round(tokens.expected), ceil(tokens.most)))


def replies(step: Step, asked: CallRange, former: PastCalls) -> tuple[tuple[int, int, int], bool]:
    """Return the fewest, expected and most output tokens, and whether they are guessed."""
    known = former.replies(step.id)["output_tokens"]
    fewest, expected, most = asked.calls
    if len(known) >= ENOUGH:
        # A sum of n replies deviates from n means by about the root of n standard deviations.
        mean, deviation = float(known.mean()), DEVIATIONS * float(known.std())
        least_tokens = fewest * mean * SPREAD[0] - deviation * sqrt(fewest)
        most_tokens = most * mean * SPREAD[1] + deviation * sqrt(most)
        return (max(0, int(least_tokens)), round(expected * mean), ceil(most_tokens)), False
    least = fewest * LEAST_REPLY
    words = getattr(step.params, "max_length", None)
    if words:
        expected_tokens = round(expected * words / SHARE_OF_A_REPORT)
        return (least, expected_tokens, ceil(most * words * TOKENS_OF_A_WORD)), True
    return (least, asked.tokens[1], REPLY_OF_A_TEXT * asked.tokens[2]), True


def estimate(
    step: Step, model: Model, tally: Tally, asked: CallRange, former: PastCalls, guessed: bool
) -> Estimate:
    """Return the estimate of a step from its calls.

    A step in batches may pay the full price in the end: for few calls, and for those that failed in
    a batch.
    """
    said, is_guessed = (0, 0, 0), False
    if step.verb.roles_of(ChatModel):
        said, is_guessed = replies(step, asked, former)
    price = getattr(model, "cost", _free)
    full_price = getattr(model, "full_cost", price)
    # A batch of fewer calls than ``least`` is not sent as one: its calls pay the full price.
    fewest = asked.calls[0] or asked.calls[2]
    low_price = full_price if fewest < getattr(model, "least", 0) else price
    lowest = low_price(Tokens(asked.tokens[0], said[0]))
    expected = low_price(Tokens(asked.tokens[1], said[1]))
    highest = full_price(Tokens(asked.tokens[2], said[2]))
    return Estimate(
        rows=tally.rows,
        known=tally.known,
        calls=(asked.calls[0], asked.calls[2]),
        input_tokens=(asked.tokens[0], asked.tokens[2]),
        output_tokens=(said[0], said[2]),
        cost=None if lowest is None or highest is None else (lowest, highest),
        expected=Amount(asked.calls[1], asked.tokens[1], said[1], expected),
        guessed=asked.calls[2] > 0 and (guessed or is_guessed),
    )


def _mean(values: pd.Series, otherwise: float) -> float:
    return float(values.mean()) if len(values) else otherwise


def _free(tokens: Tokens) -> float:
    return 0.0
