"""Recall of plain BM25 over the passages of a published benchmark, in memory, as `graphmill eval`
counts it.

    python benchmarks/questions.py 2wiki FOLDER PROJECT && python benchmarks/bm25.py PROJECT

`graphmill eval` has dense search as mode `naive`; BM25 alone is none of its modes.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from harness import print_table

from benchmarks.questions import PASSAGES
from pipeline.evaluation.questions import Passage, compute_metrics, rank_gold
from pipeline.stores.postgres.lexical import bm25_scores, word_weight
from pipeline.text.ids import words

KS = (1, 2, 5, 8, 10, 20)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path, help="that benchmarks/questions.py has filled")
    project = parser.parse_args().project
    passages = list(_lines(project / "data" / "input" / PASSAGES))
    lines = _lines(project / "questions.jsonl")
    questions = [line for line in lines if line.get("answerable", True)]
    ranked = rankings([line["text"] for line in passages], [line["question"] for line in questions])
    found = [
        compute_metrics(
            rank_gold(_gold(question), [_passage(passages[place]) for place in ranking]), KS
        )
        for question, ranking in zip(questions, ranked, strict=True)
    ]
    print_table(
        [{name: round(100 * float(np.mean([one[name] for one in found])), 1) for name in found[0]}]
    )


def rankings(texts: Sequence[str], questions: Sequence[str]) -> Iterator[list[int]]:
    """Yield for each question the positions of the best texts."""
    split = [words(text) for text in texts]
    found = [frozenset(text) for text in split]
    length = float(np.mean([len(text) for text in split]))
    for question in questions:
        asked = dict.fromkeys(words(question))
        weights: dict[str, float] = {}
        for word in asked:
            n_texts_with_word = sum(1 for text in found if word in text)
            weights[word] = word_weight(len(texts), n_texts_with_word)
        near = [place for place, text in enumerate(found) if not text.isdisjoint(weights)]
        scores = bm25_scores([texts[place] for place in near], weights, length)
        yield [near[place] for place in np.argsort(-scores, kind="stable")[: max(KS)]]


def _gold(question: dict[str, Any]) -> list[tuple[Any, frozenset[str]]]:
    return [("document", frozenset({source})) for source in question["documents"]]


def _passage(line: dict[str, Any]) -> Passage:
    source = f"{PASSAGES}#{line['id']}"
    return Passage(source, source)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
