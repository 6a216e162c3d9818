import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.evaluation.compare import bootstrap_pairs, compare, describe_falls, format_comparison
from pipeline.evaluation.results import StoredEvaluation, read_evaluation


def stored(name: str, **modes: list[float]) -> StoredEvaluation:
    """Return an evaluation with recall@5 of questions 0, 1, ... by mode."""
    rows = {
        mode: {
            (str(number), "Who?"): {"recall@5": value, "prompt_tokens": 100 * value}
            for number, value in enumerate(values)
        }
        for mode, values in modes.items()
    }
    return StoredEvaluation(
        name, {mode: {"recall@5": float(np.mean(values))} for mode, values in modes.items()}, rows
    )


def test_the_interval_holds_the_true_difference_as_often_as_it_says():
    """Differences of -1, 0 and 1 with a mean of 0.1 are drawn 300 times."""
    random = np.random.default_rng(7)
    truth, held = 0.1, 0
    for _ in range(300):
        drawn = random.choice([-1.0, 0.0, 1.0], p=[0.2, 0.5, 0.3], size=(80, 1))
        (interval,) = bootstrap_pairs(drawn, resamples=1000)
        held += interval.low <= truth <= interval.high
    assert 0.90 <= held / 300 <= 0.99


def test_a_sure_difference_is_significant_and_none_is_not():
    sure, none = bootstrap_pairs(np.array([[0.5, 0.0]] * 30 + [[0.4, 0.0]] * 30))
    assert sure.low > 0.4
    assert sure.p < 0.001
    assert (none.difference, none.low, none.high, none.p) == (0, 0, 0, 1)


def test_the_order_of_a_and_b_turns_the_interval_round():
    drawn = np.random.default_rng(3).choice([-0.5, 0.0, 1 / 3], size=(50, 1))
    (there,), (back,) = bootstrap_pairs(drawn), bootstrap_pairs(-drawn)
    assert there.p == back.p
    assert np.allclose(
        [there.difference, there.low, there.high], [-back.difference, -back.high, -back.low]
    )


def test_the_same_input_gives_the_same_and_columns_do_not_meddle():
    drawn = np.random.default_rng(5).normal(size=(40, 3))
    assert bootstrap_pairs(drawn) == bootstrap_pairs(drawn.copy())
    assert bootstrap_pairs(drawn)[1] == bootstrap_pairs(drawn[:, 1:2])[0]


def test_modes_are_compared_with_themselves_or_against_one():
    a = stored("a", naive=[0.0, 0.5, 1.0], local=[1.0, 1.0, 1.0])
    b = stored("b", naive=[0.5, 0.5, 1.0], graph=[1.0, 1.0, 1.0, 1.0])
    compared = compare(a, b)
    assert compared.rows[["mode", "metric", "questions"]].to_numpy().tolist() == [
        ["naive", "recall@5", 3], ["naive", "prompt_tokens", 3],
    ]  # fmt: skip
    assert compared.rows["difference"].tolist() == pytest.approx([1 / 6, 50 / 3], abs=1e-5)
    assert (compared.only_a, compared.only_b) == (0, 1)
    against = compare(a, b, "naive")
    assert against.rows["mode"].unique().tolist() == ["naive", "graph"]
    assert against.rows["b"].iloc[2] == 1
    assert json.dumps(against.to_json()) == json.dumps(compare(a, b, "naive").to_json())
    assert "only in b: 1" in format_comparison(compared)


def test_tokens_are_shown_where_nothing_else_was_compared():
    questions = {("1", "Who?"): {"entity_tokens": 10.0}, ("2", "Who?"): {"entity_tokens": 20.0}}
    one = StoredEvaluation("one", {"local": {}}, {"local": questions})
    text = format_comparison(compare(one, one))
    assert "local  entity_tokens" in text
    assert "2 questions in both" in text


def test_evaluations_with_nothing_in_common_cannot_be_compared():
    a = stored("a", naive=[1.0])
    with pytest.raises(UsageError, match="share no mode, question or metric"):
        compare(a, stored("b", local=[1.0]))
    with pytest.raises(UsageError, match="a: has no mode 'graph'; it has naive"):
        compare(a, a, "graph")


def test_a_question_whose_text_has_changed_is_another():
    a = stored("a", naive=[1.0, 1.0])
    b = StoredEvaluation(
        "b",
        a.modes,
        {"naive": {("0", "Who?"): {"recall@5": 0.0}, ("1", "Who else?"): {"recall@5": 0.0}}},
    )
    compared = compare(a, b)
    assert (compared.rows["questions"].iloc[0], compared.only_a, compared.only_b) == (1, 1, 1)


@pytest.mark.parametrize(("now", "falls"), [(0.88, False), (0.8799, True), (0.95, False)])
def test_two_points_are_allowed_and_no_more(now: float, falls: bool):
    assert (
        bool(
            describe_falls(
                {"naive": {"recall@10": 0.90}}, {"naive": {"recall@10": now}}, "recall@10", 2
            )
        )
        == falls
    )


def test_a_mode_that_is_gone_has_fallen():
    assert (
        "is not measured now"
        in describe_falls({"naive": {"recall@10": 0.9}}, {}, "recall@10", 2)[0]
    )
    with pytest.raises(UsageError, match="no mode has recall@7"):
        describe_falls({"naive": {"recall@10": 0.9}}, {}, "recall@7", 2)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"{", b"[]", b"{}", b'{"format": 2, "modes": {}, "questions": []}',
        b"[" * 100_000,
     b'{"format": 1, "modes": {"naive": {"recall@5": "high"}}, "questions": []}',
     b'{"format": 1, "modes": {"naive": 1}, "questions": []}',
     b'{"format": 1, "modes": {}, "questions": [1]}',
     b'{"format": 1, "modes": {}, "questions": [{"id": [], "question": "?", "modes": {"naive": {}}}]}'],  # noqa: E501
)  # fmt: skip
def test_a_file_that_no_evaluation_has_written_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="name a file that 'graphmill eval --output' has written"):
        read_evaluation(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_evaluation(tmp_path / "none.json")
