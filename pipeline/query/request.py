"""A query request: the question with its options, and the conditions on documents (`where`)."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pipeline.contract.conditions import DATE, operators, property_of, refuse_no_dates
from pipeline.errors import UsageError
from pipeline.settings.query_options import QueryOptions, QuerySettings
from pipeline.settings.validation import explain
from pipeline.text.dates import is_uncommon_date
from pipeline.text.ids import clean

FOLLOWED, LONGEST_BEFORE = 2, 500
"""FOLLOWED: earlier questions that the search includes. LONGEST_BEFORE: characters of each."""
Cleaned = Annotated[str, AfterValidator(clean)]
"""Text that a person writes, without control characters, which no store accepts."""
_IN_NO_DOCUMENT = re.compile("[\\0\ud800-\udfff]")
"""The null character and lone surrogates, which no store accepts."""


MOST_CONDITIONS, MOST_VALUES, LONGEST_VALUE = 100, 1_000, 1_000
"""Limits of ``where``, which bound the work of the database for one request.

MOST_CONDITIONS: pairs of a field and an operator. MOST_VALUES: values in all of them.
LONGEST_VALUE: characters of a name or a value. The conditions of an access key have no limit.
"""
MOST_WILDCARDS = 50
"""Wildcards of one ``matches``; they decide the size of the regular expression it becomes."""
MOST_DATES_IN_WORDS = 50
"""Dates of a less common form in words in ``where``; each takes milliseconds to read."""
MOST_KEYWORDS, LONGEST_KEYWORD = 100, 1_000
MOST_TURNS, LONGEST_TURN = 500, 100_000


class Turn(BaseModel):
    """A turn of the conversation before the question: the speaker and the text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant", "system"]
    content: Annotated[str, AfterValidator(clean), Field(max_length=LONGEST_TURN)]


def read_where(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a request in the form of ``as_operators``.

    Raises ValueError for an invalid condition, and if a limit of requests is exceeded.
    """
    conditions = as_operators(where)
    operands: list[Any] = []
    for condition in conditions.values():
        operands += condition.values()
    if len(operands) > MOST_CONDITIONS:
        raise ValueError(f"{len(operands):,} conditions; a request may have {MOST_CONDITIONS:,}")
    n_values = 0
    for operand in operands:
        n_values += len(operand) if isinstance(operand, list) else 1
    if n_values > MOST_VALUES:
        raise ValueError(f"{n_values:,} values; a request may have {MOST_VALUES:,}")
    longest = max(map(len, _texts_in(conditions)), default=0)
    if longest > LONGEST_VALUE:
        raise ValueError(f"a value of {longest:,} characters; a value may have {LONGEST_VALUE:,}")
    compared_as_dates: list[str] = []
    for field, condition in conditions.items():
        if field == DATE or property_of(field):
            compared_as_dates += _texts_in(condition)
    in_words = [text for text in compared_as_dates if is_uncommon_date(text)]
    if len(in_words) > MOST_DATES_IN_WORDS:
        raise ValueError(
            f"{len(in_words):,} dates in words; a request may have {MOST_DATES_IN_WORDS}; write"
            " them as 2024-05-31"
        )
    refuse_no_dates(conditions)
    for field, condition in conditions.items():
        pattern = condition.get("matches", "")
        n_wildcards = sum(pattern.count(sign) for sign in "*?[")
        if n_wildcards > MOST_WILDCARDS:
            raise ValueError(
                f"'{field}' matches: {n_wildcards:,} wildcards; a pattern may have {MOST_WILDCARDS}"
            )
    return conditions


def as_operators(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions as a mapping: field -> operator -> value.

    Raises ValueError for an invalid condition, and for characters that no field of a document has.
    """
    for text in _texts_in(where):
        if _IN_NO_DOCUMENT.search(text):
            raise ValueError(f"{text!r} has a character that is in no document; leave it out")
    return {field: operators(field, wanted) for field, wanted in where.items()}


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every string in nested mappings, lists and tuples, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts_in(key)
            yield from _texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)


def check_question(query: str) -> str:
    """Return the question; raise ValueError if it has neither a letter nor a digit.

    There is no minimal length: two characters can be a question in Chinese.
    """
    if not any(map(str.isalnum, query)):
        raise ValueError(
            "a question has a letter or a digit; ask in words, as in 'Who built the lighthouse?'"
        )
    return query


Keyword = Annotated[str, AfterValidator(clean), Field(max_length=LONGEST_KEYWORD)]
KeywordList = Annotated[tuple[Keyword, ...], Field(max_length=MOST_KEYWORDS)]


class QueryRequest(QueryOptions):
    """A question and how to answer it.

    ``hl_keywords`` (themes) and ``ll_keywords`` (names) replace the extraction of keywords, if
    given. ``conversation_history`` holds the turns before, oldest first; the model sees them, and
    the search includes their last questions. ``where`` restricts what is shown to documents whose
    metadata satisfy all conditions. It maps a field to a value, a list of accepted values, or a
    mapping of operators (=, !=, <, <=, >, >=, in, not in, matches, exists).
    """

    query: Annotated[str, AfterValidator(check_question)]
    hl_keywords: KeywordList = ()
    ll_keywords: KeywordList = ()
    conversation_history: Annotated[tuple[Turn, ...], Field(max_length=MOST_TURNS)] = ()
    where: Annotated[dict[str, Any], AfterValidator(read_where)] = Field(default={})

    @property
    def searched(self) -> str:
        """The question preceded by the last questions before it, to which it may refer."""
        before = [
            turn.content[:LONGEST_BEFORE]
            for turn in self.conversation_history
            if turn.role == "user"
        ]
        return "\n".join([*before[-FOLLOWED:], self.query])


def build_request(
    question: Any, defaults: QuerySettings, options: Mapping[str, Any]
) -> QueryRequest:
    """Return the request; ``defaults`` replace options that are missing or None.

    Raises UsageError for an invalid option.
    """
    asked = {"query": clean(question).strip() if isinstance(question, str) else question}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return QueryRequest(**{**defaults.options, **asked, **given})
    except ValidationError as error:
        raise UsageError(explain("query", error, QueryRequest.model_fields)) from None
