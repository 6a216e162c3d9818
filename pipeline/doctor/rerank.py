"""A reranker: that it works, that it prefers what answers a question, and how fast it is."""

import time
from collections.abc import Iterator

from pipeline.adapters import reranker
from pipeline.doctor.finding import Finding
from pipeline.settings import Settings

QUESTION = "Who counted the ships?"
TEXTS = ("A recipe for rye bread.", "The lighthouse keeper counted the ships.", "Income tax is due in May.")
ANSWER = 1


def examine_rerank(settings: Settings, name: str) -> Iterator[Finding]:
    model = reranker(settings, name)
    assert model is not None
    model.preflight()
    started = time.perf_counter()
    scores = model.rerank(QUESTION, TEXTS)
    seconds = time.perf_counter() - started
    fact = f"{len(TEXTS)} texts in {seconds:.2g} s"
    if scores[ANSWER] > max(score for index, score in enumerate(scores) if index != ANSWER):
        yield Finding("rerank", name, "ok", f"{fact}, the one that answers first")
    else:
        shown = ", ".join(f"{score:.3g}" for score in scores)
        action = "take another model: this one would put the wrong text units first"
        yield Finding("rerank", name, "failed", f"{fact}; the one that answers is not first ({shown})", action)
