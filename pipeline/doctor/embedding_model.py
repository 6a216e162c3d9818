"""Examines embedding models, the loaded vectors, and rerankers."""

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from pipeline.doctor.finding import Finding
from pipeline.doctor.token_counts import RecordedCalls
from pipeline.errors import StoreError
from pipeline.load.overwrite_guard import SAME_MODEL, similarity
from pipeline.load.owners import is_of_another
from pipeline.models.cache.replies import NO_CACHE
from pipeline.models.endpoint.function import is_function
from pipeline.models.endpoint.remote_model import RemoteModel
from pipeline.runs.adapters import embedding_model, postgres_store, reranker
from pipeline.runs.owner import known_owner
from pipeline.settings.schema import Settings
from pipeline.stores.base import VectorProbe
from pipeline.stores.postgres.schema import HALFVEC_LIMIT
from pipeline.text.headers import header_key, text_to_embed

TEXTS = ("The lighthouse keeper counted the ships.", "A recipe for rye bread.", "灯塔在北方。")


def examine_embedding(root: Path, settings: Settings, name: str) -> Iterator[Finding]:
    model = embedding_model(settings, name, lambda: NO_CACHE, root=root)
    model.preflight()
    started = time.perf_counter()
    heard = RecordedCalls()
    vectors = model.embed(TEXTS, heard)
    seconds = time.perf_counter() - started
    dimensions = vectors.shape[1]
    reached = f" ({model.endpoint.shown})" if isinstance(model, RemoteModel) else ""
    fact = f"{dimensions} dimensions, {len(TEXTS)} texts in {seconds:.2g} s{reached}"
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(vectors).all() or not np.allclose(lengths, 1, atol=1e-3):
        shown = ", ".join(f"{length:.3g}" for length in lengths)
        action = "take another model: search compares directions"
        yield Finding(
            "embedding", name, "failed", f"{fact}; vectors of length {shown} instead of 1", action
        )
    elif np.allclose(vectors, vectors[0], atol=1e-3):
        yield Finding(
            "embedding",
            name,
            "failed",
            f"{fact}; different texts, equal vectors",
            "take another model",
        )
    elif dimensions > HALFVEC_LIMIT:
        fact = (
            f"{fact}; pgvector indexes up to {HALFVEC_LIMIT:,}: every search compares all vectors"
        )
        yield Finding(
            "embedding", name, "warning", fact, "set 'dimensions' lower, where the model allows it"
        )
    else:
        yield Finding("embedding", name, "ok", f"{fact}, length 1")
    # A function only returns vectors: it cannot report tokens.
    if not is_function(model):
        yield from heard.findings("embedding", name)


def examine_vectors(root: Path, settings: Settings) -> Iterator[Finding]:
    """Embed one loaded chunk again and compare its vector with the loaded one.

    Yield nothing if the database does not answer, or if the workspace belongs to another owner,
    whose vectors cannot be repaired from here. Both have findings of their own.
    """
    store = postgres_store(settings, root)
    with suppress(StoreError), closing(store):
        live = store.live()
        if live is None or live.probe is None:
            return
        if is_of_another(live, known_owner(root, settings.owner)):
            return
        models = [
            embedding_model(settings, name, lambda: NO_CACHE, root=root)
            for name in settings.models.embedding
        ]
        fitting = [model for model in models if dict(model.identity) == dict(live.embedding)]
        found = store.chunks([live.probe.chunk_id], np.asarray(live.probe.vector, np.float32))
        if not fitting:
            action = f"'graphmill run {live.workflow} --re-embed' makes them again"
            yield Finding(
                "stores", "vectors", "warning", "made by none of models.embedding", action
            )
        elif found:
            # A probe without a header may be of a workflow that embeds texts alone.
            header = store.header_of(live.probe.chunk_id) if live.probe.header_key else ""
            if header and header_key(header) != live.probe.header_key:
                # An earlier version has joined them otherwise; the next load brings its own probe.
                return
            text = text_to_embed(header, found[0].content, live.embedding)
            now = fitting[0].embed([text])[0]
            yield _compare_vectors(live.probe, now, live.workflow)


def _compare_vectors(probe: VectorProbe, now: np.ndarray, workflow: str) -> Finding:
    same = similarity(np.asarray(probe.vector), now)
    fact = f"the same text has a vector with cosine {same:.3f} to the one that was loaded"
    if same >= SAME_MODEL:
        return Finding("stores", "vectors", "ok", fact)
    action = (
        "the endpoint serves another model under the name: give models.embedding that name, then "
        f"'graphmill run {workflow} --re-embed'"
    )
    return Finding("stores", "vectors", "failed", fact, action)


QUESTION = "Who counted the ships?"
PASSAGES = (
    "A recipe for rye bread.",
    "The lighthouse keeper counted the ships.",
    "Income tax is due in May.",
)
ANSWER = 1


def examine_rerank(root: Path, settings: Settings, name: str) -> Iterator[Finding]:
    model = reranker(settings, name, root)
    assert model is not None
    model.preflight()
    started = time.perf_counter()
    heard = RecordedCalls()
    scores = model.rerank(QUESTION, PASSAGES, heard)
    seconds = time.perf_counter() - started
    fact = f"{len(PASSAGES)} texts in {seconds:.2g} s"
    others = [score for index, score in enumerate(scores) if index != ANSWER]
    if scores[ANSWER] > max(others):
        yield Finding("rerank", name, "ok", f"{fact}, the one that answers first")
    else:
        shown = ", ".join(f"{score:.3g}" for score in scores)
        action = "take another model: this one would put the wrong text units first"
        yield Finding(
            "rerank", name, "failed", f"{fact}; the one that answers is not first ({shown})", action
        )
    # Some rerankers never report tokens, and without a price none are needed.
    if any(usage.cost for usage in heard.usages):
        yield from heard.findings("rerank", name)
