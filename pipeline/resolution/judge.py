"""Ask a chat model about pairs of names that no rule decides.

A request holds several pairs. The contents of the pairs determine which of them share a request,
so that a few new pairs change few requests.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.contract.prompts import Prompt
from pipeline.models.base import ChatRequest, Message, Talk
from pipeline.models.parse.graph import Problem, failed, unusable
from pipeline.models.parse.lenient_json import plain
from pipeline.text.ids import digest

FENCE, NO_FENCE = "```", "'''"
LONGEST_TEXT = 300
"""The number of characters of a description that the judge sees."""
TEXTS = 2
"""The number of descriptions of an entity that callers give the judge."""
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
"""True if the two entities are the same, False if not, or the reason why it is unknown."""


@dataclass(frozen=True)
class Entry:
    """The facts about an entity that the judge may see."""

    name: str
    type: str
    descriptions: tuple[str, ...]

    @property
    def shown(self) -> dict[str, Any]:
        """The entity as it is written into the prompt, with shortened descriptions."""
        return {
            "name": self.name,
            "type": self.type,
            "known": [text[:LONGEST_TEXT] for text in self.descriptions],
        }


@dataclass(frozen=True)
class Question:
    """A pair of entities to judge.

    ``id`` identifies the pair. The request of a batch has the id of its first question.
    """

    id: str
    one: Entry
    two: Entry

    @property
    def digest(self) -> str:
        """A hash of what the judge sees."""
        return digest(json.dumps([self.one.shown, self.two.shown], ensure_ascii=False))


@dataclass(frozen=True)
class Judgement:
    """The verdict on a question. ``row`` is the id of its request in rejects and usage."""

    question: Question
    verdict: Verdict
    row: str


def batches(questions: Iterable[Question], size: int) -> list[tuple[Question, ...]]:
    """Group the questions into batches of at most ``size``, sorted by the digest of their content.

    A batch ends when it is full, or behind a question whose digest is a multiple of ``size``. So
    one more question changes its own batch and the following ones only up to the next such end.
    """
    found: list[tuple[Question, ...]] = []
    batch: list[Question] = []
    for question in sorted(questions, key=lambda one: (one.digest, one.id)):
        batch.append(question)
        ends_by_content = int(question.digest[:8], 16) % size == 0
        if len(batch) >= size or ends_by_content:
            found.append(tuple(batch))
            batch = []
    if batch:
        found.append(tuple(batch))
    return found


def judged(batch: Sequence[Question], prompt: Prompt) -> Talk[list[Judgement]]:
    """Hold the conversation about a batch and return a judgement for each of its questions.

    If the reply leaves out a pair, the model is asked once more. Verdicts of the first reply remain
    valid unless the second reply contradicts them.
    """
    row = batch[0].id
    pairs = "\n".join(_pair_lines(batch))
    asked: Message = {"role": "user", "content": prompt.render(pairs=pairs)}
    request = ChatRequest(row, (asked,), check=lambda text: _complaint(text, len(batch)))
    (reply,) = yield (request,)
    verdicts = _verdicts(reply.text)
    if not failed(reply) and _complaint(reply.text, len(batch)):
        answered: Message = {"role": "assistant", "content": reply.text}
        messages = (asked, answered, AGAIN)
        second_request = ChatRequest(row, messages, check=request.check, mends=request)
        (reply,) = yield (second_request,)
        verdicts |= _verdicts(reply.text)
    problem = failed(reply) or unusable(reply.text)
    if not problem:
        problem = Problem("parse", "", "no verdict on this pair")
    return [
        Judgement(question, verdicts.get(number, problem), row)
        for number, question in enumerate(batch, 1)
    ]


def _pair_lines(batch: Sequence[Question]) -> Iterator[str]:
    """Yield one line of JSON per question, with the numbers that the verdicts refer to."""
    for number, question in enumerate(batch, 1):
        pair = {"pair": number, "a": question.one.shown, "b": question.two.shown}
        # A fence in a description would end the block of the prompt that holds the pairs.
        yield json.dumps(pair, ensure_ascii=False).replace(FENCE, NO_FENCE)


def _verdicts(reply: str) -> dict[int, bool]:
    """Map the numbers of pairs to the verdicts in a reply: True means the same.

    A pair that the reply gives both verdicts is left out.
    """
    found: dict[int, set[bool]] = {}
    for number, verdict in _VERDICT.findall(plain(reply)):
        found.setdefault(int(number), set()).add(verdict.lower() == "same")
    return {number: verdicts.pop() for number, verdicts in found.items() if len(verdicts) == 1}


def _complaint(reply: str, pairs: int) -> str | None:
    """Return a message if the reply has no verdict on some of the pairs, else None."""
    missing = set(range(1, pairs + 1)) - set(_verdicts(reply))
    return f"no verdict on {len(missing)} of {pairs} pairs" if missing else None
