"""The loaded vectors: whether a model of the settings still makes the same of the same text."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from pipeline.adapters import embedding_model, postgres_store
from pipeline.doctor.finding import Finding
from pipeline.errors import StoreError
from pipeline.load.identity import SAME_MODEL, is_of_another, similarity
from pipeline.models.cache import NO_CACHE
from pipeline.owner import known_owner
from pipeline.settings import Settings
from pipeline.stores.base import Probe


def examine_vectors(root: Path, settings: Settings) -> Iterator[Finding]:
    """Embeds one loaded chunk anew. Nothing where the database does not answer, or the workspace is another owner's,
    whose vectors are not to be mended from here: those are findings of their own."""
    store = postgres_store(settings, root)
    with suppress(StoreError), closing(store):
        live = store.live()
        if live is None or live.probe is None or is_of_another(live, known_owner(root, settings.owner)):
            return
        models = [embedding_model(settings, name, NO_CACHE) for name in settings.models.embedding]
        model = next((model for model in models if dict(model.identity) == dict(live.embedding)), None)
        content = store.chunks([live.probe.chunk_id], np.asarray(live.probe.vector, np.float32))["content"]
        if model is None:
            action = f"'graphmill run {live.workflow} --re-embed' makes them anew"
            yield Finding("stores", "vectors", "warning", "made by none of models.embedding", action)
        elif len(content):
            yield _compared(live.probe, model.embed(content.tolist())[0], live.workflow)


def _compared(probe: Probe, now: np.ndarray, workflow: str) -> Finding:
    same = similarity(np.asarray(probe.vector), now)
    fact = f"the same text has a vector with cosine {same:.3f} to the one that was loaded"
    if same >= SAME_MODEL:
        return Finding("stores", "vectors", "ok", fact)
    action = (
        "the endpoint serves another model under the name: give models.embedding that name, then "
        f"'graphmill run {workflow} --re-embed'"
    )
    return Finding("stores", "vectors", "failed", fact, action)
