"""A chat model as the judge of pairs that no rule decides: several pairs to a request, as their
content fixes."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.contract.prompts import Prompt
from pipeline.models.base import ChatReply, ChatRequest, Message, Talk
from pipeline.models.parse.graph import Problem, failed, unusable
from pipeline.models.parse.lenient_json import plain
from pipeline.text.ids import digest

FENCE, NO_FENCE = "```", "'''"
LONGEST_TEXT = 300
TEXTS = 2
"""Descriptions of an entity that are shown, and characters of each."""
_VERDICT = re.compile(
    r"^\W*(?:pair\W*)?(\d{1,4})\W+(same|different)\b", re.IGNORECASE | re.MULTILINE
)
AGAIN: Message = {
    "role": "user",
    "content": (
        "Your last message could not be read for every pair. Write it again: one line per pair, its"
        " number, a colon, and `same` or `different`."
    ),
}
Verdict = bool | Problem
"""Whether the two are the same, or why nobody knows."""


@dataclass(frozen=True)
class Entry:
    """What the judge sees of an entity."""

    name: str
    type: str
    descriptions: tuple[str, ...]

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "known": [text[:LONGEST_TEXT] for text in self.descriptions],
        }


@dataclass(frozen=True)
class Question:
    """A pair, and its ``id``."""

    id: str
    one: Entry
    two: Entry

    @property
    def digest(self) -> str:
        return digest(json.dumps([self.one.shown, self.two.shown], ensure_ascii=False))


@dataclass(frozen=True)
class Judgement:
    """``row``: which request it comes of, in rejects and usage."""

    question: Question
    verdict: Verdict
    row: str


def batches(questions: Iterable[Question], size: int) -> list[tuple[Question, ...]]:
    """Up to ``size`` questions each, in an order and with ends that their content fixes: one more
    question changes the batch that it comes into, and no others beyond the next such end."""
    found: list[tuple[Question, ...]] = []
    batch: list[Question] = []
    for question in sorted(questions, key=lambda one: (one.digest, one.id)):
        batch.append(question)
        if len(batch) >= size or int(question.digest[:8], 16) % size == 0:
            found.append(tuple(batch))
            batch = []
    return [*found, tuple(batch)] if batch else found


def judged(batch: Sequence[Question], prompt: Prompt) -> Talk[list[Judgement]]:
    """The conversation about a batch; a reply that leaves a pair out is asked for once more, and
    what it did say holds where the second does not say else."""
    asked: Message = {"role": "user", "content": prompt.render(pairs="\n".join(_lines(batch)))}
    request = ChatRequest(batch[0].id, (asked,), check=lambda text: _complaint(text, len(batch)))
    (reply,) = yield (request,)
    verdicts = _verdicts(reply.text)
    if not failed(reply) and _complaint(reply.text, len(batch)):
        said: Message = {"role": "assistant", "content": reply.text}
        more = ChatRequest(batch[0].id, (asked, said, AGAIN), check=request.check, mends=request)
        (reply,) = yield (more,)
        verdicts |= _verdicts(reply.text)
    problem = _problem(reply)
    row = batch[0].id
    return [
        Judgement(question, verdicts.get(number, problem), row)
        for number, question in enumerate(batch, 1)
    ]


def _lines(batch: Sequence[Question]) -> Iterator[str]:
    for number, question in enumerate(batch, 1):
        pair = {"pair": number, "a": question.one.shown, "b": question.two.shown}
        yield json.dumps(pair, ensure_ascii=False).replace(FENCE, NO_FENCE)


def _verdicts(reply: str) -> dict[int, bool]:
    """Number -> whether they are the same; a pair that is given both verdicts has none."""
    found: dict[int, set[bool]] = {}
    for number, verdict in _VERDICT.findall(plain(reply)):
        found.setdefault(int(number), set()).add(verdict.lower() == "same")
    return {number: verdicts.pop() for number, verdicts in found.items() if len(verdicts) == 1}


def _complaint(reply: str, pairs: int) -> str | None:
    missing = set(range(1, pairs + 1)) - set(_verdicts(reply))
    return f"no verdict on {len(missing)} of {pairs} pairs" if missing else None


def _problem(reply: ChatReply) -> Problem:
    return failed(reply) or unusable(reply.text) or Problem("parse", "", "no verdict on this pair")
