"""Whose tables and whose vectors a workspace shows, and what may not be loaded over them unasked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.errors import UsageError
from pipeline.snapshots import Snapshot, SnapshotStore
from pipeline.stores.base import Live, Probe

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

NORM_TOLERANCE = 1e-3
SAME_MODEL = 0.99
"""Cosine similarity of two vectors that one model made of one text; by another model it is near 0."""


def known_vectors(snapshots: SnapshotStore, embeddings: Snapshot, shown: Sequence[Live | None]) -> pd.DataFrame:
    """id and vector of the first text unit and of those whose vectors the stores know."""
    wanted = {live.probe.chunk_id for live in shown if live and live.probe}
    parts: list[pd.DataFrame] = []
    for batch in snapshots.batches(embeddings, ["id", "vector"]):
        part = batch.filter(pc.is_in(batch["id"], pa.array(sorted(wanted), pa.string())))
        parts += [part.to_pandas()] if parts else [batch[:1].to_pandas(), part.to_pandas()]
        wanted -= set(part["id"].to_pylist())
        if not wanted:
            break
    return pd.concat(parts).drop_duplicates("id") if parts else pd.DataFrame({"id": [], "vector": []})


def dimensions_of(embeddings: pd.DataFrame) -> int:
    """0 where there are none."""
    return len(embeddings["vector"].iloc[0]) if len(embeddings) else 0


def probe_of(embeddings: pd.DataFrame) -> Probe | None:
    if embeddings.empty:
        return None
    first = embeddings["vector"].iloc[0]
    normalised = bool(abs(np.linalg.norm(first) - 1) < NORM_TOLERANCE)
    return Probe(embeddings["id"].iloc[0], first.tolist(), normalised)


def refuse_other_workflow(workspace: str, shown: Live | None, workflow: str) -> None:
    """Raises UsageError where the workspace shows another workflow's tables."""
    if shown is not None and shown.workflow != workflow:
        raise UsageError(
            f"workspace '{workspace}': shows the tables of workflow '{shown.workflow}'; to have those of "
            f"'{workflow}' instead add --replace, to have both set another workspace"
        )


def refuse_other_vectors(workspace: str, shown: Live | None, live: Live, embeddings: pd.DataFrame) -> None:
    """Raises UsageError where the workspace has another model's vectors than ``live``, or other ones of a model of the
    same name. ``embeddings``: id, vector of the text units."""
    if shown is None or not shown.dimensions or not live.dimensions:
        return
    if shown.embedding_key != live.embedding_key:
        raise UsageError(
            f"workspace '{workspace}': its vectors were made by {_named(shown)}, those of the snapshots by "
            f"{_named(live)}; 'graphmill load {live.workflow} --re-embed' replaces them all, while the old ones "
            "keep serving"
        )
    if shown.probe and _similarity_now(shown.probe, embeddings) < SAME_MODEL:
        raise UsageError(
            f"workspace '{workspace}': the same text has another vector than when it was loaded, so "
            f"{_named(live)} is another model now; 'graphmill load {live.workflow} --re-embed' replaces all vectors"
        )


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine; 0 for vectors of different dimensions, 1 for a vector without direction."""
    if one.shape != other.shape:
        return 0.0
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 1.0


def _similarity_now(probe: Probe, embeddings: pd.DataFrame) -> float:
    """Between the probe's vector and that of the same chunk now; 1 where the chunk is gone."""
    now = embeddings.loc[embeddings["id"] == probe.chunk_id, "vector"]
    return similarity(np.asarray(probe.vector), now.iloc[0]) if len(now) else 1.0


def _named(live: Live) -> str:
    return f"{dict(live.embedding)} with {live.dimensions} dimensions"
