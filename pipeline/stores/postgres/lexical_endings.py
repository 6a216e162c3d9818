"""The index of the endings of German words: "Wärter" finds "Leuchtturmwärter".

A GIN index finds words by their beginnings, so this one holds words written backwards. A row of it
depends on its text alone, so a load changes it only for the text units that it changes.
"""

from typing import LiteralString

from psycopg import sql
from sqlalchemy import Boolean, Connection, literal_column

from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.maintenance import build_or_settle
from pipeline.stores.postgres.schema import CHUNKS, SEARCHED_TEXT, name_partition
from pipeline.text.compounds import GERMAN_WORDS, INFLECTIONS, LETTERS, compound_pattern
from pipeline.text.ids import digest

# Only long words of texts with a frequent
# German word are there. An index of an English corpus stays empty. The letters are written out
# too: what PostgreSQL takes for a letter depends on the locale of the database.
_LETTER: LiteralString = f"[{LETTERS}]"
_NO_LETTER: LiteralString = f"[^{LETTERS}]"
# What is between two long words becomes one space, with the short words in it.
_BETWEEN_LONG_WORDS: LiteralString = f"{_NO_LETTER}+(?:{_LETTER}{{1,6}}{_NO_LETTER}+)*"
_ENDINGS: LiteralString = (
    r"to_tsvector('simple'::regconfig, left(reverse(regexp_replace("
    rf"{SEARCHED_TEXT}, '{_BETWEEN_LONG_WORDS}', ' ', 'g')), 200000))"
)
_IS_GERMAN: LiteralString = rf"({SEARCHED_TEXT} ~ '(?<!{_LETTER})({GERMAN_WORDS})(?!{_LETTER})')"
ENDINGS_VERSION = digest(_ENDINGS, _IS_GERMAN)[:8]
"""A part of the name of the index: a query uses it only if it has the same expressions."""
ENDINGS_COLUMN = literal_column(_ENDINGS)
IS_GERMAN = literal_column(_IS_GERMAN, Boolean)
"""The condition of the index. PostgreSQL uses it only for queries that have this condition too."""
_INDEX = sql.SQL("CREATE INDEX {} ON {} USING gin ({endings}) WHERE {is_german}")


def endings_index(workspace: str) -> str:
    """Return the name of the index of the endings of a workspace's German words."""
    return f"{_name_without_version(workspace)}_{ENDINGS_VERSION}"


def build_endings_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Build the index of endings in ``build_mb`` MB of memory; if it exists, merge pending
    entries.

    Indexes of other versions of the software are dropped: no query uses them.
    """
    name, partition = endings_index(workspace), name_partition(CHUNKS, workspace)
    there = cursor(connection).execute(
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indrelid = to_regclass(%s) AND starts_with(relname, %s) AND relname <> %s",
        [partition, _name_without_version(workspace), name],
    )
    for (earlier,) in there.fetchall():
        drop = sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(earlier))
        cursor(connection).execute(drop)
    names = sql.Identifier(name), sql.Identifier(partition)
    parts = {"endings": sql.SQL(_ENDINGS), "is_german": sql.SQL(_IS_GERMAN)}
    build_or_settle(connection, name, _INDEX.format(*names, **parts), build_mb)


def _name_without_version(workspace: str) -> str:
    return f"{name_partition(CHUNKS, workspace)}_endings"


def look_up_ending(head: str) -> tuple[str, str]:
    """Return the tsquery and the pattern of the compounds that end with the head."""
    backwards = [f"{head}{ending}"[::-1] for ending in INFLECTIONS]
    query = " | ".join(f"'{beginning}':*" for beginning in backwards)
    return query, compound_pattern(head)
