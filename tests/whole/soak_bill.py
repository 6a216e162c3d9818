"""The bill of a project beside the ledger of its endpoint, call by call where the endpoint reports
usage."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.models.base import ANSWERED
from pipeline.models.endpoint.remote_model import PROBE_TEXT
from tests.servers.openai_server import Request

UNREPORTED = frozenset({"no_usage", "zero_usage"})
"""Faults of answers that arrive whole and do not report their tokens."""
UNANSWERED = frozenset({
    "error", "bad_gateway", "unavailable", "gateway_timeout", "loading", "too_many",
    "too_many_until", "silent",
    "dropped", "broken", "garbage", "abandoned",
})  # fmt: skip
"""Faults after which no usable answer, and no usage, has arrived."""
ESTIMATE = 0.10
"""How far the estimate of a call may be from its true number of tokens ..."""
LEAST_ERROR = 2
"""... and so many tokens at least: a short text of embeddings is counted by another tokenizer
here."""


LOOK = "look"
"""The outcome of the small call that shows whether a starting server answers."""
Tokens = tuple[int, int]
"""Input and output tokens of one call."""


@dataclass(frozen=True)
class Bill:
    """What a comparison of usage rows and ledger has found.

    ``exact``: calls whose tokens are in both, pair by pair. ``estimated`` and ``unreported``:
    (input, output) tokens of the other answered calls of the usage, and of the answers without
    usage in the ledger. ``cut_off``: answers of the ledger that no usage row has as answered: calls
    that were under way at a kill or a timeout. ``unknown``, ``timeouts``: calls of the usage that
    can be such. ``unanswered`` and ``failed``: calls that failed, by the ledger and by the usage,
    which also has those that no server heard. ``looks``: the small calls of the usage that showed
    whether a server is there, and ``looks_heard``: those of the ledger; this endpoint pays no heed
    to their limit of one token, so that their tokens are not compared. ``misjudged``: estimates
    that are near no answer without usage.
    """

    exact: int
    estimated: Tokens
    unreported: Tokens
    estimated_calls: int
    unreported_calls: int
    cut_off: int
    cut_off_tokens: Tokens
    unknown: int
    unknown_tokens: Tokens
    timeouts: int
    unanswered: int
    failed: int
    failed_tokens: Tokens
    looks: int
    looks_heard: int
    misjudged: list[Tokens]

    def check(self) -> None:
        """Raise AssertionError where the bill is not what the endpoint's ledger says."""
        assert self.exact > 0, self
        assert self.cut_off <= self.unknown + self.timeouts, self
        assert self.estimated_calls <= self.unreported_calls, self
        assert self.unreported_calls - self.estimated_calls <= self.unknown + self.timeouts, self
        assert not self.misjudged, self
        assert self.looks <= self.looks_heard, self
        assert self.failed >= self.unanswered - self.unknown, self


def compare(usage: pd.DataFrame, requests: Sequence[Request]) -> Bill:
    """Match every answered call of the usage with one of the ledger that has the same tokens."""
    calls = [request for request in requests if request.kind in ("chat", "embeddings")]
    asked = [request for request in calls if not _is_look(request)]
    looks = usage["outcome"] == LOOK
    usage, heard = usage[~looks], len(calls) - len(asked)
    silent = [_tokens(request) for request in asked if request.fault in UNREPORTED]
    answered = Counter(
        _tokens(request) for request in asked if request.fault not in UNREPORTED and request.fault not in UNANSWERED  # noqa: E501
        and request.status == 200
    )  # fmt: skip
    has_answer = usage["outcome"].isin(ANSWERED)
    billed = Counter(_rows(usage[has_answer]))
    exact, cut_off, others = billed & answered, answered - billed, billed - answered
    unknown = usage[usage["outcome"] == "unknown"]
    failed = usage[~has_answer & (usage["outcome"] != "unknown")]
    return Bill(
        exact=exact.total(),
        estimated=_sum(others.elements()),
        unreported=_sum(silent),
        estimated_calls=others.total(),
        unreported_calls=len(silent),
        cut_off=cut_off.total(),
        cut_off_tokens=_sum(cut_off.elements()),
        unknown=len(unknown),
        unknown_tokens=_sum(_rows(unknown)),
        timeouts=int(failed["outcome"].isin(["timeout", "cut"]).sum()),
        unanswered=sum(request.fault in UNANSWERED or request.status != 200 for request in asked),
        failed=len(failed),
        failed_tokens=_sum(_rows(failed)),
        looks=int(looks.sum()),
        looks_heard=heard,
        misjudged=_far_from(silent, others.elements()),
    )


def _far_from(answers: Sequence[Tokens], estimates: Iterable[Tokens]) -> list[Tokens]:
    """Return the estimates that are near none of the answers; each answer stands for one estimate
    at most."""
    left, far = sorted(answers), []
    for estimate in sorted(estimates):
        match = next((answer for answer in left if _is_near(estimate, answer)), None)
        if match is None:
            far.append(estimate)
        else:
            left.remove(match)
    return far


def _is_near(estimate: Tokens, answer: Tokens) -> bool:
    pairs = zip(estimate, answer, strict=True)
    return all(abs(mine - theirs) <= max(ESTIMATE * theirs, LEAST_ERROR) for mine, theirs in pairs)


def _is_look(request: Request) -> bool:
    words = [message.get("content") for message in request.messages] or list(request.inputs)
    return words == [PROBE_TEXT]


def _tokens(request: Request) -> Tokens:
    return request.prompt_tokens, request.completion_tokens


def _rows(usage: pd.DataFrame) -> list[Tokens]:
    return [
        (int(sent), int(got))
        for sent, got in zip(usage["input_tokens"], usage["output_tokens"], strict=True)
    ]


def _sum(calls: Iterable[Tokens]) -> Tokens:
    listed = list(calls)
    return sum(sent for sent, _ in listed), sum(got for _, got in listed)
