"""Recall of passages by mode and by type of question, with bootstrap intervals; and what changed.

    python benchmarks/recall.py vault company german chinese --output BEFORE
    python benchmarks/recall.py --compare BEFORE AFTER

The sets are those of benchmarks/sets.py, the graphs those of workflow `fast`, the embedding the
builtin one, or with `--embedding` a model of `provider: local`, such as `use-multilingual`; no chat
model is asked. `bm25` is plain BM25 over file name and text of whole files.
BEFORE/NAME.json is what `graphmill eval --output` writes, with that mode. `--compare` pairs the
questions of the files of one name in two folders; it lists what was lost and gained. `--json`
prints JSON.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from harness import command, print_table

from benchmarks.bm25 import rankings
from benchmarks.made_set import QUESTIONS_FILE, UNANSWERABLE_FILE, read_lines, write_set
from benchmarks.sets import SEED, SETS, made_set
from pipeline.evaluation.compare import bootstrap_pairs
from pipeline.evaluation.questions import Passage, compute_metrics, rank_gold
from pipeline.project import Project
from pipeline.settings.init import init_project
from pipeline.stores.postgres.embedded import stop_embedded

MODES = ("naive", "local", "hybrid", "mix", "graph")
KS = (1, 2, 5, 10, 20)
SHOWN = (1, 5, 10)
"""The k of the tables; a comparison looks at all KS."""
VERSION_FIRST = "version_first"
"""1 where the gold document ranks before all other versions of it."""
ABSENT = "no passage"
"""Words of a note that says what no passage has."""
ALL = "all"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], metavar="SET", help=", ".join(SETS))
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--embedding", default="", help="the name of a local embedding model")
    parser.add_argument("--seed", type=int, default=SEED, help="another makes other questions")
    parser.add_argument("--output", type=Path, help="a folder for the JSON of each set")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.compare:
        rows = _compared(*options.compare)
    else:
        rows = []
        for name in options.sets or SETS:
            evaluation = evaluate_set(name, options.modes, options.embedding, options.seed)
            if options.output:
                options.output.mkdir(parents=True, exist_ok=True)
                _write_json(options.output / f"{name}.json", evaluation)
            rows += [{"set": name, **row} for row in summary(evaluation)]
            noted = {file: len(questions) for file, questions in evaluation["absence"].items()}
            print(f"{name}: questions with a note on an absent word: {noted}", file=sys.stderr)
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


def evaluate_set(
    name: str, modes: Sequence[str] = MODES, embedding: str = "", seed: int = SEED
) -> dict[str, Any]:
    """Build a project of the set in a temporary folder; return its evaluation, with BM25.

    ``embedding``: the name of a local embedding model, or "" for the builtin one.
    """
    with tempfile.TemporaryDirectory(prefix="graphmill-recall-", ignore_cleanup_errors=True) as at:
        root = Path(at)
        made = made_set(name, seed)
        init_project(root)
        write_set(made, root)
        if embedding:
            _choose_embedding(root / "settings.yaml", embedding)
        try:
            command(root, "run", "fast")
            output = root / "evaluation.json"
            ks = ",".join(str(k) for k in KS)
            chosen = ["--modes", ",".join(modes), "--k", ks, "--output", str(output)]
            command(root, "eval", str(root / QUESTIONS_FILE), *chosen)
            evaluation = json.loads(output.read_text(encoding="utf-8"))
            evaluation["absence"] = _absence(root)
        finally:
            stop_embedded(root / "data" / "postgres")
        questions = {line["id"]: line for line in read_lines(root / QUESTIONS_FILE)}
    texts = {file.source: f"{Path(file.source).stem}\n{file.text}" for file in made.files}
    add_bm25(evaluation, texts, questions)
    add_versions(evaluation, questions)
    return evaluation


def _choose_embedding(path: Path, model: str) -> None:
    """Write a local embedding model into the settings of a new project."""
    settings = path.read_text(encoding="utf-8")
    builtin = "provider: builtin "
    if builtin not in settings:
        raise SystemExit(f"{path}: no '{builtin}' to replace; see how init writes settings.yaml")
    local = f"model: {model}\n      provider: local "
    path.write_text(settings.replace(builtin, local, 1), encoding="utf-8")


def _absence(root: Path) -> dict[str, list[str]]:
    """Return the questions of which a note says that no passage has one of their words.

    Of the questions that no document answers each should have such a note, of the others none.
    """
    noted: dict[str, list[str]] = {}
    with Project.open(root) as project:
        for file in (QUESTIONS_FILE, UNANSWERABLE_FILE):
            noted[file] = []
            for line in read_lines(root / file):
                notes = project.query_data(line["question"], mode="graph").get("notes", [])
                if any(ABSENT in note for note in notes):
                    noted[file].append(line["question"])
    return noted


def add_bm25(
    evaluation: dict[str, Any],
    texts: Mapping[str, str],
    questions: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add the mode `bm25`, whose passages are whole files, to each question."""
    sources = list(texts)
    asked = evaluation["questions"]
    ranked = rankings(list(texts.values()), [entry["question"] for entry in asked])
    for entry, places in zip(asked, ranked, strict=True):
        found = [sources[place] for place in places]
        entry["modes"]["bm25"] = measured(found, questions[entry["id"]]["documents"])
    evaluation["passages"] |= {source: {"source": source} for source in sources}
    evaluation["modes"]["bm25"] = {}


def measured(found: Sequence[str], documents: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of a ranking of files, and the ranking."""
    gold = [("document", frozenset({source})) for source in documents]
    ranks = rank_gold(gold, [Passage(source, source) for source in found])
    return {**compute_metrics(ranks, KS), "chunks": list(found)}


def add_versions(evaluation: dict[str, Any], questions: Mapping[str, Mapping[str, Any]]) -> None:
    """Say of each question about a version whether the right one is found before the others."""
    for entry in evaluation["questions"]:
        line = questions[entry["id"]]
        if "versions" not in line:
            continue
        family = {*line["documents"], *line["versions"]}
        for values in entry["modes"].values():
            found = [evaluation["passages"][id]["source"] for id in values["chunks"]]
            first = next((source for source in found if source in family), None)
            values[VERSION_FIRST] = 1.0 if first in line["documents"] else 0.0


def summary(evaluation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each type of question and mode: recall and its 95 % interval at each k."""
    for type in (ALL, *sorted({entry["type"] for entry in evaluation["questions"]})):
        entries = [entry for entry in evaluation["questions"] if type in (ALL, entry["type"])]
        for mode in evaluation["modes"]:
            row: dict[str, Any] = {"type": type, "questions": len(entries), "mode": mode}
            for k in SHOWN:
                values = [entry["modes"][mode][f"recall@{k}"] for entry in entries]
                row[f"@{k}"] = _with_interval(values)
            versions = [
                entry["modes"][mode][VERSION_FIRST]
                for entry in entries
                if VERSION_FIRST in entry["modes"][mode]
            ]
            row["right version first"] = _with_interval(versions) if versions else ""
            yield row


def _with_interval(values: Sequence[float]) -> str:
    interval = bootstrap_pairs(np.array(values)[:, None])[0]
    return f"{interval.difference:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _compared(before: Path, after: Path) -> list[dict[str, Any]]:
    """Return a row for each set, mode and k of the files that both folders have."""
    rows: list[dict[str, Any]] = []
    for path in sorted(before.glob("*.json")):
        other = after / path.name
        if not other.exists():
            continue
        pair = [json.loads(file.read_text(encoding="utf-8")) for file in (path, other)]
        rows += [{"set": path.stem, **row} for row in differences(*pair)]
    return rows


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each mode and metric.

    ``questions lost`` is how many questions' recall the loss comes to: the sum of differences.
    """
    then = {(entry["id"], entry["question"]): entry for entry in before["questions"]}
    pairs = [
        (then[key], entry)
        for entry in after["questions"]
        if (key := (entry["id"], entry["question"])) in then
    ]
    for mode in after["modes"]:
        if mode not in before["modes"]:
            continue
        for metric in (*(f"recall@{k}" for k in KS), VERSION_FIRST):
            values = [
                (old["modes"][mode][metric], new["modes"][mode][metric], new["id"])
                for old, new in pairs
                if metric in old["modes"][mode] and metric in new["modes"][mode]
            ]
            if values:
                yield {"mode": mode, "metric": metric, **_difference(values)}


def _difference(values: Sequence[tuple[float, float, str]]) -> dict[str, Any]:
    changes = np.array([new - old for old, new, _ in values])
    interval = bootstrap_pairs(changes[:, None])[0]
    worse = [id for old, new, id in values if new < old]
    return {
        "questions": len(values),
        "before": float(np.mean([old for old, _, _ in values])),
        "after": float(np.mean([new for _, new, _ in values])),
        "difference": f"{interval.difference:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})",
        "questions lost": float(-changes.sum()),
        "worse": len(worse),
        "better": int((changes > 0).sum()),
        "which are worse": " ".join(worse[:8]),
    }


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
