"""Recall of passages with a graph that no model made: every mode of graphmill, beside plain BM25 and dense search.

    python benchmarks/retrieval.py FOLDER            # 2WikiMultiHopQA or HotpotQA; see benchmarks/passages.py
    python benchmarks/retrieval.py FOLDER --head 101 780    # the first 101 questions over the first 780 passages

Builds a `fast` project of the passages in a temporary folder (or in --project, kept and used again), then asks.
recall@k is the share of a question's gold passages in the first k, averaged; all@8 the share of questions with all of
theirs in the first 8.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from benchmarks.passages import Passages, read_passages  # noqa: E402
from pipeline.init import init_project  # noqa: E402
from pipeline.models.builtin import BuiltinEmbedding  # noqa: E402
from pipeline.project import Project  # noqa: E402
from pipeline.stores.bm25 import bm25_scores, word_weight  # noqa: E402
from pipeline.stores.embedded import stop_embedded  # noqa: E402
from pipeline.words import words  # noqa: E402

CUTS, ALL_CUT, READ = (2, 5, 10, 20), 8, 40
MODES = ("naive", "local", "global", "hybrid", "mix", "graph")
Ranker = Callable[[str], Sequence[str]]


def main() -> None:
    options = _options()
    passages = read_passages(options.folder)
    if options.head:
        passages = passages.head(*options.head)
    for shown in (passages, passages.without_titles()) if options.stripped else (passages,):
        print(f"\n{shown.name}: {len(shown.questions)} questions, {len(shown.passages)} passages")
        print("| ranking | " + " | ".join(f"recall@{cut}" for cut in CUTS) + f" | all@{ALL_CUT} | p50 ms | p95 ms |")
        print("|---" * (len(CUTS) + 4) + "|", flush=True)
        for name, ranker in _plain(shown).items():
            if name in options.rankings:
                _report(name, ranker, shown)
        root = options.project and options.project / ("stripped" if shown is not passages else "titled")
        with _project(shown, root, options.set) as project:
            for mode in MODES:
                if mode in options.rankings:
                    _report(mode, _mode(project, mode, shown), shown)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head", type=int, nargs=2, metavar=("QUESTIONS", "PASSAGES"))
    parser.add_argument("--stripped", action="store_true", help="once more, with titles stripped from the passages")
    parser.add_argument("--rankings", nargs="*", default=["bm25", "dense", *MODES])
    parser.add_argument("--project", type=Path, help="a folder to keep the projects in")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the projects")
    return parser.parse_args()


def _report(name: str, ranker: Ranker, passages: Passages) -> None:
    recall, whole, taken = dict.fromkeys(CUTS, 0.0), 0, []
    for question in passages.questions:
        started = time.perf_counter()
        ranked = list(ranker(question.text))
        taken.append(1000 * (time.perf_counter() - started))
        gold = set(question.gold)
        for cut in CUTS:
            recall[cut] += len(gold & set(ranked[:cut])) / len(gold)
        whole += gold <= set(ranked[:ALL_CUT])
    asked = len(passages.questions)
    shares = [*(recall[cut] / asked for cut in CUTS), whole / asked]
    times = [f"{np.percentile(taken, share):.0f}" for share in (50, 95)]
    print("| " + " | ".join([name, *(f"{100 * share:.1f}" for share in shares), *times]) + " |", flush=True)


def _plain(passages: Passages) -> dict[str, Ranker]:
    """BM25 and dense search over the very texts that the project is built of, without any store."""
    ids = [passage.id for passage in passages.passages]
    texts = [f"{passage.title}\n{passage.text}" for passage in passages.passages]
    found = [set(words(text)) for text in texts]
    length = float(np.mean([len(words(text)) for text in texts]))
    embedding = BuiltinEmbedding()
    matrix = embedding.embed(texts)

    def bm25(question: str) -> list[str]:
        asked = dict.fromkeys(words(question))
        weights = {word: word_weight(len(texts), sum(word in text for text in found)) for word in asked}
        near = [place for place, text in enumerate(found) if not text.isdisjoint(weights)]
        scores = bm25_scores([texts[place] for place in near], weights, length)
        return [ids[near[place]] for place in np.argsort(-scores, kind="stable")[:READ]]

    def dense(question: str) -> list[str]:
        scores = matrix @ embedding.embed([question])[0]
        return [ids[place] for place in np.argsort(-scores, kind="stable")[:READ]]

    return {"bm25": bm25, "dense": dense}


def _mode(project: Project, mode: str, passages: Passages) -> Ranker:
    """The passages of the chunks that a query of the mode would show; a passage of several chunks counts once."""

    def rank(question: str) -> list[str]:
        data = project.query_data(question, mode=mode, chunk_top_k=READ, max_total_tokens=1_000_000)
        places = dict.fromkeys(passages.place(chunk["source"]) for chunk in data["chunks"])
        return [passages.passages[place].id for place in places]

    return rank


@contextmanager
def _project(passages: Passages, root: Path | None, overrides: Sequence[str]) -> Iterator[Project]:
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-", ignore_cleanup_errors=True) as temporary:
        folder = root or Path(temporary) / "project"
        if not (folder / "settings.yaml").exists():
            init_project(folder)
        passages.write(folder / "data" / "input" / "passages.jsonl")
        with Project.open(folder, overrides) as project:
            project.run("fast")
            yield project
        if root is None:
            stop_embedded(folder / "data" / "postgres")


if __name__ == "__main__":
    main()
