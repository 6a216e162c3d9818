"""Which tables and vectors a workspace shows, and what may not be loaded over them unasked."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.errors import UsageError
from pipeline.load.projection import EXTRAS
from pipeline.stores.base import Live, VectorProbe

if TYPE_CHECKING:
    from pipeline.snapshots.store import Snapshot, SnapshotStore

VECTORS = "chunks"
"""A table of the stores that have vectors."""
COLUMNS = ["id", "vector"]
NORM_TOLERANCE = 1e-3
SAME_MODEL = 0.99
"""Cosine similarity of two vectors that one model made of one text; by another model it is near
0."""


def telling_vectors(
    snapshots: "SnapshotStore", embeddings: "Snapshot", shown: Sequence[Live | None]
) -> pd.DataFrame:
    """id and vector of the first text unit, which is what a store shall know of its vectors,
    whatever was loaded before; then of others that the stores know, unless these are gone."""
    first = snapshots.first(embeddings, COLUMNS)
    known = {live.probe.chunk_id for live in shown if live and live.probe} - set(
        first["id"].to_pylist()
    )
    others = (
        [snapshots.select(embeddings, ["id"], pa.array(sorted(known), pa.large_string()), COLUMNS)]
        if known
        else []
    )
    return pa.concat_tables([first, *others]).to_pandas()


def dimensions_of(embeddings: pd.DataFrame) -> int:
    """0 where there are none."""
    return len(embeddings["vector"].iloc[0]) if len(embeddings) else 0


def probe_of(embeddings: pd.DataFrame) -> VectorProbe | None:
    if embeddings.empty:
        return None
    first = embeddings["vector"].iloc[0]
    normalised = bool(abs(np.linalg.norm(first) - 1) < NORM_TOLERANCE)
    return VectorProbe(embeddings["id"].iloc[0], first.tolist(), normalised)


def other_workflow(lives: Sequence[Live | None], workflow: str, tables: Collection[str]) -> str:
    """The workflow whose tables the workspace shows instead; empty where it shows none or this
    one's, or fewer kinds of tables than this one has: every workflow brings documents, text units,
    entities and relationships, and who adds communities, reports or claims to what is shown takes
    nothing away. ``lives``: what its stores show; the first that shows anything decides, for the
    others may lag behind where a load was cut off. ``tables``: of the snapshots."""
    shown = next(filter(None, lives), None)
    if shown is None or shown.workflow == workflow:
        return ""
    extras = {table for table, source in EXTRAS.items() if source in tables}
    states = [state for live in lives if live for state in live.tables.items()]
    if not states:  # an earlier version has kept none: what would be taken away is not known
        return shown.workflow
    return (
        ""
        if {table for table, state in states if table in EXTRAS and state.rows} < extras
        else shown.workflow
    )


def refuse_other_workflow(
    workspace: str, lives: Sequence[Live | None], workflow: str, tables: Collection[str]
) -> None:
    """Raises UsageError where the workspace shows another workflow's tables; see
    ``other_workflow``."""
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
    ``embeddings``: id, vector of the text units.
    """
    if shown is None or not shown.dimensions or not live.dimensions:
        return ""
    if other_model(shown, live.embedding) or shown.dimensions != live.dimensions:
        return f"its vectors were made by {_named(shown)}, those of the snapshots by {_named(live)}"
    if shown.probe and _is_another_model(shown.probe, embeddings):
        return (
            f"the same text has another vector than when it was loaded, so {_named(live)} is"
            " another model now, or scales its vectors otherwise"
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
    """The cosine; 0 for vectors of different dimensions, 1 for a vector without direction."""
    if one.shape != other.shape:
        return 0.0
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 1.0


def _is_another_model(probe: VectorProbe, embeddings: pd.DataFrame) -> bool:
    """Compare the probe with the vector that its chunk has now.

    Return False if the chunk is gone, or one of the vectors is zeros, as a purge leaves them: these
    say nothing.
    """
    now = probe_of(embeddings[embeddings["id"] == probe.chunk_id])
    if now is None or not np.any(now.vector) or not np.any(probe.vector):
        return False
    same = similarity(np.asarray(probe.vector), np.asarray(now.vector)) >= SAME_MODEL
    return not same or now.normalised != probe.normalised


def _named(live: Live) -> str:
    return f"{named_model(live.embedding)} with {live.dimensions} dimensions"
