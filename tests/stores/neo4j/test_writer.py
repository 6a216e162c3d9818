"""The writer of a load into Neo4j, without a server."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pipeline.contract.schemas import HASHES
from pipeline.stores.base import Delta, Live
from pipeline.stores.neo4j import writer as module
from pipeline.stores.neo4j.writer import Neo4jWriter


def test_each_delta_is_measured_once_however_many_wait(monkeypatch: pytest.MonkeyPatch):
    measured: list[int] = []

    def measure(rows: pd.DataFrame, max_source_ids: int) -> pd.Series:
        measured.append(len(rows))
        return pd.Series([100] * len(rows))

    monkeypatch.setattr(module, "bytes_of", measure)
    store: Any = SimpleNamespace(max_source_ids=10, atomic_rows=1_000)
    around: Any = None
    load = Neo4jWriter(store, around, Live("index", "1", {}, 0))
    no_rows = pd.DataFrame({"id": []})
    for number in range(5):
        inserted = pd.DataFrame({"id": [f"rel-{number}"]})
        load.apply("sourced_edges", Delta(inserted, no_rows, [], 0, HASHES.empty_table()))
    assert measured == [1, 0] * 5
    assert load.waiting_rows == 5
    assert load.waiting_bytes == 500
