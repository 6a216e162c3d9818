"""Measure retrieval over a large synthetic graph, by mode, without any model's time.

    # 100,000 text units and entities, 300,000 relationships, 256 dimensions
    python benchmarks/query.py
    python benchmarks/query.py --entities 20000 --relationships 60000 --units 20000 --graph neo4j

The graph is loaded once. Questions are made of its names and words, and their vectors are near
those of some row. The first questions of a mode warm the caches up and are not counted. ``reads``
is the time of the stores. ``whole`` is the time of all that is done before a chat model would be
asked: reads, ranking, and the prompt cut to its budgets. ``CPU ms`` is that of this process for
each question.

The first line is one search of the HNSW index of entities for 60 rows, sent by psycopg alone. The
load of the machine affects all lines alike, so multiples of this line can be compared where
milliseconds cannot.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psycopg
from harness import print_table

from benchmarks.graph_tables import FIRST, WORKFLOW, Sizes, write_tables
from benchmarks.load_once import MAX_TYPES
from pipeline.contract.prompts import Prompt, read_prompt
from pipeline.load.loader import load
from pipeline.models.base import Listener
from pipeline.query.prepare import prepare
from pipeline.query.request import build_request
from pipeline.query.resources import QueryResources
from pipeline.runs.adapters import Stores
from pipeline.settings.query_options import QuerySettings
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.embedded import start_embedded, stop_embedded
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import VectorStore
from pipeline.text.tokens import tokenizer
from tests.servers.neo4j_server import neo4j_server
from tests.servers.postgres_server import server_folder

WIDE = QuerySettings(top_k=60, chunk_top_k=20)
"""60 records and 20 text units in every mode, so that figures of earlier versions can be
compared."""
MODES = ("naive", "local", "global", "hybrid", "mix", "graph")
PROMPTS = Path(__file__).resolve().parents[1] / "prompts"
WARM_UP = 10


class NearSomeRow:
    """Embeds a text near a row that the text decides, as a question about that row would be; in
    next to no time."""

    identity = {"model": "synthetic"}  # noqa: RUF012

    def __init__(self, vectors: np.ndarray):
        noise = np.random.default_rng(7).normal(size=vectors.shape) / np.sqrt(vectors.shape[1])
        moved = vectors + 0.3 * np.linalg.norm(vectors, axis=1, keepdims=True) * noise
        self.near = (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)

    def embed(
        self, texts: Sequence[str], listener: Listener | None = None, remember: bool = True
    ) -> np.ndarray:
        return self.near[[crc32(text.encode()) % len(self.near) for text in texts]]

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return []

    def keys(self, texts: Sequence[str]) -> set[str]:
        return set()

    def preflight(self) -> None: ...


def main() -> None:
    options = _options()
    sizes = Sizes(options.entities, options.relationships, options.units, options.dimensions)
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-") as folder:
        snapshots = SnapshotStore(Path(folder))
        write_tables(snapshots, sizes)
        manifest = snapshots.manifest(WORKFLOW, FIRST)
        with open_stores(options.graph) as stores:
            load(manifest, snapshots, stores.all, MAX_TYPES)
            stage = _stage(stores, manifest, snapshots)
            questions = _questions(manifest, snapshots, WARM_UP + options.questions)
            print_table(measured(options.modes, questions, stage, stores.vectors))


def measured(
    modes: Sequence[str], questions: Sequence[str], stage: QueryResources, vectors: VectorStore
) -> list[dict[str, Any]]:
    """Return a line for the bare search, and one for each mode."""
    assert isinstance(vectors, PostgresReads)
    bare = _bare_searches(vectors, stage.embedding.embed(questions))
    rows = [_row("a bare search of 60", bare, bare, 0.0)]
    for mode in modes:
        asked = partial(_timings, mode, stage)
        list(map(asked, questions[:WARM_UP]))
        begun = time.process_time()
        timings = list(map(asked, questions[WARM_UP:]))
        cpu = (time.process_time() - begun) / len(timings)
        reads = [timing["retrieval"] for timing in timings]
        whole = [sum(timing.values()) for timing in timings]
        rows.append(_row(mode, reads, whole, cpu))
    least = rows[0]["whole p50 ms"]
    return [{**row, "p50 of the bare": row["whole p50 ms"] / least} for row in rows]


def _timings(mode: str, stage: QueryResources, text: str) -> dict[str, float]:
    return prepare(build_request(text, WIDE, {"mode": mode}), stage).timings


def _row(name: str, reads: Sequence[float], whole: Sequence[float], cpu: float) -> dict[str, Any]:
    return {
        "mode": name,
        "reads p50 ms": float(np.percentile(reads, 50)),
        "reads p95 ms": float(np.percentile(reads, 95)),
        "whole p50 ms": float(np.percentile(whole, 50)),
        "whole p95 ms": float(np.percentile(whole, 95)),
        "CPU ms": cpu * 1000,
    }


def _bare_searches(vectors: PostgresReads, questions: np.ndarray) -> list[float]:
    """Return the milliseconds of each bare search, with a warm index."""
    live = vectors.live()
    assert live is not None
    search: Any = (
        f"SELECT id FROM lightrag_entities WHERE workspace = '{vectors.workspace}' AND"
        f" embedding_key = '{live.embedding_key}' ORDER BY embedding::vector({live.dimensions}) <=>"
        f" %s::vector({live.dimensions}) LIMIT 60"
    )
    with psycopg.connect(vectors.url) as connection:
        connection.execute(
            "SET hnsw.ef_search = 120; SET enable_seqscan = off; SET enable_sort = off"
        )
        taken = []
        for question in questions:
            begun = time.perf_counter()
            connection.execute(search, [str(question.tolist())]).fetchall()
            taken.append((time.perf_counter() - begun) * 1000)
    return taken[WARM_UP:]


def _stage(stores: Stores, manifest: Manifest, snapshots: SnapshotStore) -> QueryResources:
    vectors = snapshots.tables.read(manifest.tables["relationship_embeddings"])["vector"].head(5000)
    return QueryResources(
        read=stores.read,
        embedding=NearSomeRow(np.stack(vectors.tolist())),
        chat=lambda name: None,
        keyword_chat=lambda name: None,
        tokenizer=tokenizer("gpt-4o-mini"),
        prompt=_prompt,
    )


def _prompt(name: str) -> Prompt:
    return read_prompt(PROMPTS, name, {"language": "English"})


def _questions(manifest: Manifest, snapshots: SnapshotStore, count: int) -> list[str]:
    """Return questions that name two entities and some words of a text unit each."""
    choice = np.random.default_rng(5)
    names = choice.choice(
        snapshots.tables.read(manifest.tables["entities"])["name"].to_numpy(), 2 * count
    )
    texts = choice.choice(
        snapshots.tables.read(manifest.tables["text_units"])["text"].to_numpy(), count
    )
    return [
        f"How did {names[2 * place]} meet {names[2 * place + 1]} over the"
        f" {' '.join(text.split()[1:5])}?"
        for place, text in enumerate(texts)
    ]


@contextmanager
def open_stores(graph: str):
    with server_folder() as folder:
        url = start_embedded(folder)
        vectors = PostgresStore(url, "bench", with_graph=graph == "postgres")
        try:
            if graph == "postgres":
                yield Stores(vectors, PostgresGraph(vectors), lambda: (vectors,))
            else:
                with neo4j_server() as address:
                    store = Neo4jStore(
                        address.uri, address.user, address.password, address.database, "bench"
                    )
                    yield Stores(vectors, store, lambda: (vectors, store))
                    store.close()
        finally:
            vectors.close()
            stop_embedded(folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relationships", type=int, default=300_000)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--graph", choices=["postgres", "neo4j"], default="postgres")
    parser.add_argument("--modes", nargs="+", default=MODES)
    return parser.parse_args()


if __name__ == "__main__":
    main()
