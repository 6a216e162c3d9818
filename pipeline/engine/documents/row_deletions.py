"""The guards against a table that suddenly lacks most of its rows."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd

from pipeline.engine.documents.deletions import (
    DOCUMENTS,
    LEAST_ROWS,
    ON_PURPOSE,
    check_deletions,
    find_gone,
    identities,
)
from pipeline.engine.workflow import (
    IMPORTED_DOCUMENTS,
    READ_GRAPHRAG,
    READ_GRAPHRAG_CACHE,
    READ_LIGHTRAG,
)
from pipeline.errors import DeletionError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

PLACE = "(?s)[#:].*"
"""The characters behind the name of a file, in the source of a row and in the id of a reject.
Python and Arrow read this pattern alike."""

IMPORTED_FILES = {
    "imported_communities": "communities.parquet",
    "imported_reports": "community_reports.parquet",
    "imported_claims": "covariates.parquet",
}
"""The outputs of read_graphrag that an index need not have, and the files that they come from."""
_OF_GRAPHRAG = {"text_units": "text_units.parquet", **IMPORTED_FILES}
GUARDED: Mapping[str, Mapping[str, str]] = {
    READ_GRAPHRAG: {
        **_OF_GRAPHRAG,
        "described_entities": "entities.parquet",
        "described_relationships": "relationships.parquet",
    },
    READ_GRAPHRAG_CACHE: {**_OF_GRAPHRAG, "extractions": "cache/extract_graph"},
    READ_LIGHTRAG: {"extractions": "kv_store_llm_response_cache.json"},
}
"""The outputs of a verb whose rows must not be gone unless it is meant, with their files."""


def refuse_row_deletions(
    store: SnapshotStore,
    before: Snapshot | None,
    after: Snapshot,
    rejects: pd.DataFrame,
    max_ratio: float,
) -> None:
    """Raise DeletionError if a table that is still there lacks more than ``max_ratio`` of its rows.

    ``before``, ``after``: the documents that the step read_table wrote in the last run and now;
    ``rejects``: those of now. A broken export may leave few rows of a table, and its documents may
    be few of all. The guard for all documents covers a table that is gone as a whole.
    """
    if before is None or before == after:
        return
    then, now = identities(store, before), identities(store, after)
    rows_then = Counter(_tables_of(then["source"]))
    rows_gone = Counter(_tables_of(find_gone(then, now)["source"]))
    # A table of which each row was rejected is still there.
    there = {*_tables_of(now["source"]), *_tables_of(rejects["row_id"])}
    for table, gone in rows_gone.items():
        rows = rows_then[table]
        if table in there and rows >= LEAST_ROWS and gone > max_ratio * rows:
            raise DeletionError(
                f"{table}: {gone} of its {rows} rows are gone, more than max_delete_ratio"
                f" {max_ratio:g}; is the table whole? {ON_PURPOSE}"
            )


def refuse_imported_deletions(
    verb: str, before: StepRecord | None, after: Mapping[str, int], max_ratio: float
) -> None:
    """Raise DeletionError if a table that comes from an index of another tool lacks too many rows.

    ``before``: what the verb wrote in the last run; ``after``: the numbers of rows that it has
    written now, by output. The other tool rewrites its folder in place, so that a file may not be
    there yet, or may not fit the others. The numbers of rows are compared, since GraphRAG gives all
    communities other members when it groups anew. A short table is refused only if no row is left.
    """
    if before is None:
        return
    tool = "LightRAG" if verb == READ_LIGHTRAG else "GraphRAG"
    for table, file in GUARDED.get(verb, {}).items():
        if table not in before.outputs or table not in after:
            continue
        rows, left = before.outputs[table].rows, after[table]
        is_judged = rows >= LEAST_ROWS or left == 0
        if is_judged and rows - left > max_ratio * rows:
            raise DeletionError(
                f"{file}: {rows - left} of the {rows} rows that the last run took are gone, more"
                f" than max_delete_ratio {max_ratio:g}; wait until {tool} has ended, or"
                f" {ON_PURPOSE}"
            )


def refuse_index_deletions(
    store: SnapshotStore,
    previous: Manifest,
    documents: pd.DataFrame,
    extractions: int,
    max_ratio: float,
) -> None:
    """Raise DeletionError if an index of LightRAG, which no run has read yet, lacks too much.

    ``previous``: the manifest of the last run, which may have had another index. It is compared as
    a run does it later, when the earlier copy would be gone. Documents that cannot be compared are
    left to the run.
    """
    before = previous.tables.get(IMPORTED_DOCUMENTS) or previous.tables.get(DOCUMENTS)
    if before is not None and store.tables.exists(before):
        check_deletions(identities(store, before), documents, max_ratio, ON_PURPOSE)
    records = previous.steps.values()
    read = (one for one in records if one.components.get("verb") == READ_LIGHTRAG)
    rows = {"extractions": extractions}
    refuse_imported_deletions(READ_LIGHTRAG, next(read, None), rows, max_ratio)


def _tables_of(places: Iterable[str]) -> list[str]:
    """Return the table of each source of a row, or of each reject."""
    return [file_of(place) for place in places]


def file_of(place: str) -> str:
    """Return the name of the file in the source of a row, or in the id of a reject."""
    return re.sub(PLACE, "", place)
