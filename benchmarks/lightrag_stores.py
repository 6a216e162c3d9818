"""The storage classes of LightRAG, timed; run by the Python of an environment that has the package
``lightrag-hku``.

Arguments: a store ("neo4j" or "postgres"; its address is in LightRAG's own environment variables),
and a file of JSON with ``entities``, ``relationships`` and ``units``. Prints JSON: seconds by way
of writing. *one by one* is how LightRAG indexes, 8 rows at a time; *in batches* how it takes a
finished graph. Embeddings are random and take no time; making the tables and connecting are not
counted.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import numpy as np
from lightrag.kg.shared_storage import initialize_share_data
from lightrag.utils import EmbeddingFunc

AT_A_TIME = 8
"""LightRAG's own: twice its default number of model calls at a time."""

CONFIG = {
    "embedding_batch_num": 10,
    "vector_storage": "PGVectorStorage",
    "vector_db_storage_cls_kwargs": {"cosine_better_than_threshold": 0.2},
}


async def embed(texts: list[str], **_) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(len(texts), int(sys.argv[3]))).astype(np.float32)


async def main() -> None:
    rows = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    initialize_share_data(workers=1)
    embedding = EmbeddingFunc(embedding_dim=int(sys.argv[3]), func=embed, model_name="synthetic")
    taken = await (neo4j if sys.argv[1] == "neo4j" else postgres)(rows, embedding)
    print(json.dumps(taken))


async def neo4j(rows, embedding) -> dict[str, float]:
    from lightrag.kg.neo4j_impl import Neo4JStorage

    graphs = [
        Neo4JStorage("chunk_entity_relation", CONFIG, embedding, name)
        for name in ("warm", "one", "batch")
    ]
    for graph in graphs:
        await graph.initialize()
    await write_one_by_one(
        graphs[0], {**rows, "entities": rows["entities"][:200], "relationships": []}
    )
    taken = {
        "one by one": await timed(write_one_by_one(graphs[1], rows)),
        "in batches": await timed(write_in_batches(graphs[2], rows)),
    }
    for graph in graphs:
        await graph.finalize()
    return taken


async def postgres(rows, embedding) -> dict[str, float]:
    from lightrag.kg.pgtable_impl import PGTableGraphStorage
    from lightrag.kg.postgres_impl import PGKVStorage, PGVectorStorage

    def made(kind, namespace: str, **fields):
        return kind(namespace=namespace, global_config=CONFIG, embedding_func=embedding, **fields)

    meta = {
        "entities": {"entity_name", "source_id", "content", "file_path"},
        "relationships": {"src_id", "tgt_id", "source_id", "content", "file_path"},
        "chunks": {"full_doc_id", "content", "file_path"},
    }
    taken = {}
    for way, write in {"one by one": write_one_by_one, "in batches": write_in_batches}.items():
        workspace = way.replace(" ", "_")
        vectors = {
            name: made(PGVectorStorage, name, workspace=workspace, meta_fields=fields)
            for name, fields in meta.items()
        }
        texts = made(PGKVStorage, "text_chunks", workspace=workspace)
        graph = made(PGTableGraphStorage, "chunk_entity_relation", workspace=workspace)
        for storage in (*vectors.values(), texts, graph):
            await storage.initialize()
        taken[way] = await timed(write_all(write, graph, vectors, texts, rows))
        for storage in (*vectors.values(), texts, graph):
            await storage.finalize()
    return taken


async def write_all(write: Callable, graph, vectors, texts, rows) -> None:
    units = {
        row["id"]: {
            key: row[key]
            for key in ("tokens", "chunk_order_index", "full_doc_id", "content", "file_path")
        }
        for row in rows["units"]
    }
    await write(graph, rows)
    await texts.upsert(units)
    await vectors["chunks"].upsert(units)
    await vectors["entities"].upsert(
        {row["id"]: vector_row(row, "entity_name") for row in rows["entities"]}
    )
    await vectors["relationships"].upsert(
        {row["id"]: vector_row(row, "src_id", "tgt_id") for row in rows["relationships"]}
    )
    for storage in (*vectors.values(), texts):
        await storage.index_done_callback()


def vector_row(row: dict, *names: str) -> dict:
    return {name: row[name] for name in (*names, "content", "source_id", "file_path")}


async def write_one_by_one(graph, rows) -> None:
    await at_a_time(graph.upsert_node(name, properties) for name, properties in nodes(rows))
    await at_a_time(graph.upsert_edge(*edge) for edge in edges(rows))


async def write_in_batches(graph, rows) -> None:
    await graph.upsert_nodes_batch(nodes(rows))
    await graph.upsert_edges_batch(edges(rows))


def nodes(rows) -> list[tuple[str, dict]]:
    return [
        (row["entity_name"], {"entity_id": row["entity_name"], **properties(row, "entity_type")})
        for row in rows["entities"]
    ]


def edges(rows) -> list[tuple[str, str, dict]]:
    return [
        (row["src_id"], row["tgt_id"], properties(row, "keywords", "weight"))
        for row in rows["relationships"]
    ]


def properties(row: dict, *names: str) -> dict:
    return {name: row[name] for name in ("description", "source_id", "file_path", *names)}


async def at_a_time(writes: Iterable[Awaitable[None]]) -> None:
    slots = asyncio.Semaphore(AT_A_TIME)

    async def one(write: Awaitable[None]) -> None:
        async with slots:
            await write

    await asyncio.gather(*map(one, writes))


async def timed(work: Awaitable[None]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


if __name__ == "__main__":
    asyncio.run(main())
