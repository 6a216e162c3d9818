"""Read the report on a community that a reply holds as JSON. No reply raises."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.models.json_values import first_of, folded, json_values, text_of
from pipeline.models.parsed import Problem, problem, unusable
from pipeline.models.reply_text import bare, one_line, plain

GREATEST_RATING = 10.0
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,6}(?:[.,]\d{1,20})?")
_TITLE = ("title", "name", "reporttitle")
_SUMMARY = ("summary", "executivesummary", "abstract", "overview")
_RATING = ("rating", "impactseverityrating", "importance", "score", "rank")
_RATING_EXPLANATION = ("ratingexplanation", "rankexplanation", "ratingreason", "explanation")
_FINDINGS = ("findings", "detailedfindings", "insights", "keyfindings")
_EXPLANATION = ("explanation", "description", "details", "text")


@dataclass(frozen=True)
class Finding:
    summary: str
    explanation: str


@dataclass(frozen=True)
class Report:
    """``title`` is empty where the reply has none; ``rating`` is within 0 to 10, 0 where it has none."""

    title: str
    summary: str
    rating: float
    rating_explanation: str
    findings: tuple[Finding, ...]


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


def parse_report(reply: str) -> Report | Problem:
    """The first object of the reply that has a summary, or why there is none (a reject's reason)."""
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
    """Whether its object is closed nowhere, which is forgiven where all that is asked for is there up to the end of a
    text. Braces in texts do not count, unless their quotes are broken."""
    text = bare(reply).rstrip()
    outside = _TEXT.sub("", text[text.find("{") :])
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
    return Finding(_line(first_of(fields, _SUMMARY + _TITLE)), _paragraph(first_of(fields, _EXPLANATION)))


def _rating(text: str) -> float:
    number = _NUMBER.search(text)
    return min(max(float(number[0].replace(",", ".")), 0.0), GREATEST_RATING) if number else 0.0


def _line(value: Any) -> str:
    return one_line(text_of(value))


def _paragraph(value: Any) -> str:
    return text_of(value).strip()
