"""Documents that a run would lose: too many at once are an accident, such as a folder that is not mounted."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError, DeletionError
from pipeline.snapshots import Snapshot, SnapshotStore

DOCUMENTS = "documents"
COLUMNS = ["id", "source", "content_hash"]
_NAMED = 3


def refuse_deletions(store: SnapshotStore, before: Snapshot | None, after: Snapshot, max_ratio: float) -> None:
    """Raises DeletionError when more than ``max_ratio`` of the documents of ``before`` are gone."""
    if before is None or before == after or not store.exists(before):
        return
    check_deletions(_identities(store, before), _identities(store, after), max_ratio)


def check_deletions(before: pd.DataFrame, after: pd.DataFrame, max_ratio: float) -> None:
    """Compare two tables of documents (columns ``id``, ``source``, ``content_hash``). One whose content is
    there under another id is renamed, not gone. Raises DeletionError above ``max_ratio``."""
    stays = before["id"].isin(after["id"]) | before["content_hash"].isin(after["content_hash"])
    sources = sorted(before.loc[~stays, "source"])
    if len(sources) <= max_ratio * len(before):
        return
    named = ", ".join([*sources[:_NAMED], *(["..."] if len(sources) > _NAMED else [])])
    raise DeletionError(
        f"input: {len(sources)} of {len(before)} documents are gone ({named}), more than max_delete_ratio "
        f"{max_ratio:g}; is the folder mounted? run again with --allow-deletes if this is meant"
    )


def _identities(store: SnapshotStore, snapshot: Snapshot) -> pd.DataFrame:
    """Without the texts, which are nearly all of the table."""
    path = store.root / snapshot.path
    try:
        return pq.read_table(path, columns=COLUMNS).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: damaged ({error}); delete it and run the workflow again") from error
