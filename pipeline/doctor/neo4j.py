"""Neo4j: that it answers, is new enough, and lets us make constraints. Whatever is tried is rolled back."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.adapters import neo4j_store
from pipeline.doctor.finding import Finding, guarded
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.stores.neo4j import Neo4jStore

LEAST_VERSION = (5, 26)
VERSION = """
    CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel'
    RETURN versions[0], edition
    """


def examine_neo4j(settings: Settings) -> Iterator[Finding]:
    store = neo4j_store(settings)
    try:
        yield from guarded("stores", "neo4j", lambda: _version(store))
        if "driver" in store.__dict__:
            yield from guarded("stores", "neo4j rights", lambda: _rights(store))
    finally:
        store.close()


def _version(store: "Neo4jStore") -> Iterator[Finding]:
    with store.driver.session(database=store.database) as session:
        version, edition = session.run(VERSION).single(strict=True).values()
    fact = f"Neo4j {version}, {edition} edition, database '{store.database}'"
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < LEAST_VERSION:
        yield Finding("stores", "neo4j", "failed", fact, "upgrade it to 5.26 or later, or set stores.graph: postgres")
    else:
        yield Finding("stores", "neo4j", "ok", fact)


def _rights(store: "Neo4jStore") -> Iterator[Finding]:
    from pipeline.stores import cypher

    with store.driver.session(database=store.database) as session, session.begin_transaction() as transaction:
        for constraint in cypher.CONSTRAINTS:
            transaction.run(constraint).consume()
        transaction.rollback()
    yield Finding("stores", "neo4j rights", "ok", "constraints can be made")
