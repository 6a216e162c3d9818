"""Run by a Python that has Microsoft GraphRAG: what its own readers make of a folder of Parquet, as
JSON.

By hand: GRAPHMILL_GRAPHRAG_PYTHON=<venv>/bin/python python -m pytest
tests/export/test_graphrag_parquet.py
"""

import asyncio
import json
import sys

import graphrag.data_model.schemas as layout
from graphrag.data_model.data_reader import DataReader
from graphrag.query.indexer_adapters import (
    read_indexer_communities,
    read_indexer_entities,
    read_indexer_relationships,
    read_indexer_reports,
    read_indexer_text_units,
)
from graphrag_storage.file_storage import FileStorage
from graphrag_storage.tables.parquet_table_provider import ParquetTableProvider

TABLES = (
    "documents",
    "text_units",
    "entities",
    "relationships",
    "communities",
    "community_reports",
)


async def read(folder: str) -> dict:
    reader = DataReader(ParquetTableProvider(FileStorage(base_dir=folder)))
    return {name: await getattr(reader, name)() for name in TABLES}


def main() -> None:
    tables = asyncio.run(read(sys.argv[1]))
    for name, table in tables.items():
        wanted = getattr(layout, f"{name.upper()}_FINAL_COLUMNS")
        assert list(table.columns)[: len(wanted)] == wanted, name
    communities, reports = tables["communities"], tables["community_reports"]
    found = {
        "entities": [
            [e.id, e.title, e.type, e.description, e.rank, e.text_unit_ids, e.community_ids]
            for e in read_indexer_entities(tables["entities"], communities, community_level=None)
        ],
        "relationships": [
            [r.id, r.short_id, r.source, r.target, r.description, r.weight, r.rank, r.text_unit_ids]
            for r in read_indexer_relationships(tables["relationships"])
        ],
        "text_units": [
            [u.id, u.text, u.n_tokens, u.document_id, u.entity_ids, u.relationship_ids]
            for u in read_indexer_text_units(tables["text_units"])
        ],
        "documents": [
            [row["id"], row["title"], list(row["text_unit_ids"])]
            for _, row in tables["documents"].iterrows()
        ],
        "communities": len(communities),
        "with_reports": len(read_indexer_communities(communities, reports)),
        "reports": len(read_indexer_reports(reports, communities, community_level=2)),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
