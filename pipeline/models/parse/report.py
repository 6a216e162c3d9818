"""Read what a model says of a part of the evidence: scored points, ratings, an intermediate answer. No reply raises."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.models.json_values import first_of, folded, json_values, text_of
from pipeline.models.reply_text import one_line

HIGHEST_SCORE, HIGHEST_RATING = 100.0, 5.0
LEAST_SCORE = 1.0
"""Of what was said without a score that can be read: it comes last, but is not lost."""
LONGEST_QUESTION = 1000
"""Characters."""

_POINTS = ("points", "keypoints")
_DESCRIPTION = ("description", "point", "text", "answer")
_SCORE = ("score", "importance", "importancescore", "relevance", "rating")
_RATINGS = ("ratings", "reports", "scores")
_ID = ("id", "report", "reportid", "number")
_ANSWER = ("answer", "intermediateanswer", "response")
_FOLLOW_UPS = ("followups", "followupqueries", "followupquestions", "questions", "queries")
_QUESTIONS = ("questions", "nextquestions", *_FOLLOW_UPS)
_QUESTION = ("question", "query", "text")
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+(.*\S)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Point:
    """Something that helps to answer a question; ``score`` from 0 to 100."""

    description: str
    score: float


@dataclass(frozen=True)
class PartialAnswer:
    """What a part of the evidence answers, how much of the question that is (0 to 100), and what to ask next."""

    text: str
    score: float
    follow_ups: tuple[str, ...]


def parse_points(reply: str) -> list[Point] | None:
    """``{"points": [{"description", "score"}]}``; None when the reply holds no such list."""
    lists = [first_of(folded(value), _POINTS) for value in json_values(reply)]
    points = next((points for points in lists if isinstance(points, list)), None)
    if points is None:
        return None
    told = [(text_of(first_of(folded(point), _DESCRIPTION)).strip(), point) for point in points]
    return [Point(text, _score(first_of(folded(point), _SCORE))) for text, point in told if text]


def parse_ratings(reply: str) -> dict[int, float] | None:
    """Number of a report -> its relevance, 0 to 5, from ``{"ratings": [{"id", "rating"}]}``; None without such a list.
    What cannot be read is left out."""
    for value in json_values(reply):
        ratings = value if isinstance(value, list) else first_of(folded(value), _RATINGS)
        if isinstance(ratings, list):
            return dict(_rated(map(folded, ratings)))
    return None


def parse_partial_answer(reply: str) -> PartialAnswer | None:
    """``{"answer", "score", "follow_ups": [...]}``; None when the reply holds no such object."""
    for value in json_values(reply):
        fields = folded(value)
        answer, follow_ups = first_of(fields, _ANSWER), first_of(fields, _FOLLOW_UPS)
        if answer is not None or follow_ups is not None:
            score = _score(first_of(fields, _SCORE))
            return PartialAnswer(text_of(answer).strip(), score, tuple(_questions(follow_ups)))
    return None


def parse_questions(reply: str) -> list[str]:
    """The questions of ``{"questions": [...]}`` or of a bare list, else the bulleted or numbered lines; each once."""
    for value in json_values(reply):
        found = list(_questions(value if isinstance(value, list) else first_of(folded(value), _QUESTIONS)))
        if found:
            return found
    return list(dict.fromkeys(one_line(line) for line in _BULLET.findall(reply)))


def _rated(ratings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    for fields in ratings:
        id, rating = _number(first_of(fields, _ID)), _number(first_of(fields, _SCORE))
        if id is not None and rating is not None:
            yield int(id), _within(rating, HIGHEST_RATING)


def _questions(value: Any) -> Iterator[str]:
    """Each once, whatever its case."""
    seen: set[str] = set()
    for item in value if isinstance(value, list) else []:
        text = one_line(text_of(item if isinstance(item, str) else first_of(folded(item), _QUESTION)))
        if 0 < len(text) <= LONGEST_QUESTION and text.casefold() not in seen:
            seen.add(text.casefold())
            yield text


def _score(value: Any) -> float:
    number = _number(value)
    return LEAST_SCORE if number is None else _within(number, HIGHEST_SCORE)


def _number(value: Any) -> float | None:
    match = _NUMBER.search(text_of(value))
    return float(match[0]) if match and math.isfinite(float(match[0])) else None


def _within(number: float, most: float) -> float:
    return min(max(number, 0.0), most)
