"""The bundled corpus with its questions, and the figures of retrieval that must not fall.

``python -m tests.evaluation.sample`` (make baseline) writes the figures again.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pipeline.evaluation.results import MODES, Evaluation, stored
from pipeline.stores.postgres.embedded import start_embedded
from tests.projects import ProjectFolder, new_project
from tests.servers.postgres_server import server_folder
from tests.sizes import size

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "data" / "questions.jsonl"
EVERY = size(4, 1)
"""Which of the questions are asked: every fourth, or under GRAPHMILL_FULL=1 all of them."""
BASELINES = {
    every: Path(__file__).parent / name
    for every, name in ((1, "baseline.json"), (4, "baseline_few.json"))
}
METRIC, POINTS = "recall@10", 2.0
WIDE = ("query.top_k=60", "query.chunk_top_k=20")
"""So much every mode but `graph` needs for its best."""
QUICK = ("query.max_entity_tokens=500", "query.max_relation_tokens=500")
"""Passages are what is measured: what else a prompt holds is left small, which takes half of the
time."""


def sample_project(root: Path, postgres_url: str) -> ProjectFolder:
    """Return a project with the bundled corpus, loaded by the workflow ``fast``."""
    corpus = ROOT / "data" / "input"
    documents = {
        path.relative_to(corpus).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(corpus.rglob("*"))
        if path.is_file()
    }
    project = new_project(root, postgres_url, documents)
    with project.open() as opened:
        assert opened.run("fast").outcome == "completed"
    return project


def measured(
    project: ProjectFolder, *overrides: str, modes: Sequence[str] = MODES, every: int = EVERY
) -> Evaluation:
    asked = project.root / "questions.jsonl"
    asked.write_bytes(b"\n".join(QUESTIONS.read_bytes().splitlines()[::every]))
    with project.open(*WIDE, *QUICK, *overrides) as opened:
        return opened.evaluate(asked, modes, by="hops")


def figures(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """Return means by mode, as in the JSON of an evaluation."""
    return {mode: dict(values) for mode, values in stored("", evaluation.to_json()).modes.items()}


def write_baseline() -> None:
    with server_folder() as folder, tempfile.TemporaryDirectory() as root:
        project = sample_project(Path(root) / "sample", start_embedded(folder))
        for every, baseline in BASELINES.items():
            recall = {
                mode: {name: value for name, value in values.items() if "@" in name}
                for mode, values in figures(measured(project, every=every)).items()
            }
            written = json.dumps({"format": 1, "modes": recall, "questions": []}, indent=1)
            baseline.write_text(written + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_baseline()
