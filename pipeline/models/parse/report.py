"""Read reports on communities, and what a model says of a part of the evidence. No reply raises."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.models.parse.lenient_json import (
    bare,
    first_of,
    folded,
    json_values,
    one_line,
    plain,
    text_of,
    without_texts,
)
from pipeline.models.parse.records import Problem, problem, unusable

GREATEST_RATING = 10.0
_RATED = re.compile(r"-?\d{1,6}(?:[.,]\d{1,20})?")
_TITLE = ("title", "name", "reporttitle")
_SUMMARY = ("summary", "executivesummary", "abstract", "overview")
_RATING = ("rating", "impactseverityrating", "importance", "score", "rank")
_RATING_EXPLANATION = ("ratingexplanation", "rankexplanation", "ratingreason", "explanation")
_FINDINGS = ("findings", "detailedfindings", "insights", "keyfindings")
_EXPLANATION = ("explanation", "description", "details", "text")
_STRING = {"type": "string"}
_FINDING = {
    "type": "object",
    "properties": {"summary": _STRING, "explanation": _STRING},
    "required": ["summary", "explanation"],
    "additionalProperties": False,
}
_REPORT = {
    "title": _STRING,
    "summary": _STRING,
    "rating": {"type": "number"},
    "rating_explanation": _STRING,
    "findings": {"type": "array", "items": _FINDING},
}
REPORT_JSON_FORMAT: Mapping[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "report",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": _REPORT,
            "required": list(_REPORT),
            "additionalProperties": False,
        },
    },
}
"""The ``response_format`` of a request whose reply ``parse_report`` reads."""
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
class Finding:
    summary: str
    explanation: str


@dataclass(frozen=True)
class Report:
    """``title`` is empty where the reply has none; ``rating`` is within 0 to 10, 0 where it has
    none."""

    title: str
    summary: str
    rating: float
    rating_explanation: str
    findings: tuple[Finding, ...]


def parse_report(reply: str) -> Report | Problem:
    """The first object of the reply that has a summary, or why there is none (a reject's
    reason)."""
    for value in json_values(reply):
        for item in value if isinstance(value, list) else [value]:
            report = _report(folded(item))
            if report.summary:
                return (
                    problem("truncated", plain(reply), "the report breaks off")
                    if _breaks_off(reply, report)
                    else report
                )
    return unusable(reply) or problem("parse", plain(reply), "no report in the reply")


def _breaks_off(reply: str, report: Report) -> bool:
    """Whether its object is closed nowhere, which is forgiven where all that is asked for is there
    up to the end of a text. Braces in texts do not count, unless their quotes are broken."""
    text = bare(reply).rstrip()
    outside = without_texts(text[text.find("{") :])
    closed = text.endswith(("}", "]")) or outside.count("}") >= outside.count("{")
    return not closed and ('"' in outside or not report.findings)


def _report(fields: Mapping[str, Any]) -> Report:
    inner = fields.get("report")
    if isinstance(inner, Mapping):
        return _report(folded(inner))
    findings = first_of(fields, _FINDINGS)
    read = map(_finding, findings if isinstance(findings, list) else [])
    return Report(
        title=_line(first_of(fields, _TITLE)),
        summary=_paragraph(first_of(fields, _SUMMARY)),
        rating=_rating(text_of(first_of(fields, _RATING))),
        rating_explanation=_paragraph(first_of(fields, _RATING_EXPLANATION)),
        findings=tuple(finding for finding in read if finding.summary or finding.explanation),
    )


def _finding(item: Any) -> Finding:
    if not isinstance(item, Mapping):
        return Finding(_line(item), "")
    fields = folded(item)
    return Finding(
        _line(first_of(fields, _SUMMARY + _TITLE)), _paragraph(first_of(fields, _EXPLANATION))
    )


def _rating(text: str) -> float:
    number = _RATED.search(text)
    return min(max(float(number[0].replace(",", ".")), 0.0), GREATEST_RATING) if number else 0.0


def _line(value: Any) -> str:
    return one_line(text_of(value))


def _paragraph(value: Any) -> str:
    return text_of(value).strip()


@dataclass(frozen=True)
class Point:
    """Something that helps to answer a question; ``score`` from 0 to 100."""

    description: str
    score: float


@dataclass(frozen=True)
class PartialAnswer:
    """What a part of the evidence answers, how much of the question that is (0 to 100), and what to
    ask next."""

    text: str
    score: float
    follow_ups: tuple[str, ...]


def parse_points(reply: str) -> list[Point] | None:
    """``{"points": [{"description", "score"}]}``, a bare list of these or of texts, or one of these
    alone; None when the reply holds no such list."""
    for value in json_values(reply):
        points = value if isinstance(value, list) else first_of(folded(value), _POINTS)
        if points is None and {"description", "score"} <= folded(value).keys():
            points = [value]
        if isinstance(points, list):
            return list(_points(points))
    return None


def _points(points: Iterable[Any]) -> Iterator[Point]:
    for point in points:
        fields = folded({"description": point} if isinstance(point, str) else point)
        if text := text_of(first_of(fields, _DESCRIPTION)).strip():
            yield Point(text, _score(first_of(fields, _SCORE)))


def parse_ratings(reply: str) -> dict[int, float] | None:
    """Number of a report -> its relevance, 0 to 5, from ``{"ratings": [{"id", "rating"}]}``, a bare
    list of these, or a mapping of ids to ratings; None without such a list. What cannot be read is
    left out."""
    for value in json_values(reply):
        inner = value if isinstance(value, list) else first_of(folded(value), _RATINGS)
        ratings = value if inner is None else inner
        if isinstance(ratings, Mapping):
            ratings = [{"id": id, "rating": rating} for id, rating in ratings.items()]
        if isinstance(ratings, list) and (
            inner is not None or any(True for _ in _rated(map(folded, ratings)))
        ):
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
    """The questions of ``{"questions": [...]}`` or of a bare list, else the bulleted or numbered
    lines; each once."""
    for value in json_values(reply):
        found = list(
            _questions(value if isinstance(value, list) else first_of(folded(value), _QUESTIONS))
        )
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
        text = one_line(
            text_of(item if isinstance(item, str) else first_of(folded(item), _QUESTION))
        )
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
