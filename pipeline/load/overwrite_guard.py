"""Refusals of loads that would replace another workflow's tables, or another model's vectors,
unasked."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.errors import UsageError
from pipeline.load.projection import EXTRAS
from pipeline.stores.base import Live, VectorProbe
from pipeline.text.headers import header_key

if TYPE_CHECKING:
    from pipeline.snapshots.store import Snapshot, SnapshotStore

VECTORS = "chunks"
"""A table that every store with vectors has."""
COLUMNS = ["id", "vector"]
TELLING = [*COLUMNS, "header"]
"""The columns that say whether a model is the same: a text unit, its vector, and the header that
may have been embedded with it."""
NORM_TOLERANCE = 1e-3
"""The largest difference from 1 of the length of a vector that counts as normalised."""
SAME_MODEL = 0.99
"""The least cosine similarity of two vectors that one model made of one text. The similarity of
vectors of different models is near 0."""


def telling_vectors(
    snapshots: "SnapshotStore",
    embeddings: "Snapshot",
    shown: Sequence[Live | None],
    headers: "Snapshot | None" = None,
) -> pd.DataFrame:
    """Return TELLING of the first text unit, then of those that the stores keep as probes.

    ``embeddings``: the snapshot of the text units' vectors. ``headers``: that of their headers.
    ``shown``: what the stores show. The first vector becomes the probe of the next load. Probes
    whose text unit is gone have no row.
    """
    first = snapshots.tables.read_first(embeddings, COLUMNS)
    known = {live.probe.chunk_id for live in shown if live and live.probe}
    others = known - set(first["id"].to_pylist())
    vectors = first
    if others:
        ids = pa.array(sorted(others), pa.large_string())
        of_others = snapshots.tables.select(embeddings, ["id"], ids, COLUMNS)
        vectors = pa.concat_tables([first, of_others])
    rows = vectors.to_pandas()
    by_id: dict[str, str] = {}
    if headers is not None:
        ids = pa.array(rows["id"], pa.large_string())
        found = snapshots.tables.select(headers, ["id"], ids, ["id", "header"]).to_pandas()
        by_id = dict(zip(found["id"], found["header"], strict=True))
    return rows.assign(header=headers_of(rows["id"], by_id))


def headers_of(ids: pd.Series, by_id: dict[str, str]) -> list[str]:
    """Return the header of each text unit, "" if it has none; it may be that none has one."""
    return [by_id.get(id, "") for id in ids]


def dimensions_of(embeddings: pd.DataFrame) -> int:
    """Return the number of dimensions of the vectors; 0 if there is none."""
    return len(embeddings["vector"].iloc[0]) if len(embeddings) else 0


def probe_of(embeddings: pd.DataFrame) -> VectorProbe | None:
    """Return the first row of TELLING as a probe; None if there is no row."""
    if embeddings.empty:
        return None
    header = embeddings["header"].iloc[0]
    first = embeddings["vector"].iloc[0]
    normalised = bool(abs(np.linalg.norm(first) - 1) < NORM_TOLERANCE)
    return VectorProbe(embeddings["id"].iloc[0], first.tolist(), normalised, header_key(header))


def other_workflow(lives: Sequence[Live | None], workflow: str, tables: Collection[str]) -> str:
    """Return the workflow whose tables a load of ``workflow`` would take away, or "".

    Every workflow makes documents, text units, entities and relationships. Only some make
    communities, reports or claims. A load takes nothing away if the workspace shows nothing, or the
    tables of the same workflow, or fewer kinds of tables than the load brings.

    ``lives``: what the stores show. The first store that shows anything decides: the others may lag
    behind after a load that was cut off. ``tables``: the names of the snapshots.
    """
    shown = next(filter(None, lives), None)
    if shown is None or shown.workflow == workflow:
        return ""
    states = [state for live in lives if live for state in live.tables.items()]
    if not states:
        # An earlier version of the software kept no states: what would be taken away is unknown.
        return shown.workflow
    extras_shown = {table for table, state in states if table in EXTRAS and state.rows}
    extras_brought = {table for table, source in EXTRAS.items() if source in tables}
    only_adds = extras_shown < extras_brought
    return "" if only_adds else shown.workflow


def refuse_other_workflow(
    workspace: str, lives: Sequence[Live | None], workflow: str, tables: Collection[str]
) -> None:
    """Raise UsageError if the workspace shows another workflow's tables, see ``other_workflow``."""
    if other := other_workflow(lives, workflow, tables):
        raise UsageError(
            f"workspace '{workspace}': shows the tables of workflow '{other}'; to have those of"
            f" '{workflow}' instead add --replace, to have both set another workspace, to go on"
            f" with '{other}' name it, or set workflow: {other}"
        )


def other_model(shown: Live | None, identity: Mapping[str, Any]) -> bool:
    """Check whether a workspace shows vectors, and another model than this one made them."""
    return shown is not None and shown.dimensions > 0 and dict(shown.embedding) != dict(identity)


def other_vectors(shown: Live | None, live: Live, embeddings: pd.DataFrame) -> str:
    """Return how the vectors that are shown differ from those of ``live``, or "" if they do not.

    They differ in their model, in their dimensions, or in the vector of the probe's text.
    ``embeddings``: TELLING of the text units.
    """
    if shown is None or not shown.dimensions or not live.dimensions:
        return ""
    if other_model(shown, live.embedding) or shown.dimensions != live.dimensions:
        return (
            f"its vectors were made by {_describe_model(shown)},"
            f" those of the snapshots by {_describe_model(live)}"
        )
    if shown.probe and _is_another_model(shown.probe, embeddings):
        return (
            f"the same text has another vector than when it was loaded, so {_describe_model(live)}"
            " is another model now, or scales its vectors otherwise"
        )
    return ""


def refuse_other_vectors(
    workspace: str, shown: Live | None, live: Live, embeddings: pd.DataFrame
) -> None:
    """Raise UsageError if the workspace has other vectors than ``live``."""
    if fact := other_vectors(shown, live, embeddings):
        raise UsageError(
            f"workspace '{workspace}': {fact}; 'graphmill load {live.workflow} --re-embed' replaces"
            " them all, while the old ones keep serving"
        )


def refuse_other_model(
    workspace: str, lives: Sequence[Live | None], identity: Mapping[str, Any], workflow: str
) -> None:
    """Raise UsageError if the workspace shows vectors of another model than a run would embed with.

    A load of that run would be refused (``refuse_other_vectors``), after its vectors were paid.
    ``lives``: what the stores that have vectors show; ``identity``: of the run's embedding model.
    """
    for shown in lives:
        if shown is not None and other_model(shown, identity):
            raise UsageError(
                f"workspace '{workspace}':"
                f" {refusal_of_other_model(shown.embedding, identity, workflow)}"
            )


def refusal_of_other_model(
    shown: Mapping[str, Any], identity: Mapping[str, Any], workflow: str
) -> str:
    """Return why a run is refused whose model is not the one of the vectors that are shown, and
    what to do."""
    return (
        f"its vectors were made by {named_model(shown)}, a run would embed with"
        f" {named_model(identity)}, so it is refused before it embeds anything; set the former"
        f" model again, or 'graphmill run {workflow} --re-embed' embeds all texts and replaces the"
        " vectors, while the old ones keep serving"
    )


def named_model(identity: Mapping[str, Any]) -> str:
    """Return an embedding model's identity as people read it."""
    parts = [f"{name} {value}" for name, value in identity.items()]
    return f"({', '.join(parts)})" if parts else "a model that is not known"


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Return the cosine similarity; 0 if the dimensions differ, 1 if one vector is all zeros."""
    if one.shape != other.shape:
        return 0.0
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 1.0


def _is_another_model(probe: VectorProbe, embeddings: pd.DataFrame) -> bool:
    """Compare the probe with the vector that its chunk has now.

    Return False if the chunk is gone, if it has another header than before, or if one of the
    vectors is zeros, as a purge leaves them: these say nothing.
    """
    now = probe_of(embeddings[embeddings["id"] == probe.chunk_id])
    if now is not None and now.header_key != probe.header_key:
        return False
    if now is None or not np.any(now.vector) or not np.any(probe.vector):
        return False
    same = similarity(np.asarray(probe.vector), np.asarray(now.vector)) >= SAME_MODEL
    return not same or now.normalised != probe.normalised


def _describe_model(live: Live) -> str:
    return f"{named_model(live.embedding)} with {live.dimensions} dimensions"
