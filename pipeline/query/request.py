"""What a question may ask for."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pipeline.contract.conditions import operators
from pipeline.errors import UsageError
from pipeline.settings.query_options import QueryOptions, QuerySettings
from pipeline.settings.validation import explain
from pipeline.text.ids import clean

FOLLOWED, LONGEST_BEFORE = 2, 500
"""Questions before this one that its search follows, and how many characters of each."""
Cleaned = Annotated[str, AfterValidator(clean)]
"""What people write: no store takes control characters."""
_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|!=|=|<|>| matches )\s*(.*?)\s*", re.DOTALL)


MOST_CONDITIONS, MOST_VALUES, LONGEST_VALUE = 100, 1_000, 1_000
"""Limits of ``where``: pairs of a field and an operator, values of all of them, and characters of a
name or a value. They bound what one request makes the database do; a key's own conditions have no
limit."""
MOST_WILDCARDS = 50
"""Wildcards of one ``matches``: a pattern is compiled to a regular expression, whose size they
decide."""
MOST_KEYWORDS, LONGEST_KEYWORD = 100, 1_000
MOST_TURNS, LONGEST_TURN = 500, 100_000


class Turn(BaseModel):
    """Hold one turn of the conversation before the question: who spoke, and the text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant", "system"]
    content: Annotated[str, AfterValidator(clean), Field(max_length=LONGEST_TURN)]


def read_where(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions of a request in the form of ``as_operators``.

    Raises ValueError for a condition that makes no sense, and for more than a request may ask for.
    """
    conditions = as_operators(where)
    operands = [operand for condition in conditions.values() for operand in condition.values()]
    if len(operands) > MOST_CONDITIONS:
        raise ValueError(f"{len(operands):,} conditions; a request may have {MOST_CONDITIONS:,}")
    number = sum(len(operand) if isinstance(operand, list) else 1 for operand in operands)
    if number > MOST_VALUES:
        raise ValueError(f"{number:,} values; a request may have {MOST_VALUES:,}")
    longest = max(map(len, _texts_in(conditions)), default=0)
    if longest > LONGEST_VALUE:
        raise ValueError(f"a value of {longest:,} characters; a value may have {LONGEST_VALUE:,}")
    for field, condition in conditions.items():
        wildcards = sum(condition.get("matches", "").count(sign) for sign in "*?[")
        if wildcards > MOST_WILDCARDS:
            raise ValueError(
                f"'{field}' matches: {wildcards:,} wildcards; a pattern may have {MOST_WILDCARDS}"
            )
    return conditions


def as_operators(where: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a condition that makes no sense, or has characters that no document's
    fields have."""
    for text in _texts_in(where):
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{text!r} has a character that is in no document; leave it out")
    return {field: operators(field, wanted) for field, wanted in where.items()}


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts_in, chain.from_iterable(value.items())))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts_in, value))


def as_question(query: str) -> str:
    """The question, which may be short: two characters are one in Chinese. Raises ValueError for
    one without a letter or a digit."""
    if not any(map(str.isalnum, query)):
        raise ValueError(
            "a question has a letter or a digit; ask in words, as in 'Who built the lighthouse?'"
        )
    return query


Keyword = Annotated[str, AfterValidator(clean), Field(max_length=LONGEST_KEYWORD)]
KeywordList = Annotated[tuple[Keyword, ...], Field(max_length=MOST_KEYWORDS)]


class QueryRequest(QueryOptions):
    """A question and how to answer it.

    ``hl_keywords`` (themes) and ``ll_keywords`` (names), where given, replace the extraction of
    keywords. ``conversation_history``: the turns before, the oldest first; the model sees them, and
    the search follows them. ``where``: only documents whose metadata satisfy all of these
    conditions may be shown: field -> a value, a list of which any will do, or a mapping of
    operators (=, !=, <, <=, >, >=, in, not in, matches, exists).
    """

    query: Annotated[str, AfterValidator(as_question)]
    hl_keywords: KeywordList = ()
    ll_keywords: KeywordList = ()
    conversation_history: Annotated[tuple[Turn, ...], Field(max_length=MOST_TURNS)] = ()
    where: Annotated[dict[str, Any], AfterValidator(read_where)] = Field(default={})

    @property
    def searched(self) -> str:
        """The question after the last questions before it: what it leaves unsaid is there."""
        before = [
            turn.content[:LONGEST_BEFORE]
            for turn in self.conversation_history
            if turn.role == "user"
        ]
        return "\n".join([*before[-FOLLOWED:], self.query])


def request_of(question: Any, defaults: QuerySettings, options: Mapping[str, Any]) -> QueryRequest:
    """The request, with ``defaults`` for what ``options`` do not give; None counts as not given.

    Raises UsageError for options that make no sense.
    """
    asked = {"query": clean(question).strip() if isinstance(question, str) else question}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return QueryRequest(**{**defaults.options, **asked, **given})
    except ValidationError as error:
        raise UsageError(explain("query", error, QueryRequest.model_fields)) from None


def read_conditions(lines: list[str]) -> dict[str, Any]:
    """field -> operator -> value, as QueryRequest.where has it; ``key=[a, b]``: any of these.

    Raises UsageError for a line that is no condition, or the second for one field and operator.
    """
    conditions: dict[str, dict[str, Any]] = {}
    for line in lines:
        match = _CONDITION.fullmatch(line)
        if not match:
            raise UsageError(
                f"--where '{line}': no condition; write key=value, or one of != < <= > >= '"
                " matches '"
            )
        field, sign, value = match[1], match[2].strip(), _value(match[3])
        name = {"=": "in", "!=": "not in"}.get(sign, sign) if isinstance(value, list) else sign
        if name in conditions.setdefault(field, {}):
            raise UsageError(
                f"--where '{line}': a second condition '{name}' on '{field}'; for any of several:"
                " key=[a, b]"
            )
        conditions[field][name] = value
    return conditions


def _value(text: str) -> Any:
    """As YAML reads it where that is a list, else the text itself: conditions compare numbers as
    numbers anyway."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, list) else text
