"""Estimate what it will cost to read the descriptions of pictures, which no model has made yet.

This is no part of the bill: a plan counts what a run surely asks, and the length of a description
is not known before it is made.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from pipeline.engine.bill import expected_calls as bill
from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.bill.expected_calls import Estimate, PastCalls
from pipeline.engine.resources import Model
from pipeline.engine.workflow import Step
from pipeline.errors import counted
from pipeline.models.base import GENEROUS_REPLY, Tokenizer


@dataclass(frozen=True)
class Descriptions:
    """Descriptions that are to come.

    ``tokens`` are those of each: the mean of the ``made`` ones so far, or the limit of a reply
    where there are none.
    """

    number: int
    made: int
    tokens: int


def descriptions_to_come(step: Step, estimate: Estimate, former: PastCalls) -> Descriptions:
    """Return the descriptions of a step that asks about pictures; ``estimate`` is the step's."""
    made = former.replies(step.id)["output_tokens"]
    tokens = ceil(float(made.mean())) if len(made) else GENEROUS_REPLY
    return Descriptions(estimate.calls[1], len(made), min(tokens, GENEROUS_REPLY))


def reading_of(
    step: Step,
    model: Model,
    descriptions: Descriptions,
    size: int | None,
    instructions: int,
    tokenizer: Tokenizer,
    former: PastCalls,
) -> Estimate:
    """Return what a step that reads text units will ask about the descriptions.

    ``size`` is the number of tokens at which documents are cut into text units, None if they are
    not. ``instructions`` are the tokens of the step's prompts.
    """
    units_of_one = ceil(descriptions.tokens / size) if size else 1
    units = descriptions.number * max(units_of_one, 1)
    said = descriptions.number * descriptions.tokens
    tally = Tally(tokenizer, rows=units, calls=units, input_tokens=units * instructions + said)
    return bill.estimate(step, model, tally, bill.surely(step, tally, former), former, True)


def reading_in_words(descriptions: Descriptions, readings: Iterable[tuple[str, Estimate]]) -> str:
    """Return what the steps will ask about the descriptions, marked as an estimate; "" for nothing.

    ``readings`` has the estimate of each step, by the step's id.
    """
    parts: list[str] = []
    for step, reading in readings:
        is_measured = descriptions.made > 0
        calls = reading.expected.calls if is_measured else reading.calls[1]
        cost = reading.expected.cost
        if not is_measured and reading.cost is not None:
            cost = reading.cost[1]
        price = "no price" if cost is None else f"{cost:.4f}"
        parts.append(f"{step} {counted(calls, 'call')} ({price})")
    if not parts:
        return ""
    basis = f"by the limit of a reply, {GENEROUS_REPLY:,} tokens: none is described yet"
    if descriptions.made:
        basis = f"by the {descriptions.tokens:,} tokens of a description so far"
    about = "about" if descriptions.made else "at most about"
    return f"reading them adds {about} {', '.join(parts)}, an estimate {basis}"
