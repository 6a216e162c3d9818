"""Real stores for those tests that read them."""

from tests.stores.conftest import neo4j, postgres, workspace

__all__ = ["neo4j", "postgres", "workspace"]
