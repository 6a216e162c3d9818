"""Parse community reports, and replies about a share of the evidence. No reply raises an error."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.models.parse.lenient_json import (
    bare,
    first_value,
    fold_keys,
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
"""Score of a point without a readable score: it comes last, but is not lost."""
LONGEST_QUESTION = 1000
"""Length in characters of the longest question that is accepted."""
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
    """A community report. ``title`` may be "". ``rating`` is within 0 to 10, and 0 if the reply has
    none."""

    title: str
    summary: str
    rating: float
    rating_explanation: str
    findings: tuple[Finding, ...]


def parse_report(reply: str) -> Report | Problem:
    """Return the first object of the reply that has a summary, or the problem if there is none.

    The reason of the problem is the reason code of a reject.
    """
    for value in json_values(reply):
        for item in value if isinstance(value, list) else [value]:
            report = _read_report(fold_keys(item))
            if not report.summary:
                continue
            if _breaks_off(reply, report):
                return problem("truncated", plain(reply), "the report breaks off")
            return report
    return unusable(reply) or problem("parse", plain(reply), "no report in the reply")


def _breaks_off(reply: str, report: Report) -> bool:
    """Return whether the object of the report is not closed, and content is missing.

    An object without its end is accepted if all requested fields are there up to the end of a
    string. Braces in strings do not count, unless their quotes are broken.
    """
    text = bare(reply).rstrip()
    outside = without_texts(text[text.find("{") :])
    is_closed = text.endswith(("}", "]")) or outside.count("}") >= outside.count("{")
    if is_closed:
        return False
    is_inside_string = '"' in outside
    return is_inside_string or not report.findings


def _read_report(fields: Mapping[str, Any]) -> Report:
    """Return the report with these fields, or the one in the field "report"."""
    inner = fields.get("report")
    if isinstance(inner, Mapping):
        return _read_report(fold_keys(inner))
    items = first_value(fields, _FINDINGS)
    findings = [_read_finding(item) for item in items] if isinstance(items, list) else []
    return Report(
        title=_read_line(first_value(fields, _TITLE)),
        summary=_read_paragraph(first_value(fields, _SUMMARY)),
        rating=_read_rating(text_of(first_value(fields, _RATING))),
        rating_explanation=_read_paragraph(first_value(fields, _RATING_EXPLANATION)),
        findings=tuple(finding for finding in findings if finding.summary or finding.explanation),
    )


def _read_finding(item: Any) -> Finding:
    """Return the finding in an object, or in a text, which becomes its summary."""
    if not isinstance(item, Mapping):
        return Finding(_read_line(item), "")
    fields = fold_keys(item)
    summary = _read_line(first_value(fields, _SUMMARY + _TITLE))
    return Finding(summary, _read_paragraph(first_value(fields, _EXPLANATION)))


def _read_rating(text: str) -> float:
    """Return the first number in the text, limited to 0 to 10; 0 if there is none."""
    number = _RATED.search(text)
    if not number:
        return 0.0
    return _limit(float(number[0].replace(",", ".")), GREATEST_RATING)


def _read_line(value: Any) -> str:
    return one_line(text_of(value))


def _read_paragraph(value: Any) -> str:
    return text_of(value).strip()


@dataclass(frozen=True)
class Point:
    """A point that helps to answer a question. ``score`` is within 0 to 100."""

    description: str
    score: float


@dataclass(frozen=True)
class PartialAnswer:
    """Answer from a share of the evidence.

    ``score``: how much of the question it answers, within 0 to 100. ``follow_ups``: the questions
    to ask next.
    """

    text: str
    score: float
    follow_ups: tuple[str, ...]


def parse_points(reply: str) -> list[Point] | None:
    """Return the points of a reply, or None if it has no list of points.

    The JSON is ``{"points": [{"description", "score"}]}``, a list of such objects or of texts, or a
    single such object.
    """
    for value in json_values(reply):
        points = value if isinstance(value, list) else first_value(fold_keys(value), _POINTS)
        if points is None and {"description", "score"} <= fold_keys(value).keys():
            points = [value]
        if isinstance(points, list):
            return list(_read_points(points))
    return None


def _read_points(points: Iterable[Any]) -> Iterator[Point]:
    """Yield the point of each object or text. Those without a description are left out."""
    for point in points:
        fields = fold_keys({"description": point} if isinstance(point, str) else point)
        text = text_of(first_value(fields, _DESCRIPTION)).strip()
        if text:
            yield Point(text, _read_score(first_value(fields, _SCORE)))


def parse_ratings(reply: str) -> dict[int, float] | None:
    """Return the relevance (0 to 5) of reports by their numbers, or None if the reply has no
    ratings.

    The JSON is ``{"ratings": [{"id", "rating"}]}``, a list of such objects, or a mapping of ids to
    ratings. Ratings that cannot be read are left out.
    """
    for value in json_values(reply):
        inner = value if isinstance(value, list) else first_value(fold_keys(value), _RATINGS)
        ratings = value if inner is None else inner
        if isinstance(ratings, Mapping):
            ratings = [{"id": id, "rating": rating} for id, rating in ratings.items()]
        if not isinstance(ratings, list):
            continue
        found = dict(_read_ratings(map(fold_keys, ratings)))
        # A mapping without the field "ratings" counts only if it has at least one rating.
        if inner is not None or found:
            return found
    return None


def parse_partial_answer(reply: str) -> PartialAnswer | None:
    """Return the answer in ``{"answer", "score", "follow_ups": [...]}``, or None without such an
    object."""
    for value in json_values(reply):
        fields = fold_keys(value)
        answer = first_value(fields, _ANSWER)
        follow_ups = first_value(fields, _FOLLOW_UPS)
        if answer is not None or follow_ups is not None:
            score = _read_score(first_value(fields, _SCORE))
            text = text_of(answer).strip()
            return PartialAnswer(text, score, tuple(_read_questions(follow_ups)))
    return None


def parse_questions(reply: str) -> list[str]:
    """Return the questions of a reply, each of them once.

    They come from ``{"questions": [...]}`` or a JSON list, or else from the bulleted or numbered
    lines.
    """
    for value in json_values(reply):
        items = value if isinstance(value, list) else first_value(fold_keys(value), _QUESTIONS)
        found = list(_read_questions(items))
        if found:
            return found
    return list(dict.fromkeys(one_line(line) for line in _BULLET.findall(reply)))


def _read_ratings(ratings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    """Yield number and relevance of each report whose fields have both."""
    for fields in ratings:
        id = _read_number(first_value(fields, _ID))
        rating = _read_number(first_value(fields, _SCORE))
        if id is not None and rating is not None:
            yield int(id), _limit(rating, HIGHEST_RATING)


def _read_questions(value: Any) -> Iterator[str]:
    """Yield the questions of a list of texts or objects, each of them once (ignoring case)."""
    seen: set[str] = set()
    for item in value if isinstance(value, list) else []:
        question = item if isinstance(item, str) else first_value(fold_keys(item), _QUESTION)
        text = _read_line(question)
        if 0 < len(text) <= LONGEST_QUESTION and text.casefold() not in seen:
            seen.add(text.casefold())
            yield text


def _read_score(value: Any) -> float:
    number = _read_number(value)
    return LEAST_SCORE if number is None else _limit(number, HIGHEST_SCORE)


def _read_number(value: Any) -> float | None:
    """Return the first number in the value, or None if there is none or it is not finite."""
    match = _NUMBER.search(text_of(value))
    if not match:
        return None
    number = float(match[0])
    return number if math.isfinite(number) else None


def _limit(number: float, most: float) -> float:
    return min(max(number, 0.0), most)
