"""Retrieval over the bundled corpus is not worse than the baseline of ``make baseline``."""

from pathlib import Path

import pytest

from pipeline.evaluation.compare import describe_falls
from pipeline.evaluation.results import MODES, read_evaluation
from tests.evaluation.sample import (
    BASELINES,
    EVERY,
    METRIC,
    POINTS,
    QUESTIONS,
    figures,
    measured,
    sample_project,
)
from tests.projects import ProjectFolder
from tests.sizes import size

FEW_TOKENS = "query.max_total_tokens=4000"
"""Room for a few passages of a prompt: the rest of what was retrieved is cut off."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    return sample_project(tmp_path_factory.mktemp("evaluation") / "sample", postgres_url)


def test_no_mode_is_worse_than_the_baseline(sample: ProjectFolder):
    evaluation = measured(sample)
    baseline = read_evaluation(BASELINES[EVERY]).modes
    assert not evaluation.left_out
    assert len(evaluation.questions) == size(13, 50)
    assert set(baseline) == set(MODES), "a mode is new or gone: make baseline"
    assert describe_falls(baseline, figures(evaluation), METRIC, POINTS) == []


def test_a_small_prompt_shows_the_passages_that_a_large_one_shows_first(sample: ProjectFolder):
    """A fourth of the questions is used, so a single question is 8 points."""
    caps = ("query.max_entity_tokens=6000", "query.max_relation_tokens=8000")
    modes = size(["hybrid", "graph"], [*MODES])
    large, small, few = (
        figures(
            measured(
                sample, *caps, f"query.max_total_tokens={tokens}", modes=modes, every=size(4, 1)
            )
        )
        for tokens in (30_000, 8_000, 4_000)
    )
    for mode in modes:
        assert small[mode]["recall@5"] >= 0.9 * large[mode]["recall@5"] > 0, mode
        assert (
            few[mode]["recall@5"]
            >= (0.9 if mode in ("naive", "graph") else 0.8) * large[mode]["recall@5"]
        ), mode


def test_a_question_that_refers_to_the_one_before_finds_what_it_is_about(sample: ProjectFolder):
    first, then = "Who was Benet Luthe?", "And when did he die?"
    history = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "A man of the island."},
    ]

    with sample.open() as project:

        def mentions(mode: str, **options: object) -> int:
            found = project.query_data(then, mode=mode, max_total_tokens=4_000, **options)
            return sum(chunk["content"].count("Luthe") for chunk in found["chunks"])

        for mode in ("naive", "hybrid", "graph"):
            assert mentions(mode, conversation_history=history) > mentions(mode), mode


def test_a_mode_that_is_made_worse_is_seen(sample: ProjectFolder):
    worse = measured(sample, FEW_TOKENS, modes=["naive"])
    assert worse.results["cut"].mean() > 1
    baseline = {"naive": read_evaluation(BASELINES[EVERY]).modes["naive"]}
    said = describe_falls(baseline, figures(worse), METRIC, POINTS)
    assert len(said) == 1
    assert "naive: recall@10 fell from 0." in said[0]


def test_the_command_fails_where_a_mode_is_worse(sample: ProjectFolder, tmp_path: Path):
    before, questions = tmp_path / "before.json", tmp_path / "questions.jsonl"
    questions.write_bytes(b"\n".join(QUESTIONS.read_bytes().splitlines()[25:33]))
    asked = ["eval", str(questions), "--modes", "naive", "--k", "10"]
    assert sample.invoke(*asked, "--output", str(before)).exit_code == 0
    assert sample.invoke(*asked, "--baseline", str(before)).exit_code == 0
    now = sample.invoke(*asked, "--baseline", str(before), "--set", FEW_TOKENS, "--json")
    assert now.exit_code == 1
    assert "graphmill: eval: naive: recall@10 fell from" in now.stderr
    assert now.json["modes"]["naive"]["cut"] > 1
