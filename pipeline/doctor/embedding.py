"""An embedding model: that it answers, with what vectors, and how fast."""

import time
from collections.abc import Iterator

import numpy as np

from pipeline.adapters import embedding_model
from pipeline.doctor.finding import Finding
from pipeline.models.cache import NO_CACHE
from pipeline.settings import Settings
from pipeline.stores.tables import HALFVEC_LIMIT

TEXTS = ("The lighthouse keeper counted the ships.", "A recipe for rye bread.", "灯塔在北方。")


def examine_embedding(settings: Settings, name: str) -> Iterator[Finding]:
    model = embedding_model(settings, name, NO_CACHE)
    model.preflight()
    started = time.perf_counter()
    vectors = model.embed(TEXTS)
    seconds = time.perf_counter() - started
    dimensions = vectors.shape[1]
    fact = f"{dimensions} dimensions, {len(TEXTS)} texts in {seconds:.2g} s"
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(vectors).all() or not np.allclose(lengths, 1, atol=1e-3):
        shown = ", ".join(f"{length:.3g}" for length in lengths)
        action = "take another model: search compares directions"
        yield Finding("embedding", name, "failed", f"{fact}; vectors of length {shown} instead of 1", action)
    elif np.allclose(vectors, vectors[0], atol=1e-3):
        yield Finding("embedding", name, "failed", f"{fact}; different texts, equal vectors", "take another model")
    elif dimensions > HALFVEC_LIMIT:
        fact = f"{fact}; pgvector indexes up to {HALFVEC_LIMIT:,}: every search compares all vectors"
        yield Finding("embedding", name, "warning", fact, "set 'dimensions' lower, where the model allows it")
    else:
        yield Finding("embedding", name, "ok", f"{fact}, length 1")
