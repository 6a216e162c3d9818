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


class Turn(BaseModel):
    """What was said before, and by whom."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant", "system"]
    content: Cleaned


def as_operators(where: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ValueError for a condition that makes no sense, or has characters that no document's fields have."""
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
    """The question, which may be short: two characters are one in Chinese. Raises ValueError for one without a letter
    or a digit."""
    if not any(map(str.isalnum, query)):
        raise ValueError("a question has a letter or a digit; ask in words, as in 'Who built the lighthouse?'")
    return query


class QueryRequest(QueryOptions):
    """A question and how to answer it.

    ``hl_keywords`` (themes) and ``ll_keywords`` (names), where given, replace the extraction of keywords.
    ``conversation_history``: the turns before, the oldest first; the model sees them, and the search follows them.
    ``where``: only documents whose metadata satisfy all of these conditions may be shown: field -> a value, a list of
    which any will do, or a mapping of operators (=, !=, <, <=, >, >=, in, not in, matches, exists).
    """

    query: Annotated[str, AfterValidator(as_question)]
    hl_keywords: tuple[Cleaned, ...] = ()
    ll_keywords: tuple[Cleaned, ...] = ()
    conversation_history: tuple[Turn, ...] = ()
    where: Annotated[dict[str, Any], AfterValidator(as_operators)] = Field(default={})

    @property
    def searched(self) -> str:
        """The question after the last questions before it: what it leaves unsaid is there."""
        before = [turn.content[:LONGEST_BEFORE] for turn in self.conversation_history if turn.role == "user"]
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
            raise UsageError(f"--where '{line}': no condition; write key=value, or one of != < <= > >= ' matches '")
        field, sign, value = match[1], match[2].strip(), _value(match[3])
        name = {"=": "in", "!=": "not in"}.get(sign, sign) if isinstance(value, list) else sign
        if name in conditions.setdefault(field, {}):
            raise UsageError(
                f"--where '{line}': a second condition '{name}' on '{field}'; for any of several: key=[a, b]"
            )
        conditions[field][name] = value
    return conditions


def _value(text: str) -> Any:
    """As YAML reads it where that is a list, else the text itself: conditions compare numbers as numbers anyway."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, list) else text
