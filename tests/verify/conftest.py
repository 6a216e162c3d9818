"""The databases of the stores' own tests."""

from tests.stores.conftest import neo4j, postgres, workspace

__all__ = ["neo4j", "postgres", "workspace"]
