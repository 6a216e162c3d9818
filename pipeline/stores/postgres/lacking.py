"""The terms of a question that no text unit of a workspace has."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Connection, Text, cast, func, or_, select
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.sql.selectable import TableValuedAlias

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.lexical import (
    FOLLOWED,
    LEXEMES_COLUMN,
    SEARCHED_COLUMN,
    TextStatistics,
    lexical_query,
)
from pipeline.stores.postgres.schema import CHUNKS, DOCUMENTS
from pipeline.text.terms import Term

LONGEST_GROUPED = 12
"""Digits of the longest number whose thousands may be grouped in a text."""


def find_lacking(
    connection: Connection,
    workspace: str,
    terms: Sequence[Term],
    allowed: Allowed,
    statistics: TextStatistics | None,
) -> list[Term]:
    """Return the terms that no text unit of the ``allowed`` documents has; one statement.

    ``statistics`` are those of the visible documents. Nothing is lacking if there are none.
    """
    if statistics is None or not statistics.texts:
        return []
    rare = [term for term in terms if not _is_frequent(term, statistics)]
    if not rare:
        return []
    asked = _table_of(rare)
    # Counting makes PostgreSQL read the index. A search for the first match would tempt it to go
    # through all texts.
    counted = select(func.count())
    in_unit = LEXEMES_COLUMN.bool_op("@@")(cast(asked.c.query, TSQUERY))
    has_code = SEARCHED_COLUMN.op("~*")(asked.c.checked)
    units = counted.select_from(CHUNKS).where(
        CHUNKS.c.workspace == workspace,
        in_unit,
        or_(asked.c.checked == "", has_code),
        allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
    )
    in_title = DOCUMENTS.c.title.op("~*")(asked.c.pattern)
    titles = counted.select_from(DOCUMENTS).where(
        DOCUMENTS.c.workspace == workspace,
        in_title,
        allowed.has(DOCUMENTS.c.id, DOCUMENTS.c.workspace),
    )
    statement = select(asked.c.place)
    statement = statement.where(units.scalar_subquery() == 0, titles.scalar_subquery() == 0)
    places = connection.execute(statement.order_by(asked.c.place)).scalars()
    return [rare[place - 1] for place in places]


def _table_of(terms: Sequence[Term]) -> TableValuedAlias:
    """Return the terms as a table (query, pattern, checked, place), ``place`` from 1.

    ``checked``: the pattern of a code, which the text itself must have beside the code's name in
    the index; "" for other terms.
    """
    queries = [term_query(term) for term in terms]
    patterns = [term.pattern for term in terms]
    checked = [term.pattern if term.beginning and term.number else "" for term in terms]
    arrays = [cast(texts, ARRAY(Text)) for texts in (queries, patterns, checked)]
    rows = func.unnest(*arrays)
    columns = ("query", "pattern", "checked")
    table = rows.table_valued(*columns, with_ordinality="place", name="asked")
    return table.render_derived()


def term_query(term: Term) -> str:
    """Return the tsquery that finds at least all text units that have the term.

    PostgreSQL reads the number of "ISO-9001" as -9001, and 45,012 as two numbers.
    """
    if term.beginning:
        beginnings = [lexical_query(beginning) for beginning in term.spellings]
        compounds = [f"('{first}':* & '{second}':*)" for first, second in term.parts]
        return " | ".join([*beginnings, *compounds])
    number = term.number
    spellings = [f"'{number}':*", f"'-{number}':*"]
    if number[0] != "0" and 3 < len(number) <= LONGEST_GROUPED:
        thousands = f"{int(number):,}".split(",")
        quoted = [f"'{part}'" for part in thousands]
        spellings.append(f"({' & '.join(quoted)})")
        spellings.append(f"'{'.'.join(thousands)}':*")
    return " | ".join(spellings)


def _is_frequent(term: Term, statistics: TextStatistics) -> bool:
    """Return whether more text units have a form of the term's word than can be looked through."""
    word = term.beginning or term.number
    shares = [share for known, share in statistics.shares.items() if known.startswith(word)]
    return max(shares, default=0) * statistics.texts > FOLLOWED
