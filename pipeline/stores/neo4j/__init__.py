"""The graph in Neo4j 5.26 or later."""
