"""Read claims in the record format (``prompts/extract_claims.md``). No reply raises."""

from pipeline.models.parsed import Claim, Parsed, Problem, claim
from pipeline.models.record_format import Kind, RecordFormat, record_problem

FIELDS = 8
LEAST_FIELDS = 7
"""The source text may be missing."""


def parse_claims(reply: str) -> Parsed[Claim]:
    """The claims of a reply, however damaged: subject, object, type, status, start, end, description, source text."""
    return _FORMAT.parse(reply)


def _claim(fields: list[str], shown: str) -> Claim | Problem:
    if len(fields) < LEAST_FIELDS:
        return record_problem(
            "fields", shown, "a claim needs a subject, an object, a type, a status, two dates and words"
        )
    subject, object, type, status, start, end, description, *source = fields
    return claim(subject, object, status, (start, end), (type, description, " ".join(source)), shown)


_FORMAT: RecordFormat[Claim] = RecordFormat(
    (Kind("claims?|covariates?|声明|聲明|主张", FIELDS - 1, FIELDS, _claim),), "no claim"
)
