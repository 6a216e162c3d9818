"""The index of the endings of German words: "Wärter" finds "Leuchtturmwärter".

A GIN index finds words by their beginnings, so this one holds words written backwards. A row of it
depends on its text alone, so a load changes it only for the text units that it changes.
"""

from psycopg import sql
from sqlalchemy import Boolean, Connection, literal_column

from pipeline.stores.postgres.maintenance import build_or_settle
from pipeline.stores.postgres.schema import CHUNKS, partition_of
from pipeline.text.compounds import GERMAN_WORDS, INFLECTIONS, compound_pattern

# The searched text is written out, as in lexical.py. Only long words of German texts are there: an
# index over a corpus in another language stays empty.
_ENDINGS = (
    r"to_tsvector('simple'::regconfig, left(reverse(regexp_replace("
    r"(coalesce(nullif(header, '') || E'\n\n', '') || content), '\m\w{1,6}\M', '', 'g')), 200000))"
)
_IS_GERMAN = (
    r"((coalesce(nullif(header, '') || E'\n\n', '') || content) ~ "
    rf"'\m({GERMAN_WORDS})\M')"
)
ENDINGS_COLUMN = literal_column(_ENDINGS)
IS_GERMAN = literal_column(_IS_GERMAN, Boolean)
"""The condition of the index. PostgreSQL uses it only for queries that have this condition too."""
_INDEX = sql.SQL("CREATE INDEX {} ON {} USING gin ({endings}) WHERE {is_german}")


def endings_index(workspace: str) -> str:
    """Return the name of the index of the endings of a workspace's German words."""
    return f"{partition_of(CHUNKS, workspace)}_endings"


def build_endings_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Build the index of endings in ``build_mb`` MB of memory; if it exists, merge pending
    entries."""
    name = endings_index(workspace)
    names = sql.Identifier(name), sql.Identifier(partition_of(CHUNKS, workspace))
    parts = {"endings": sql.SQL(_ENDINGS), "is_german": sql.SQL(_IS_GERMAN)}
    build_or_settle(connection, name, _INDEX.format(*names, **parts), build_mb)


def look_up_ending(head: str) -> tuple[str, str]:
    """Return the tsquery and the pattern of the compounds that end with the head."""
    backwards = [f"{head}{ending}"[::-1] for ending in INFLECTIONS]
    query = " | ".join(f"'{beginning}':*" for beginning in backwards)
    return query, compound_pattern(head)
