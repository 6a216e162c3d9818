"""Compare the cost of questions about a hub and about an entity of few neighbours, by mode.

    # 50,000 neighbours beside 50, in PostgreSQL
    python benchmarks/hub.py
    python benchmarks/hub.py --graph neo4j --neighbours 20000

Both are in the same graph. Every neighbour is named in a text unit of its own, as the two are. The
questions about the two take turns; the first of each are not counted.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pandas as pd
from harness import print_table

from benchmarks.query import open_stores
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.request import build_request
from pipeline.query.search.evidence import Evidence
from pipeline.query.search.modes import QuestionVectors, retrieve
from pipeline.runs.adapters import Stores
from pipeline.settings.query_options import QuerySettings
from pipeline.stores.base import Live
from pipeline.stores.reads import GraphStore, VectorStore
from pipeline.text.ids import entity_id, relationship_id
from tests.stores.sources import tables_of

MODES = ("local", "global", "mix", "graph")
HUB, NODE = "Marrow Hub", "Quill Node"
FEW, DIMENSIONS, WARM_UP = 50, 256, 5
WIDE = QuerySettings(top_k=60, chunk_top_k=20)
Tables = dict[str, pd.DataFrame]


def main() -> None:
    options = _options()
    tables = _tables(options.neighbours)
    with open_stores(options.graph) as stores:
        _write(stores, tables)
        print_table([_measured(mode, stores, tables, options.questions) for mode in options.modes])


def _measured(mode: str, stores: Stores, tables: Tables, questions: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {HUB: [], NODE: []}
    for number in range(WARM_UP + questions):
        for name in (HUB, NODE):
            times[name].append(_seconds(mode, name, number, stores, tables) * 1000)
    hub, node = (float(np.median(times[name][WARM_UP:])) for name in (HUB, NODE))
    return {
        "mode": mode,
        "hub p50 ms": round(hub, 1),
        "node p50 ms": round(node, 1),
        "ratio": round(hub / node, 2),
    }


def _seconds(mode: str, name: str, number: int, stores: Stores, tables: Tables) -> float:
    """Return the seconds of one read of the stores for a question about the entity.

    The vector of the question is near that of one of the entity's relationships.
    """
    own = tables["relationships"].query("src_id == @name")["embedding"]
    near = own.iloc[number % FEW]
    entity = tables["entities"].query("entity_name == @name")["embedding"].iloc[0]
    request = build_request(f"Whom did {name} meet at quay {number}?", WIDE, {"mode": mode})

    def read(vectors: VectorStore, graph: GraphStore) -> Evidence:
        question = QuestionVectors(request.query, near, entity, near)
        evidence = retrieve(request, question, vectors, graph, request.chunk_top_k)
        lanes = [list(picks)[: request.chunk_top_k] for picks in evidence.chunk_lanes.values()]
        vectors.chunks([id for ids in lanes for id in ids], near)
        return evidence

    started = time.perf_counter()
    stores.read(read)
    return time.perf_counter() - started


def _tables(neighbours: int) -> Tables:
    """Return the rows of the stores: the hub meets all other entities, the node the first FEW."""
    others = [f"Other {number:05}" for number in range(neighbours)]
    units = {name: f"chunk-{number:05}" for number, name in enumerate(others)}
    met = {HUB: others, NODE: others[:FEW]}
    degrees = {HUB: neighbours, NODE: FEW} | {
        name: 1 + (place < FEW) for place, name in enumerate(others)
    }
    mentions = {HUB: list(units.values()), NODE: list(units.values())[:FEW]} | {
        name: [units[name]] for name in others
    }
    ids = {name: entity_id(name) for name in degrees}
    links = pd.DataFrame(
        [
            (
                relationship_id(ids[one], ids[other]),
                one,
                other,
                f"{one} met {other}",
                [units[other]],
            )
            for one, names in met.items()
            for other in names
        ],
        columns=["id", "src_id", "tgt_id", "content", "chunk_ids"],
    )
    texts = [f"{name} was at quay {number}. {HUB} was there." for number, name in enumerate(others)]
    names = list(ids)
    return {
        "documents": pd.DataFrame(
            {"id": ["doc-1"], "title": ["Log"], "source": ["log.txt"], "metadata": [{}]}
        ),
        "chunks": pd.DataFrame(
            {
                "id": list(units.values()),
                "full_doc_id": "doc-1",
                "chunk_order_index": range(neighbours),
                "tokens": 12,
                "content": texts,
                "char_start": 0,
                "char_end": 1,
                "embedding": _vectors(neighbours),
            }
        ),
        "entities": pd.DataFrame(
            {
                "id": list(ids.values()),
                "entity_name": names,
                "content": names,
                "chunk_ids": [mentions[name] for name in names],
                "embedding": _vectors(len(names)),
            }
        ),
        "relationships": links.assign(embedding=pd.Series(_vectors(len(links)))),
        "nodes": pd.DataFrame(
            {
                "id": list(ids.values()),
                "display_name": names,
                "entity_type": "PERSON",
                "description": [f"{name} was at a quay." for name in names],
                "source_id": [mentions[name] for name in names],
                "degree": [degrees[name] for name in names],
            }
        ),
        "edges": pd.DataFrame(
            {
                "id": links["id"],
                "source_entity_id": links["src_id"].map(ids),
                "target_entity_id": links["tgt_id"].map(ids),
                "source": links["src_id"],
                "target": links["tgt_id"],
                "description": links["content"],
                "weight": 1.0,
                "type": "RELATED",
                "keywords": [["meeting"]] * len(links),
                "source_id": links["chunk_ids"],
            }
        ),
    }


def _vectors(count: int) -> list[np.ndarray]:
    drawn = np.random.default_rng(count).normal(size=(count, DIMENSIONS)).astype(np.float32)
    return list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def _write(stores: Stores, tables: Tables) -> None:
    for store in stores.all:
        with store.writing(Live("index", "1", {"model": "synthetic"}, DIMENSIONS)) as writer:
            for table, rows in tables_of(store, tables).items():
                writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
            writer.publish()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--neighbours", type=int, default=50_000)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--graph", choices=["postgres", "neo4j"], default="postgres")
    parser.add_argument("--modes", nargs="+", default=MODES)
    return parser.parse_args()


if __name__ == "__main__":
    main()
