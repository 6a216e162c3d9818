"""Compare two layouts of the sources of entities in PostgreSQL: lists, and a link table.

    python benchmarks/source_lists.py --units 50000

The store keeps a list of text units for each entity, with an index over the items of the lists.
Names are drawn by Zipf's law: a few entities are in most text units, most entities are in a few. A
night replaces the mentions of 1 % of the text units.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import psycopg
from harness import print_table

from benchmarks.server_time import postgres_cpu
from pipeline.stores.postgres.embedded import start_embedded, stop_embedded

MENTIONS, ASKED, SHARE = 10, 60, 100
"""Names of a text unit; entities that a question reads; and the share of text units that a night
replaces, as its divisor."""
LISTS = "CREATE TABLE lists (id text PRIMARY KEY, units text[], row_hash text)"
LINKS = """CREATE TABLE links (id text, unit text, document text, place int, row_hash text,
PRIMARY KEY (id, unit))"""
READ_LISTS = "SELECT id, units[1:1000] FROM lists WHERE id = ANY(%s)"
READ_LINKS = """SELECT asked.id, found.units FROM unnest(%s::text[]) AS asked (id)
CROSS JOIN LATERAL (SELECT array_agg(unit) AS units FROM (SELECT unit FROM links
WHERE links.id = asked.id ORDER BY document, place LIMIT 1000) AS first) AS found"""

Mention = tuple[int, int]
"""An entity and a text unit, by their numbers."""


def digest(kind: str, number: int) -> str:
    return f"{kind}-{hashlib.md5(f'{kind} {number}'.encode()).hexdigest()}"


def draw_mentions(units: Iterable[int], entities: int, random: np.random.Generator) -> set[Mention]:
    weights = 1 / np.arange(1, entities + 1)
    chances = weights / weights.sum()
    mentions: set[Mention] = set()
    for unit in units:
        drawn = random.choice(entities, MENTIONS, p=chances)
        mentions.update((int(entity), unit) for entity in drawn)
    return mentions


def lists_of(mentions: Iterable[Mention]) -> dict[int, list[int]]:
    lists: dict[int, list[int]] = {}
    for entity, unit in sorted(mentions):
        lists.setdefault(entity, []).append(unit)
    return lists


def copy_lists(
    connection: psycopg.Connection, table: LiteralString, lists: dict[int, list[int]]
) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["text", "text[]", "text"])
        for entity, units in lists.items():
            names = [digest("chunk", unit) for unit in units]
            copy.write_row((digest("ent", entity), names, digest("hash", entity)))


def copy_links(connection: psycopg.Connection, mentions: Iterable[Mention]) -> None:
    with connection.cursor().copy("COPY links FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["text", "text", "text", "int4", "text"])
        for entity, unit in mentions:
            document = digest("doc", unit // 5)
            names = (digest("ent", entity), digest("chunk", unit), document)
            copy.write_row((*names, unit, digest("hash", unit)))


def measure(folder: Path, units: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    entities = units
    before = draw_mentions(range(units), entities, random)
    edited = {int(unit) for unit in random.choice(units, units // SHARE, replace=False)}
    gone = {mention for mention in before if mention[1] in edited}
    now = (before - gone) | draw_mentions(sorted(edited), entities, random)
    removed, added = before - now, now - before
    touched = {entity for entity, _ in removed | added}
    after = {entity: units for entity, units in lists_of(now).items() if entity in touched}
    # Half of the entities of a question are hubs, the others any.
    asked = [*range(ASKED // 2), *map(int, random.choice(entities, ASKED // 2))]
    ids = [digest("ent", entity) for entity in asked]
    connection = psycopg.connect(
        start_embedded(folder).replace("postgresql+psycopg", "postgresql"), autocommit=True
    )
    connection.execute(LISTS)
    connection.execute(LINKS)

    def load_lists() -> None:
        copy_lists(connection, "lists", lists_of(before))
        connection.execute("CREATE INDEX ON lists USING gin (units)")

    def load_links() -> None:
        copy_links(connection, sorted(before))
        connection.execute("CREATE INDEX ON links (unit)")

    def change_lists() -> None:
        with connection.transaction():
            connection.execute("CREATE TEMP TABLE changed (LIKE lists) ON COMMIT DROP")
            copy_lists(connection, "changed", after)
            connection.execute(
                "INSERT INTO lists SELECT * FROM changed ON CONFLICT (id) DO UPDATE"
                " SET units = excluded.units, row_hash = excluded.row_hash"
            )

    def change_links() -> None:
        with connection.transaction():
            connection.execute("CREATE TEMP TABLE gone (id text, unit text) ON COMMIT DROP")
            with connection.cursor().copy("COPY gone FROM STDIN") as copy:
                for entity, unit in removed:
                    copy.write_row((digest("ent", entity), digest("chunk", unit)))
            connection.execute(
                "DELETE FROM links USING gone WHERE links.id = gone.id AND links.unit = gone.unit"
            )
            copy_links(connection, added)

    def read(query: LiteralString) -> Callable[[], Any]:
        return lambda: connection.execute(query, (ids,)).fetchall()

    parts: dict[str, Callable[[], Any]] = {
        "lists, first load": load_lists,
        "links, first load": load_links,
        "lists, night": change_lists,
        "links, night": change_links,
        "lists, read": read(READ_LISTS),
        "links, read": read(READ_LINKS),
        "lists, read again": read(READ_LISTS),
        "links, read again": read(READ_LINKS),
    }
    rows: list[dict[str, Any]] = []
    for name, part in parts.items():
        cpu, began = postgres_cpu(folder), time.perf_counter()
        start = _value(connection, "SELECT pg_current_wal_lsn()")
        part()
        written = _value(connection, "SELECT pg_current_wal_lsn() - %s::pg_lsn", start)
        table = name.partition(",")[0]
        size = _value(connection, "SELECT pg_total_relation_size(%s)", table)
        rows.append(
            {
                "part": name,
                "s": round(time.perf_counter() - began, 3),
                "server CPU s": round(postgres_cpu(folder) - cpu, 2),
                "WAL MB": round(float(written) / 1e6, 1),
                "table MB": round(size / 1e6, 1),
            }
        )
    connection.close()
    return rows


def _value(connection: psycopg.Connection, query: LiteralString, *values: str) -> Any:
    [row] = connection.execute(query, values).fetchall()
    return row[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare lists of sources with a link table.")
    parser.add_argument("--units", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graphmill-lists-") as folder:
        try:
            print_table(measure(Path(folder), options.units))
        finally:
            stop_embedded(Path(folder))


if __name__ == "__main__":
    main()
