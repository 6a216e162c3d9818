"""The page of a run describes the rows that it left out."""

from pathlib import Path

from pipeline.contract.reasons import REASONS, decided
from pipeline.contract.schemas import REJECTS, STRING, TableSchema, table
from pipeline.runs.run_details import LeftOut, by_reason
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore

TEXTS = table("id", id=STRING, text=STRING)
NAMES = table("id", id=STRING, called=STRING)


def test_the_text_of_a_rejected_row_is_read_from_its_table(tmp_path: Path):
    """A table of a project's own verb may have the name of one of ours."""
    snapshots = SnapshotStore(tmp_path)

    def saved(name: str, schema: TableSchema, *row: str) -> Snapshot:
        return snapshots.tables.write(name, schema.encode(schema.frame([row]), name), ("id",))

    tables = {
        "text_units": saved("text_units", TEXTS, "chunk-1", "The Tollen Quay."),
        "documents": saved("documents", NAMES, "doc-1", "quay.txt"),
    }
    rejects = REJECTS.frame(
        [("own", row, "row", "own", "why") for row in ("chunk-1", "doc-1", "ent-1")]
    )
    expected = [("chunk-1", "The Tollen Quay.", "why"), ("doc-1", "", "why"), ("ent-1", "", "why")]
    assert by_reason(rejects, Manifest("own", tables), snapshots, {}) == [
        LeftOut("own", "row", "own", "", 3, expected)
    ]


def test_losses_come_before_decisions_whoever_declares_them(tmp_path: Path):
    rejects = REJECTS.frame([
        *(("own", f"a-{n}", "record", "ungrounded", "why") for n in range(3)),
        *(("own", f"b-{n}", "row", "unwanted", "why") for n in range(2)),
        ("own", "c", "cut", "truncated", "why"),
    ])  # fmt: skip
    own = {"own": {"unwanted": decided("not wanted")}}
    found = by_reason(rejects, Manifest("own", {}), SnapshotStore(tmp_path), own)
    assert [(each.reason, each.loss, each.meaning) for each in found] == [
        ("truncated", "lost", REASONS["truncated"].meaning),
        ("ungrounded", "decided", REASONS["ungrounded"].meaning),
        ("unwanted", "decided", "not wanted"),
    ]
