"""Recall with and without MiniLM as a reranker, by set and mode, with intervals.

    python benchmarks/rerank.py vault company german
    python benchmarks/rerank.py vault --seeds 34 35 36 37
    python benchmarks/rerank.py 2wiki --folder FOLDER --last 600
    python benchmarks/rerank.py vault --project PROJECT

The sets are those of benchmarks/sets.py, and 2wiki and hotpotqa of benchmarks/questions.py, whose
published files are in FOLDER. The graphs are those of workflow `fast`, the embedding the builtin
one; no chat model is asked. `--project` names a project with the set, already loaded. `--last N`
asks the last N questions only; `--seeds` makes a set with each and counts all questions together.
`--output` writes the scores of each question as JSON lines.

Each question is searched once in each mode; MiniLM (extra `local`) then orders the first 20 text
units. `fused` is what graphmill does in FUSED_MODES, `alone` what it does with `order: alone`, here
over 20 text units. `fused, text only` leaves out the header before each text. Differences are
those to the order of the search, with 95 % intervals (paired bootstrap). The last column is CPU
seconds of MiniLM a question, where vectors of earlier questions are remembered.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from harness import command, print_table

from benchmarks.made_set import QUESTIONS_FILE, write_set
from benchmarks.questions import hotpotqa, two_wiki, write_benchmark
from benchmarks.sets import SEED, SETS, made_set
from pipeline.evaluation.compare import bootstrap_pairs
from pipeline.evaluation.evaluate import look_up_gold
from pipeline.evaluation.questions import (
    Kind,
    Question,
    compute_metrics,
    rank_gold,
    read_questions,
)
from pipeline.evaluation.questions import Passage as Found
from pipeline.models.here.minilm_rerank import MiniLMReranker
from pipeline.project import Project
from pipeline.query.search.reranking import FUSED_FIRST, rerank_chunks
from pipeline.query.search.versions import order_versions
from pipeline.settings.init import init_project
from pipeline.settings.query_fields import Mode
from pipeline.stores.postgres.embedded import stop_embedded
from pipeline.stores.records import Passage

PUBLISHED = ("2wiki", "hotpotqa")
MODES = ("naive", "mix", "graph")
KS = (1, 5, 10, 20)
SEARCH, FUSED, TEXT_ONLY, ALONE = "search", "fused", "fused, text only", "alone"


@dataclass
class Measured:
    """What was measured of a set: recall by mode and order, a list with each question's values.

    ``cpu_seconds``: of MiniLM, by mode. ``lines``: the scores of each question.
    """

    recall: dict[tuple[str, str], list[list[float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    cpu_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lines: list[dict[str, Any]] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", choices=[*SETS, *PUBLISHED], metavar="SET")
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--folder", type=Path, help="of the published files")
    parser.add_argument("--project", type=Path, help="one that is loaded with the set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[SEED], help="of a made set")
    parser.add_argument(
        "--last", type=int, default=0, help="the number of questions; all by default"
    )
    parser.add_argument("--output", type=Path, help="a folder for the scores")
    options = parser.parse_args()
    if options.project and (len(options.sets) > 1 or options.seeds != [SEED]):
        parser.error("--project: name one set, that of the project, and no --seeds")
    if not options.project and not options.folder and set(options.sets) & set(PUBLISHED):
        parser.error(f"{' and '.join(PUBLISHED)} need --folder")
    rows: list[dict[str, Any]] = []
    for name in options.sets:
        measured = Measured()
        for seed in options.seeds if name in SETS else [SEED]:
            with _loaded(name, options.project, options.folder, seed) as root:
                measure(measured, root, options.modes, options.last)
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(line) + "\n" for line in measured.lines]
            (options.output / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        rows += [{"set": name, **row} for row in summary(measured)]
    print_table(rows)


@contextmanager
def _loaded(name: str, project: Path | None, folder: Path | None, seed: int) -> Iterator[Path]:
    """Yield the folder of a loaded project with the set, in a temporary folder by default."""
    if project:
        yield project
        return
    with tempfile.TemporaryDirectory(prefix="graphmill-rerank-", ignore_cleanup_errors=True) as at:
        root = Path(at)
        init_project(root)
        if name in SETS:
            write_set(made_set(name, seed), root)
        else:
            assert folder
            write_benchmark(two_wiki(folder) if name == "2wiki" else hotpotqa(folder), root)
        try:
            command(root, "run", "fast")
            yield root
        finally:
            stop_embedded(root / "data" / "postgres")


def measure(measured: Measured, root: Path, modes: Sequence[Mode], last: int = 0) -> None:
    """Ask the questions of a loaded project in each mode; add to ``measured`` what is found."""
    reranker = MiniLMReranker()
    with Project.open(root) as project:
        read = read_questions(root / QUESTIONS_FILE, by="type")
        gold = look_up_gold(read[-last:], project.stores.vectors)
        for mode in modes:
            for question in gold.known:
                passages = search(project, question.text, mode)
                orders = _order(question, passages, reranker, mode, measured)
                wanted: list[tuple[Kind, frozenset[str]]] = [
                    (name.kind, gold.targets[name]) for name in question.gold
                ]
                for order, chunks in orders.items():
                    shown = order_versions(chunks, question.text, project.settings.query.prefer)
                    found = [Found(chunk.id, chunk.document_id) for chunk in shown]
                    metrics = compute_metrics(rank_gold(wanted, found), KS)
                    measured.recall[mode, order].append([metrics[f"recall@{k}"] for k in KS])
                measured.lines[-1]["gold"] = [(kind, sorted(ids)) for kind, ids in wanted]


def search(project: Project, question: str, mode: Mode) -> list[Passage]:
    """Return the first text units that a mode finds, in its order.

    The question itself is both kinds of keywords, as in `graphmill eval`.
    """
    found = project.query_data(
        question,
        mode=mode,
        chunk_top_k=FUSED_FIRST,
        hl_keywords=(question,),
        ll_keywords=(question,),
        enable_rerank=False,
        max_total_tokens=100_000,
        only_need_context=True,
    )
    ids = [chunk["id"] for chunk in found["chunks"]]
    [vector] = project.query_resources("evaluate").embedding.embed([question])
    with project.stores.vectors.reading() as vectors:
        return vectors.chunks(ids, vector)


def _order(
    question: Question,
    passages: Sequence[Passage],
    reranker: MiniLMReranker,
    mode: str,
    measured: Measured,
) -> dict[str, Sequence[Passage]]:
    """Return the passages in each order; record scores and CPU time in ``measured``."""
    bare = {chunk.id: replace(chunk, header="", title="", heading="") for chunk in passages}
    begun = time.process_time()
    fused, _ = rerank_chunks(passages, question.text, reranker, fused=True)
    measured.cpu_seconds[mode] += time.process_time() - begun
    alone, _ = rerank_chunks(passages, question.text, reranker)
    text_only, _ = rerank_chunks(list(bare.values()), question.text, reranker, fused=True)
    text_scores = {chunk.id: chunk.rerank_score for chunk in text_only}
    scores = {chunk.id: chunk.rerank_score for chunk in fused}
    by_id = {chunk.id: chunk for chunk in passages}
    measured.lines.append(
        {
            "id": question.id,
            "type": question.type,
            "mode": mode,
            "chunks": [(chunk.id, chunk.document_id) for chunk in passages],
            "scores": [scores[chunk.id] for chunk in passages],
            "text_scores": [text_scores[chunk.id] for chunk in passages],
        }
    )
    in_text_order = [by_id[chunk.id] for chunk in text_only]
    return {SEARCH: passages, FUSED: fused, TEXT_ONLY: in_text_order, ALONE: alone}


def summary(measured: Measured) -> Iterator[dict[str, Any]]:
    """Yield a row for each mode and order: recall of the search, or the difference to it."""
    for (mode, order), values in measured.recall.items():
        row: dict[str, Any] = {"questions": len(values), "mode": mode, "order": order}
        recall = np.array(values)
        if order == SEARCH:
            means = recall.mean(axis=0)
            row |= {f"@{k}": f"{mean:.3f}" for k, mean in zip(KS, means, strict=True)}
        else:
            differences = 100 * (recall - np.array(measured.recall[mode, SEARCH]))
            intervals = bootstrap_pairs(differences)
            for k, found in zip(KS, intervals, strict=True):
                row[f"@{k}"] = f"{found.difference:+.1f} ({found.low:.1f} to {found.high:.1f})"
        is_measured = order == FUSED
        cpu_seconds = measured.cpu_seconds[mode] / len(values)
        row["CPU s"] = f"{cpu_seconds:.2f}" if is_measured else ""
        yield row


if __name__ == "__main__":
    main()
