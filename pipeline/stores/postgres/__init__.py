"""PostgreSQL with pgvector: tables with vectors, the lexical index, and the graph where there is no
Neo4j."""
