"""Conditions on documents as SQL expressions, equivalent to ``contract.conditions.holds``.

Everything that comes from the conditions is a parameter of the statement, even names of fields.
"""

import hashlib
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Text,
    and_,
    any_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from pipeline.contract.conditions import (
    CORRECTION_PREFIX,
    DATE,
    NEGATED,
    OWN,
    Comparison,
    Conditions,
    as_dates,
    as_text,
    is_number,
    property_of,
)
from pipeline.stores.postgres.schema import ATTRIBUTES, DOCUMENTS
from pipeline.text.dates import FIRST_DAY, LAST_DAY, range_of

SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f"
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters that Python's ``str.strip`` removes."""
A_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_SET = re.compile(r"\[(?:(?P<negated>!)|(?!!))(?P<items>.[^\]]*)\]", re.DOTALL)
Cell = ColumnElement[Any]
Test = ColumnElement[bool]
FEW = 2000
"""The largest number of documents that are listed by their ids. With so few allowed documents, a
search through an index would take longer: it would meet rows of theirs too rarely."""
MOST_REMEMBERED_BYTES = 8 * 2**20
"""The memory that remembered conditions and their documents' ids may take in one process."""


@dataclass(frozen=True)
class Allowed:
    """The documents that may be seen: those that satisfy all conditions ``within``.

    ``few``: their ids if they are at most FEW; None if they are more, or not known.
    """

    within: Sequence[Conditions]
    few: tuple[str, ...] | None = None

    def has(self, document: ColumnElement[str], workspace: ColumnElement[str]) -> Test:
        """Return the test that the document with this id is allowed; both are columns."""
        if not self.within:
            return true()
        if self.few is not None:
            return func.coalesce(document == func.any(list(self.few)), False)
        rows = DOCUMENTS.alias("allowed")
        satisfied = _satisfied(rows, self.within)
        found = exists().where(rows.c.workspace == workspace, rows.c.id == document, *satisfied)
        return found.correlate_except(rows)


@dataclass
class AllowedDocuments:
    """Remember which conditions few documents satisfy; finding out takes a scan of all documents.

    What is remembered holds for one load. A reader that still sees the load before keeps its own
    `_Remembered` object, so it adds nothing to the answers about the new load.
    """

    remembered: "_Remembered" = field(default_factory=lambda: _Remembered(""))

    def find(
        self, connection: Connection, workspace: str, version: str, within: Sequence[Conditions]
    ) -> Allowed:
        """Return the documents that satisfy ``within``; ``version`` names the load that is
        shown."""
        remembered = self.remembered
        if remembered.version != version:
            self.remembered = remembered = _Remembered(version)
        # A digest, because a condition may be as long as a request.
        key = hashlib.sha256(repr(within).encode()).digest()
        known, few = remembered.look_up(key)
        if not known:
            rows = select(DOCUMENTS.c.id).where(
                DOCUMENTS.c.workspace == workspace, *_satisfied(DOCUMENTS, within)
            )
            # If the limit were a parameter, PostgreSQL would choose a plan that knows no values.
            # Such a plan compares each document with one value after the other: 1,000 values took
            # 30 ms instead of 2.
            limit = literal(FEW + 1, literal_execute=True)
            found = connection.execute(rows.limit(limit)).scalars().all()
            few = tuple(found) if len(found) <= FEW else None
            remembered.add(key, few)
        return Allowed(within, few)


@dataclass
class _Remembered:
    """The answers about one load, least recently used first, within MOST_REMEMBERED_BYTES."""

    version: str
    answers: OrderedDict[bytes, tuple[str, ...] | None] = field(default_factory=OrderedDict)
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[type["_Remembered"], tuple[str]]:
        """Let a store be sent to another process, which begins without answers: a lock cannot be
        sent."""
        return _Remembered, (self.version,)

    def look_up(self, key: bytes) -> tuple[bool, tuple[str, ...] | None]:
        """Return whether the answer is remembered, and the answer."""
        with self.lock:
            if key not in self.answers:
                return False, None
            self.answers.move_to_end(key)
            return True, self.answers[key]

    def add(self, key: bytes, few: tuple[str, ...] | None) -> None:
        """Remember an answer, and forget the least recently used ones that no longer fit."""
        with self.lock:
            if key in self.answers:
                return
            self.answers[key] = few
            self.size += _bytes_of(key, few)
            while self.size > MOST_REMEMBERED_BYTES:
                oldest = self.answers.popitem(last=False)
                self.size -= _bytes_of(*oldest)


def _bytes_of(key: bytes, few: tuple[str, ...] | None) -> int:
    """Return the memory that a remembered answer takes."""
    ids = sum(map(sys.getsizeof, few)) if few else 0
    return sys.getsizeof(key) + sys.getsizeof(few) + ids


def _satisfied(rows: Any, within: Sequence[Conditions]) -> list[Test]:
    """Return the tests that a row of documents satisfies all of the conditions."""
    tests: list[Test] = []
    if any(within):
        source = func.coalesce(rows.c.source, "")
        tests.append(~source.startswith(CORRECTION_PREFIX, autoescape=True))
    for conditions in within:
        tests += [_satisfies(rows, field, condition) for field, condition in conditions.items()]
    return tests


def _satisfies(rows: Any, field: str, condition: Mapping[str, Any]) -> Test:
    """Return the test that a row satisfies the condition on one field.

    ``condition`` maps names of operators to their operands. A field is a column of documents, a key
    of their metadata, or a property of entities.
    """
    property = property_of(field)
    if property:
        return _test_property(rows, property, condition)
    in_metadata = rows.c.metadata[field]
    tests: list[Test] = []
    for operator, operand in condition.items():
        if field in OWN:
            tests.append(_test_column(rows.c[field], operator, operand))
        elif field == DATE:
            tests.append(_test_date(rows, operator, operand))
        else:
            tests.append(_test_metadata(in_metadata, operator, operand))
    return and_(*tests)


def _test_property(rows: Any, name: str, condition: Mapping[str, Any]) -> Test:
    """Return the test that a text of the document gives the property a value as wanted.

    One value satisfies all operators that are not negated. ``condition`` has Comparisons as
    operands.
    """
    values = ATTRIBUTES.alias("given")
    in_document = [
        values.c.workspace == rows.c.workspace,
        values.c.document_id == rows.c.id,
        values.c.name == name,
    ]

    def gives(*tests: Test) -> Test:
        return exists().where(*in_document, *tests).correlate_except(values)

    asked = {operator: operand for operator, operand in condition.items() if operator != "exists"}
    wanted: list[Test] = []
    unwanted: list[Test] = []
    for operator, operand in asked.items():
        if operator in NEGATED:
            unwanted.append(_test_comparisons(values, NEGATED[operator], operand))
        else:
            wanted.append(_test_comparisons(values, operator, operand))
    tests: list[Test] = []
    if wanted:
        tests.append(gives(*wanted))
    tests += [~gives(test) for test in unwanted]
    if "exists" in condition:
        tests.append(gives() == condition["exists"])
    return and_(*tests)


def _test_comparisons(values: Any, name: str, comparisons: Sequence[Comparison]) -> Test:
    """Return the test that an operator holds for a value and one of the comparisons."""
    # Values of one form are one bound array: see ``_is_one_of``.
    by_form: dict[tuple[str, str], list[str]] = {}
    for one in comparisons:
        by_form.setdefault((one.type, one.unit), []).append(one.value)
    tests: list[Test] = []
    for (type, unit), wanted in by_form.items():
        same_form = (values.c.type == type) & (values.c.unit == unit)
        if name in ("=", "in"):
            tests.append(same_form & _equals_any_value(values.c.value, type, wanted))
        else:
            compared = [_compare_values(values.c.value, name, type, each) for each in wanted]
            tests.append(same_form & or_(*compared))
    return or_(false(), *tests)


def _equals_any_value(value: Cell, type: str, wanted: Sequence[str]) -> Test:
    """Return the test that a value of a property of this type equals one of those wanted."""
    if type == "enum":
        # PostgreSQL puts both sides into lower case, because Python does so by other rules.
        each = func.unnest(literal(list(wanted), ARRAY(Text))).column_valued("wanted")
        return func.lower(value).in_(select(func.lower(each)))
    if type == "date":
        return _is_within_any(value, wanted)
    return _is_one_of(value, None, wanted)


def _compare_values(value: Cell, operator: str, type: str, wanted: str) -> Test:
    """Return the test of an operator other than equality on a value of a property of this type."""
    if type == "date" and operator != "matches":
        return _compare_dates(value, operator, wanted)
    return _test_value(value, None, operator, wanted)


def _test_date(rows: Any, name: str, operand: Any) -> Test:
    """Return the test of an operator on a document's own date, or on that of its metadata if it has
    none."""
    if name in NEGATED:
        return ~_test_date(rows, NEGATED[name], operand)
    date, in_metadata = rows.c.date, rows.c.metadata[DATE]
    has_date = func.coalesce(date, "") != ""
    if name == "exists":
        test = literal(operand)
    elif name == "matches":
        test = _test_column(date, name, operand)
    else:
        dates = as_dates(name, operand)
        if dates is None:
            return _test_metadata(in_metadata, name, operand)
        equal = name in ("=", "in")
        test = _is_within_any(date, dates) if equal else _compare_dates(date, name, dates[0])
    return case((has_date, test), else_=_test_metadata(in_metadata, name, operand))


def _compare_dates(date: Cell, name: str, wanted: str) -> Test:
    """Return the test that the comparison, which is not equality, holds for every day that the date
    may mean."""
    first, last = _days_of(date)
    days = range_of(wanted)
    if name == "<":
        return last < days.first
    if name == "<=":
        return last <= days.last
    if name == ">":
        return first > days.last
    return first >= days.first


def _is_within_any(date: Cell, wanted: Sequence[str]) -> Test:
    """Return the test that every day that the date may mean is within one of the dates wanted.

    The dates are two bound arrays, so the statement is the same for one date and for a thousand.
    """
    first, last = _days_of(date)
    ranges = [range_of(each) for each in wanted]
    firsts = literal([days.first for days in ranges], ARRAY(Text))
    lasts = literal([days.last for days in ranges], ARRAY(Text))
    columns = (column("first", Text), column("last", Text))
    spans = func.unnest(firsts, lasts).table_valued(*columns)
    span = spans.render_derived(name="span")
    is_within = exists().where(first >= span.c.first, last <= span.c.last)
    return is_within.correlate_except(span)


def _days_of(date: Cell) -> tuple[Cell, Cell]:
    """Return the first and the last day that a date may mean.

    Where month or day are unknown, the first or the last day of all is written behind the date.
    """
    known = func.length(date) + 1
    first = (date + func.substr(literal(FIRST_DAY), known)).collate("C")
    last = (date + func.substr(literal(LAST_DAY), known)).collate("C")
    return first, last


def _test_column(cell: Cell, name: str, operand: Any) -> Test:
    """Return the test of an operator on a column of text."""
    if name == "exists":
        return cell.is_not(None) == operand
    if name in NEGATED:
        return ~_test_column(cell, NEGATED[name], operand)
    return func.coalesce(_test_value(func.btrim(cell, SPACES), None, name, operand), False)


def _test_metadata(cell: Cell, name: str, operand: Any) -> Test:
    """Return the test of an operator on a value of JSON; a list passes if one item does."""
    if name == "exists":
        return func.coalesce(func.jsonb_typeof(cell) != "null", False) == operand
    if name in NEGATED:
        return ~_test_metadata(cell, NEGATED[name], operand)
    items = func.jsonb_array_elements(cell).table_valued(column("value", JSONB), name="item")
    some_item = exists().select_from(items).where(_test_item(items.c.value, name, operand))
    is_list = func.jsonb_typeof(cell) == "array"
    test = case((is_list, some_item), else_=_test_item(cell, name, operand))
    return func.coalesce(test, False)


def _test_item(value: Cell, name: str, operand: Any) -> Test:
    """Return the test of an operator on a value of JSON that is no list."""
    kind = func.jsonb_typeof(value)
    # The path of no steps gives the value itself as a text.
    path = literal("{}", literal_execute=True)
    content = value.op("#>>", return_type=Text)(path)
    amount = cast(content, Numeric)
    is_number_of_json = kind == "number"
    text = case(
        (kind == "string", func.btrim(content, SPACES)),
        # 1.50 is compared as 1.5.
        (is_number_of_json, cast(func.trim_scale(amount), Text)),
        else_=content,
    )
    number = case((is_number_of_json, amount))
    return and_(kind != "null", _test_value(text, number, name, operand))


def _test_value(text: Cell, number: Cell | None, name: str, operand: Any) -> Test:
    """Return the test of an operator on a single value.

    ``number``: the value as a number, which is null if it is none; None for a column of texts.
    """
    if name == "in":
        return _is_one_of(text, number, operand)
    wanted = as_text(operand)
    if name == "matches":
        return text.collate("C").regexp_match(_translate_glob(operand))
    if name == "=":
        # A truth is compared in lower case: JSON writes true, and Python True.
        compared_text = func.lower(text) if isinstance(operand, bool) else text
        same_text = compared_text == wanted
        wanted_number = _plain_number(wanted)
        if number is None or wanted_number is None:
            return same_text
        return case((number.is_not(None), number == wanted_number), else_=same_text)
    if is_number(wanted):
        compared = text.cast(Numeric).op(name)(Decimal(wanted))
        return case((text.regexp_match(A_NUMBER), compared), else_=False)
    return text.collate("C").bool_op(name)(wanted)


def _is_one_of(text: Cell, number: Cell | None, operands: Sequence[Any]) -> Test:
    """Return the test that the value equals one of ``operands``, as "=" compares each of them.

    Each kind of operand is one bound array: the statement has the same text and the same few
    parameters for ten values and for a thousand of the same kinds.
    """
    truths = [as_text(operand) for operand in operands if isinstance(operand, bool)]
    texts = [as_text(operand) for operand in operands if not isinstance(operand, bool)]
    tests = [_equals_any(text, texts, Text)] if texts else []
    if truths:
        # Only if it is needed: `lower` takes PostgreSQL longer than the comparison.
        tests.append(_equals_any(func.lower(text), truths, Text))
    same_text = or_(*tests)
    if number is None:
        return same_text
    numbers: list[Decimal] = []
    others: list[str] = []
    # A dict keeps each text once, in its order.
    for wanted in dict.fromkeys(texts):
        amount = _plain_number(wanted)
        if amount is None:
            others.append(wanted)
        else:
            numbers.append(amount)
    if not numbers:
        return same_text
    # A number in a document equals an operand that is a plain number by its value, not by its text.
    same_number = or_(_equals_any(number, numbers, Numeric), _equals_any(text, others, Text))
    return case((number.is_not(None), same_number), else_=same_text)


def _equals_any(cell: Cell, values: Sequence[Any], kind: type[Text | Numeric[Any]]) -> Test:
    """Return the test that the cell equals one of the values, which are one bound array."""
    return cell == any_(literal(list(values), ARRAY(kind)))


def _plain_number(text: str) -> Decimal | None:
    """Return the number that a text spells in the form of numbers in documents, else None."""
    if not is_number(text):
        return None
    is_plain = WHOLE_NUMBER.fullmatch(text) or as_text(float(text)) == text
    return Decimal(text) if is_plain else None


def _translate_glob(glob: str) -> str:
    """Return the regular expression of PostgreSQL that matches as ``fnmatch.fnmatchcase`` does."""
    wildcards = {"*": ".*", "?": "."}
    parts: list[str] = []
    place = 0
    while place < len(glob):
        found = _SET.match(glob, place)
        if found is not None:
            parts.append(_translate_set(bool(found["negated"]), found["items"]))
            place = found.end()
            continue
        character = glob[place]
        parts.append(wildcards[character] if character in wildcards else _escape(character))
        place += 1
    pattern = "".join(parts)
    return f"^(?:{pattern})$"


def _translate_set(negated: bool, items: str) -> str:
    """Return the regular expression of a set of characters, such as the "a-z_" of "[a-z_]"."""
    ranges: list[str] = []
    place = 0
    while place < len(items):
        first, last = items[place], items[place]
        if items[place + 1 : place + 2] == "-" and place + 2 < len(items):
            last = items[place + 2]
            place += 2
        place += 1
        # A range that ends before it begins matches nothing in fnmatch; PostgreSQL refuses it.
        if first <= last:
            ranges.append(f"{_escape(first)}-{_escape(last)}")
    if not ranges:
        # A set of nothing matches no character, and its negation matches any.
        return "." if negated else "(?!.*)"
    opening = "[^" if negated else "["
    return f"{opening}{''.join(ranges)}]"


def _escape(character: str) -> str:
    """Return a character as its code, so that it has no special meaning."""
    return f"\\U{ord(character):08x}"
