"""A long step says how far it is, and what it says changes nothing."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.cli.progress import counting
from pipeline.contract.registry import Registry, Tracker, registering_in, verb
from pipeline.contract.schemas import DOCUMENTS, TEXT_UNITS, TEXTS
from pipeline.engine.usage.run_budget import Meter, MeteredEmbedding
from pipeline.models.here.builtin import TEXTS_AT_ONCE, BuiltinEmbedding
from pipeline.verbs.extract_graph_fast import FastParams, extract_graph_fast
from pipeline.verbs.merge_graphs import MergeParams, merge_graphs
from tests.projects import new_project

UNITS = TEXT_UNITS.frame(
    [
        (f"u{n}", text, 0, "d", 0, 0, n)
        for n, text in enumerate(["Mira Vale met Otto Tarn.", "Otto Tarn left.", ""])
    ]
)
DOCUMENT = DOCUMENTS.frame([("d", "Tessing", "", "", "{}", "")])


@dataclass
class Ticks:
    said: list[tuple[int, int]] = field(default_factory=list)

    @property
    def meter(self) -> Meter:
        return Meter("a step", lambda done, expected: self.said.append((done, expected)))


def test_extraction_without_a_model_counts_text_units():
    ticks = Ticks()
    told = extract_graph_fast(UNITS, DOCUMENT, FastParams(), ticks.meter)
    assert ticks.said == [(0, 3), (1, 3), (2, 3), (3, 3)]
    pd.testing.assert_frame_equal(told, extract_graph_fast(UNITS, DOCUMENT))


def test_merging_counts_the_text_units_that_it_reads():
    ticks = Ticks()
    records = extract_graph_fast(UNITS, DOCUMENT)
    told = merge_graphs(records, UNITS, MergeParams(), ticks.meter)
    assert ticks.said == [(0, 3), (1, 3), (2, 3), (3, 3)]
    for one, other in zip(told, merge_graphs(records, UNITS), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_the_builtin_embedding_counts_texts_as_it_goes():
    ticks = Ticks()
    texts = ["", *(f"text {n}" for n in range(TEXTS_AT_ONCE + 1))]
    vectors = MeteredEmbedding(BuiltinEmbedding(), ticks.meter).embed(texts)
    size = len(texts)
    assert ticks.said == [(0, size), (TEXTS_AT_ONCE, size), (size - 1, size), (size, size)]
    assert np.array_equal(vectors, BuiltinEmbedding().embed(texts))


def test_a_run_tells_how_far_its_long_steps_are(tmp_path: Path, postgres_url: str):
    told: list[dict[str, Any]] = []
    with new_project(tmp_path / "p", postgres_url).open() as project:
        project.index("fast", on_event=told.append)
        texts = len(project.table("text_units", "fast"))
        steps = project.snapshots.manifest("fast").steps.values()
        assert all(
            "tracker" not in str(record.components) for record in steps
        )  # no part of a fingerprint
        assert {step.action for step in project.index("fast").steps} == {"reused"}
    last = {
        event["step"]: (event["done"], event["expected"])
        for event in told
        if event["event"] == "step_advanced"
    }
    assert last["extract_graph_fast"] == (texts, texts)
    assert last["merge_graphs"] == (texts, texts)


def test_a_tracker_is_bound_in_a_run_and_silent_elsewhere():
    registry = Registry()
    with registering_in(registry):

        @verb(inputs={"texts": TEXTS}, outputs={"texts": TEXTS})
        def copy_texts(texts: pd.DataFrame, tracker: Tracker) -> pd.DataFrame:
            tracker.expect(len(texts))
            tracker.finished(len(texts))
            return texts

    ticks, texts = Ticks(), TEXTS.frame([("a", "b")])
    copying = registry.verbs["copy_texts"]
    copying.call({"texts": texts}, {"tracker": ticks.meter})
    assert ticks.said == [(0, 1), (1, 1)]
    assert copying.call({"texts": texts}, {})["texts"].equals(texts)


def test_verify_gc_and_export_count(tmp_path: Path, postgres_url: str):
    told: list[tuple[str, int, int]] = []

    def advanced(part: str, done: int, expected: int) -> None:
        told.append((part, done, expected))

    def last() -> dict[str, tuple[int, int]]:
        ends = {part: (done, expected) for part, done, expected in told}
        told.clear()
        return ends

    folder = new_project(tmp_path / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
        assert project.verify(advanced=advanced).agrees
        verified = last()
        rows = {name: len(project.table(name)) for name in ("entities", "relationships")}
        assert verified["postgres nodes"] == (rows["entities"], rows["entities"])
        assert all(done == expected for done, expected in verified.values())
        exported = project.export("csv", tmp_path / "csv", advanced=advanced).files
        assert last()["entities"] == (rows["entities"], rows["entities"])
        assert exported["nodes.csv"] == rows["entities"]
        (folder.root / "data/input/more.txt").write_text("Mira Vale met Otto Tarn in Tessing.")
        project.index("fast")
        report = project.gc(1, dry_run=False, advanced=advanced)
        files = report.total.files + sum(map(len, report.manifests.values()))
        assert last() == {"files": (files, files)}
        assert files > 0
        project.gc(1, advanced=advanced)
        assert not told


def test_a_command_has_a_bar_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with counting("verify") as advanced:
        advanced("postgres nodes", 5, 10)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with counting("verify") as advanced:
        advanced("postgres nodes", 5, 10)
    shown = capsys.readouterr()
    assert "verify postgres nodes" in shown.err
    assert "5/10" in shown.err
    assert shown.out == ""
