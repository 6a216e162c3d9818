"""Measure the search for titles that begin alike, as those of invoices do, beside other titles.

    python benchmarks/titles.py --documents 100000

The figures are CPU seconds of ``extract_graph_fast`` over text units of one sentence. Each names
the document before it.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Mapping

import pandas as pd
from harness import print_table

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import TEXT_UNITS
from pipeline.verbs.extract_graph_fast import extract_graph_fast

_SYLLABLES = (
    "bar cal dor fen gar hal jor kel lor mar nor pel quin ros sel tor ver wen yor zan".split()
)
_CHARACTERS = "山水风雨春秋江河湖海林石云月星辰松竹梅兰"


def _word(number: int, parts: str | list[str] = _SYLLABLES) -> str:
    return "".join(parts[number // 20**place % 20] for place in range(4)).capitalize()


TITLES: Mapping[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "latin": (lambda number: f"Invoice {number:06} ACME Corp",
        lambda number: f"{_word(number)} {number:06} ACME Corp"),
    "chinese": (
        lambda number: f"会议{_word(number, _CHARACTERS)}记录",
        lambda number: f"{_word(number, _CHARACTERS)}会议记录"
    ),
}  # fmt: skip
"""Titles that begin alike, and those that do not."""
SENTENCES = {
    "latin": "It answers {} of that year and was paid in full.",
    "chinese": "这一年收到了{}并且全部付清。",
}


def seconds(script: str, title: Callable[[int], str], count: int) -> float:
    ids = [f"doc-{number:06}" for number in range(count)]
    texts = [SENTENCES[script].format(title(number - 1)) for number in range(count)]
    units = TEXT_UNITS.frame(
        [(f"chunk-{id}", text, 0, id, 0, len(text), 0) for id, text in zip(ids, texts, strict=True)]
    )
    documents = pd.DataFrame({"id": ids, "title": list(map(title, range(count)))})
    known = REGISTRY.verbs["extract_graph_fast"].inputs["documents"].columns
    documents = documents.assign(**({"title_from": "given"} if "title_from" in known else {}))
    gc.collect()
    started = time.process_time()
    extract_graph_fast(units, documents)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 2_000, 4_000])
    parser.add_argument("--script", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = []
    for script in options.script:
        seconds(script, TITLES[script][0], 10)  # patterns and dictionaries are made at first use
        for count in options.documents:
            alike, unlike = (seconds(script, title, count) for title in TITLES[script])
            rows.append(
                {
                    "script": script, "documents": count, "alike, CPU s": round(alike, 2),
                    "unlike, CPU s": round(unlike, 2), "ratio": round(alike / unlike, 2),
                }
            )  # fmt: skip
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
