"""What a step may ask and cost: what it surely asks, what replies still to come may add, and how
long replies are.

Former runs say how often a row is asked again, how many summaries a new text brings and how long
replies are; before there are any, guesses do, and the estimate says so.
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
"""The least and the most."""
ENOUGH = 5
"""Calls of former runs below which they say nothing."""
SPREAD = (0.7, 1.4)
"""How far the mean of what is to come may be from that of former calls."""
DEVIATIONS = 3
"""By how many standard deviations the sum of few replies may differ from so many times their
mean."""
UNSEEN = 3
"""What was never seen in n trials may still come in 3 of n (by 95 in 100)."""
FEW = 0.5
"""Of the rows: a night that asks about more of them is like the first."""
LEAST_REPLY = 15
REPLY_OF_A_TEXT = 3
"""How many times as long as the request a list of what is in a text may be."""
TOKENS_OF_A_WORD = 1.5
SHARE_OF_A_REPORT = 3
"""A text is expected to be one third of the words it may have."""
TOKENS_OF_A_ROW = (60, 20)
"""What a reply takes for each row of the graph that comes of it: expected, and at least."""
TOKENS_OF_A_TEXT = (30, 90)
"""Of an entity's or relationship's text: expected, and at most on average."""
COMMUNITY = (6, 5)
"""Rows of the graph a community of all levels: expected, and at least."""
SUMMARIES = 0.25
"""Of the summaries that replies to come have words for, those that are expected."""
LONGEST_SUBJECT = 8
"""How many times as long as the limit what is summarised is at most on average."""
COMMUNITIES = "communities"
"""A table of which one row more in the graph may change any other."""


@dataclass(frozen=True)
class Amount:
    """``cost`` is None without a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0


@dataclass(frozen=True)
class Estimate:
    """``rows`` of model work, of which ``known`` need no call. Ranges hold both ends: they differ
    where replies that are still to come decide; ``expected`` lies between. ``cost`` is None without
    a price. ``guessed``: no former run tells how long replies are, or what comes of them, so that
    the upper ends are no bounds."""

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
    """A number that is not known yet: what is expected, and the most."""

    expected: float = 0
    most: float = 0

    def times(self, factor: float) -> "Expectation":
        return Expectation(self.expected * factor, self.most * factor)


@dataclass(frozen=True)
class PendingReplies:
    """Replies of the step ``step`` that are to come, for ``replies`` of its ``rows``; ``gone``: ids
    of the rows that it had in the last run and has no more. ``said``: tokens of them; ``made``:
    rows that come of them."""

    step: str
    replies: int
    rows: int
    gone: frozenset[str]
    said: Expectation
    made: Expectation
    guessed: bool = False

    @property
    def share(self) -> float:
        """Of the rows: those whose reply is to come or gone."""
        return min(1.0, (self.replies + len(self.gone)) / max(self.rows, 1))


@dataclass(frozen=True)
class PastCalls:
    """What the calls of former runs tell."""

    usage: pd.DataFrame

    def calls(self, step: str) -> pd.DataFrame:
        return self.usage[(self.usage["step"] == step) & (self.usage["outcome"] != "throttled")]

    def replies(self, step: str) -> pd.DataFrame:
        return self.usage[(self.usage["step"] == step) & self.usage["outcome"].isin(ANSWERED)]

    def again(self, step: str) -> float:
        """Calls beyond one a row, for each row."""
        calls = self.calls(step)
        rows = len(calls.drop_duplicates(["run_id", "row_id"]))
        return len(calls) / rows - 1 if rows >= ENOUGH else 0.0

    def for_each(self, step: str, of: str) -> Expectation | None:
        """Rows that the step has asked about for each one that the step ``of`` has; None where too
        few are known."""
        asked, base = self.calls(step)["row_id"].nunique(), self.calls(of)["row_id"].nunique()
        return Expectation(asked / base, 2 * (asked + UNSEEN) / base) if base >= ENOUGH else None

    def a_night(self, step: str, to_come: PendingReplies) -> float | None:
        """Rows that the step may be expected to ask about, by the nights in which few replies came
        anew; None before there were ENOUGH replies in such nights."""
        asked = self.calls(step).groupby("run_id")["row_id"].nunique()
        base = self.calls(to_come.step).groupby("run_id")["row_id"].nunique()
        few = base[base < to_come.rows * FEW]
        return (
            None
            if few.sum() < ENOUGH
            else float(asked.reindex(few.index).sum() / few.sum() * to_come.replies)
        )

    def tokens_of_a_text(self, step: str) -> Expectation:
        """Of those that the step has embedded."""
        calls = self.replies(step)
        texts = int(calls["texts"].sum())
        mean = float(calls["input_tokens"].sum()) / texts if texts >= ENOUGH else None
        return Expectation(mean, 2 * mean) if mean else Expectation(*TOKENS_OF_A_TEXT)


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
    """What was counted, and what the model is asked beside it: for what it missed, in further
    rounds, for repair."""
    calls, tokens = tally.calls, tally.input_tokens
    gleanings, rounds = getattr(step.params, "gleanings", 0), getattr(step.params, "rounds", 1)
    repeated = gleanings * (gleanings + 1) // 2  # each gleaning repeats what was said
    again = 0.0 if gleanings or not step.verb.roles_of(ChatModel) else 2 * former.again(step.id)
    more_calls = ceil(calls * (gleanings + rounds - 1 + again))
    more_tokens = (
        ceil(tokens * (gleanings + repeated + rounds - 1 + 2 * again))
        + calls * repeated * TOKENS_OF_A_GLEANING
    )
    return CallRange(
        (calls, calls + more_calls // 2, calls + more_calls),
        (tokens, tokens + more_tokens // 2, tokens + more_tokens),
    )


TOKENS_OF_A_GLEANING = 400


def of_reports(
    step: Step,
    tally: Tally,
    at_hand: bool,
    communities: int,
    to_come: PendingReplies,
    instructions: int,
    former: PastCalls,
) -> CallRange:
    """``tally``: of reports on the communities that are known, all of them where they are
    ``at_hand``; ``communities``: those of the last run, 0 before the first."""
    each = float(instructions)
    if at_hand or tally.rows:
        each = (tally.input_tokens + tally.known_tokens) / max(tally.rows, 1)
    if at_hand:
        likely = Expectation(tally.calls + tally.known * to_come.share, tally.rows)
    elif communities:
        usual = former.a_night(step.id, to_come)
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
    tokens = Expectation(
        calls.expected * each + more.expected, calls.most * each * SPREAD[1] + 2 * more.most
    )
    return _none_or(calls, tokens)


def of_summaries(
    step: Step, tally: Tally, to_come: PendingReplies, instructions: int, former: PastCalls
) -> CallRange:
    """Or whatever else is asked once for each row that comes together of many. ``tally``: of the
    rows of the last run that what is to come, or gone, had a part in."""
    limit = getattr(step.params, "max_tokens", TOKENS_OF_A_ROW[1])
    known = former.for_each(step.id, to_come.step)
    by_length = Expectation(SUMMARIES, 1).times(to_come.said.expected / limit)
    new = known.times(to_come.replies) if known else by_length
    if (
        known and to_come.replies > FEW * to_come.rows / 2
    ):  # names of many new texts recur among them
        new = Expectation(new.expected, max(new.most, 2 * by_length.most))
    rounds = getattr(step.params, "rounds", 1)
    again = 1 + former.again(step.id)
    calls = Expectation(
        (tally.rows + new.expected) * again,
        (tally.rows + ceil(new.most)) * (2 * again - 1) * rounds,
    )
    tokens = Expectation(
        tally.input_tokens + tally.known_tokens + new.expected * (instructions + limit),
        2 * (tally.input_tokens + tally.known_tokens)
        + ceil(new.most) * (instructions + limit)
        + min(2 * to_come.said.most, ceil(new.most) * limit * LONGEST_SUBJECT),
    )
    return _none_or(calls, tokens.times(again))


def of_texts(
    step: Step, tally: Tally, before: int, to_come: PendingReplies, former: PastCalls
) -> CallRange:
    """``tally``: of texts that are known; ``before``: texts of the last run; 0 where there was
    none, or the texts are replies to come."""
    batch_size, each = tally.batch_size, former.tokens_of_a_text(step.id)
    texts = Expectation(
        to_come.made.expected + tally.rows - tally.known, to_come.made.most + tally.rows
    )
    if before:
        changed = before * min(1.0, max(to_come.replies, len(to_come.gone)) / max(to_come.rows, 1))
        texts = Expectation(changed, 2 * changed + batch_size)
    calls = Expectation(ceil(texts.expected / batch_size), ceil(texts.most / batch_size))
    if not to_come.rows:  # the texts are the replies
        return _none_or(calls, to_come.said)
    return _none_or(calls, Expectation(texts.expected * each.expected, texts.most * each.most))


def _none_or(calls: Expectation, tokens: Expectation) -> CallRange:
    """Nothing of it is sure."""
    most = ceil(calls.most)
    return CallRange(
        (0, min(round(calls.expected), most), most), (0, round(tokens.expected), ceil(tokens.most))
    )


def replies(step: Step, asked: CallRange, former: PastCalls) -> tuple[tuple[int, int, int], bool]:
    """Output tokens as those of a CallRange, and whether they are guessed."""
    known = former.replies(step.id)["output_tokens"]
    fewest, expected, most = asked.calls
    if len(known) >= ENOUGH:
        mean, chance = float(known.mean()), DEVIATIONS * float(known.std())
        least = max(0, int(fewest * mean * SPREAD[0] - chance * sqrt(fewest)))
        return (
            least,
            round(expected * mean),
            ceil(most * mean * SPREAD[1] + chance * sqrt(most)),
        ), False
    words = getattr(step.params, "max_length", None)
    if words:
        longest = words * TOKENS_OF_A_WORD
        return (
            fewest * LEAST_REPLY,
            round(expected * words / SHARE_OF_A_REPORT),
            ceil(most * longest),
        ), True
    return (fewest * LEAST_REPLY, asked.tokens[1], REPLY_OF_A_TEXT * asked.tokens[2]), True


def estimate(
    step: Step, model: Model, tally: Tally, asked: CallRange, former: PastCalls, guessed: bool
) -> Estimate:
    """A step in batches may pay the full price in the end: for few calls, and for what failed in a
    batch."""
    said, unknown = (
        replies(step, asked, former) if step.verb.roles_of(ChatModel) else ((0, 0, 0), False)
    )
    full = getattr(model, "full_cost", getattr(model, "cost", _free))
    cheap = getattr(model, "cost", _free)
    few = asked.calls[0] or asked.calls[2]  # how many are the first, if any are
    low = full if few < getattr(model, "least", 0) else cheap
    costs = [
        price(Tokens(*end))
        for price, end in zip((low, low, full), zip(asked.tokens, said, strict=True), strict=True)
    ]
    lowest, expected, highest = costs
    return Estimate(
        tally.rows,
        tally.known,
        (asked.calls[0], asked.calls[2]),
        (asked.tokens[0], asked.tokens[2]),
        (said[0], said[2]),
        None if lowest is None or highest is None else (lowest, highest),
        Amount(asked.calls[1], asked.tokens[1], said[1], expected),
        asked.calls[2] > 0 and (guessed or unknown),
    )


def _mean(values: pd.Series, otherwise: float) -> float:
    return float(values.mean()) if len(values) else otherwise


def _free(tokens: Tokens) -> float:
    return 0.0
