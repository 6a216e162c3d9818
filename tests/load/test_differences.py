"""What is found by the snapshots alone makes the old rows the new ones, and is what a comparison of
all rows finds."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.load import desired_rows, differences
from pipeline.load.desired_rows import DesiredRows
from pipeline.load.differences import Differences, compared, inserted
from pipeline.load.projection import TABLE_SOURCES
from pipeline.snapshots import tables as snapshot_tables
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Delta
from tests.load.tables import SCHEMAS, corpus
from tests.sizes import size

NAMES = ["Ada", "Babbage", "Cayley", "Euler"]
TEXTS = st.dictionaries(
    st.sampled_from(["a.txt", "b.txt"]), st.sampled_from(["One.", "Two."]), min_size=1
)
LINKS = st.dictionaries(
    st.sampled_from(list(itertools.combinations(NAMES, 2))),
    st.lists(st.sampled_from(["met", "sued", "knew"]), max_size=2),
    max_size=6,
)
TYPES = st.fixed_dictionaries(dict.fromkeys(NAMES, st.sampled_from(["person", "engineer"])))
CORPORA = st.builds(
    lambda texts, types, links: corpus(texts, types, [(*ends, keywords) for ends,
        keywords in links.items()]),
    TEXTS, TYPES, LINKS,
)  # fmt: skip
OPTIONAL_TABLES = ["communities", "community_reports", "report_embeddings", "covariates"]


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Parts of two rows, and additions to tables of any size."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(desired_rows, "PART_ROWS", 2)
        patched.setattr(differences, "PART_ROWS", 2)
        patched.setattr(snapshot_tables, "WHOLE_BELOW", 1)
        patched.setattr(snapshot_tables, "BUCKET_ROWS", 4)
        yield


def saved(
    snapshots: SnapshotStore, corpus: dict[str, pd.DataFrame], before: Manifest | None, bare: bool
) -> Manifest:
    tables = {}
    for name, schema in SCHEMAS.items():
        if not (bare and name in OPTIONAL_TABLES):
            known = before.tables.get(name) if before else None
            tables[name] = snapshots.tables.write(
                name, schema.encode(corpus[name], name), schema.order, known
            )
    return Manifest("index", tables)


def hashes(rows: DesiredRows, table: str) -> dict[str, str]:
    return {
        id: row_hash
        for part in rows.parts(table)
        for id, row_hash in zip(part["id"], part["row_hash"], strict=True)
    }


def applied(before: dict[str, str], deltas: list[Delta]) -> dict[str, str]:
    after = dict(before)
    for delta in deltas:
        for id in delta.deleted:
            del after[id]
        for rows, there in ((delta.updated, True), (delta.inserted, False)):
            for id, row_hash in zip(rows["id"], rows["row_hash"], strict=True):
                assert (id in after) == there
                assert after.get(id) != row_hash  # only what differs is written
                after[id] = row_hash
    return after


@settings(deadline=None, max_examples=size(5, 200))
@given(CORPORA, CORPORA, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_the_old_rows_become_the_new_ones(
    old: dict[str, pd.DataFrame],
    new: dict[str, pd.DataFrame],
    types: int,
    types_then: int,
    bare: bool,
):
    with tempfile.TemporaryDirectory() as folder:
        snapshots = SnapshotStore(Path(folder))
        first = saved(snapshots, old, None, bare)
        second = saved(snapshots, new, first, bare=False)
        before, now = (
            DesiredRows(first, snapshots, types),
            DesiredRows(second, snapshots, types_then),
        )
        between = Differences(before, now)
        assert between.wanted.type_counts == now.type_counts
        for table in TABLE_SOURCES:
            stored, wanted = hashes(before, table), hashes(now, table)
            known, looked = list(between.deltas(table)), []
            if stored:
                looked = list(compared(now, table, now.hashes(table), before.hashes(table)))
            assert (
                applied(stored, known)
                == applied(stored, looked or list(inserted(now, table)))
                == wanted
            )
            assert all(delta.before is not None for delta in known)
            gone = {id for delta in known for id in delta.deleted}
            assert gone == stored.keys() - wanted.keys()


def test_reports_that_never_existed_are_not_deleted(tmp_path: Path):
    """The workflow detects communities but writes no reports about them."""
    snapshots, manifests = SnapshotStore(tmp_path), list[Manifest]()
    for names in (["Ada", "Euler"], ["Ada", "Cayley"]):
        tables = corpus({"a.txt": "One."}, dict.fromkeys(names, "person"), [])
        tables |= {
            name: tables[name].iloc[:0] for name in ("community_reports", "report_embeddings")
        }
        manifests.append(saved(snapshots, tables, manifests[-1] if manifests else None, bare=False))
    for left_out in ((), ("community_reports", "report_embeddings")):
        before, now = (
            Manifest(
                "index",
                {name: table for name, table in manifest.tables.items() if name not in left_out},
            )
            for manifest in manifests
        )
        between = Differences(DesiredRows(before, snapshots, 5), DesiredRows(now, snapshots, 5))
        assert list(between.deltas("communities"))
        assert not [delta for delta in between.deltas("reports") if not delta.empty]


def test_equal_snapshots_differ_in_nothing(tmp_path: Path):
    snapshots = SnapshotStore(tmp_path)
    manifest = saved(snapshots, corpus({"a.txt": "One."}, {"Ada": "person"}, []), None, bare=False)
    rows = DesiredRows(manifest, snapshots, 5)
    assert not any(list(Differences(rows, rows).deltas(table)) for table in TABLE_SOURCES)
