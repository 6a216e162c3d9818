"""Calls made for questions: one row each, whichever of many processes writes it."""

import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from pipeline.engine.usage.journal import USAGE, Journal, read_usage, settle, sums
from pipeline.engine.usage.lines import UNKNOWN
from pipeline.engine.usage.questions import QUESTIONS, QuestionJournal, day_of, new_question_id
from pipeline.errors import StoreError, UsageError
from pipeline.models.base import Usage

NOON = 1_800_014_400.0


def said(key: str = "wiki", question: str = "q-1") -> dict[str, str]:
    return {"question": question, "workspace": "w", "key": key, "mode": "local"}


def usage(step: str = "answer", cost: float | None = 0.25) -> Usage:
    return Usage(step, "m", 100, 20, cached=False, seconds=0.5, cost=cost)


def expected(step: str = "answer", cost: float | None = 0.125) -> Usage:
    return Usage(step, "m", 90, 0, cached=False, seconds=0.0, cost=cost)


def call(journal: QuestionJournal, name: str = "q-1-1", key: str = "wiki") -> str:
    return journal.begun(name, expected(), "chat", said(key))


def test_a_row_says_whose_call_it_was_and_what_for(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    journal.ended(call(journal), usage(), "chat", said())
    embed = journal.begun("q-1-2", usage(""), "embedding", said())
    journal.ended(embed, usage(""), "embedding", said())
    frame = read_usage(tmp_path)
    assert list(frame.columns) == USAGE.columns
    shown = ["run_id", "question", "workspace", "key", "mode", "step", "kind", "outcome", "cost"]
    assert frame[shown].to_numpy().tolist() == [
        ["questions", "q-1", "w", "wiki", "local", "answer", "chat", "ok", 0.25],
        ["questions", "q-1", "w", "wiki", "local", "embedding", "embedding", "ok", 0.25],
    ]


def test_a_call_that_has_not_ended_is_unknown_and_counts_as_far_as_it_can_be_told(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    journal.ended(call(journal), usage(), "chat", said())
    call(journal, "q-2-1", "other")
    assert read_usage(tmp_path)["outcome"].tolist() == ["ok", UNKNOWN]
    assert journal.spent_today() == {"wiki": 0.25, "other": 0.125}


def test_the_cost_of_a_day_is_known_to_all_processes_and_outlives_them(tmp_path: Path):
    one, other = (QuestionJournal(tmp_path) for _ in range(2))
    one.ended(call(one), usage(), "chat", said())
    assert other.spent_today() == {"wiki": 0.25}
    under_way = call(other, "q-2-1")
    assert one.spent_today() == {"wiki": 0.375}
    other.ended(under_way, usage(cost=None), "chat", said())
    assert one.spent_today() == QuestionJournal(tmp_path).spent_today() == {"wiki": 0.25}


def test_a_call_over_midnight_belongs_to_the_day_on_which_it_began(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    with patch("time.time", return_value=NOON):
        under_way = call(journal)
    with patch("time.time", return_value=NOON + 86_400):
        journal.ended(under_way, usage(), "chat", said())
        assert journal.spent_today() == {}
    assert [path.stem for path in (tmp_path / QUESTIONS).iterdir()] == [day_of(NOON)]
    assert read_usage(tmp_path)["outcome"].tolist() == ["ok"]


MANY = """
import sys
from pathlib import Path
from tests.engine.usage.test_questions import call, said, usage
from pipeline.engine.usage.questions import QuestionJournal
journal = QuestionJournal(Path(sys.argv[1]))
for n in range(200):
    journal.ended(call(journal, f"{sys.argv[2]}-{n}"), usage(), "chat", said())
"""


def test_processes_that_write_at_once_lose_no_line(tmp_path: Path):
    started = [
        subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path / QUESTIONS), name])
        for name in ("a", "b", "c")
    ]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    assert QuestionJournal(tmp_path / QUESTIONS).spent_today() == {"wiki": 600 * 0.25}
    assert read_usage(tmp_path)["outcome"].tolist() == ["ok"] * 600


def test_past_days_become_tables_and_count_once(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    for days in (3, 1, 0):
        with patch("time.time", return_value=time.time() - 86_400 * days):
            journal.ended(call(journal), usage(), "chat", said())
    before = read_usage(tmp_path)
    settle(tmp_path)
    suffixes = sorted(path.suffix for path in (tmp_path / QUESTIONS).iterdir())
    assert suffixes == [".jsonl", ".jsonl", ".parquet"]
    assert (
        read_usage(tmp_path)
        .sort_values("at", ignore_index=True)
        .equals(before.sort_values("at", ignore_index=True))
    )


def test_a_day_that_ended_too_early_by_a_wrong_clock_continues(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    for name in ("q-1-1", "q-2-1"):
        journal.ended(call(journal, name), usage(), "chat", said())
        with patch("time.time", return_value=time.time() + 3 * 86_400):
            before = read_usage(tmp_path)
            settle(tmp_path)
        assert len(read_usage(tmp_path)) == len(before) == int(name[2])


def test_a_line_that_a_kill_cut_off_takes_no_other_with_it(tmp_path: Path):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    named = call(journal)
    path = tmp_path / QUESTIONS / f"{day_of(time.time())}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"begun": "q-0-1", "work')
    journal.ended(named, usage(), "chat", said())
    assert (
        journal.spent_today()
        == QuestionJournal(tmp_path / QUESTIONS).spent_today()
        == {"wiki": 0.25}
    )
    assert read_usage(tmp_path)["cost"].tolist() == [0.25]


@pytest.mark.parametrize("line", [b"1", b"null", b"[]", b"\xff\xfe", b"\0\0", b"[" * 50_000, b"{}"])
def test_a_damaged_line_is_reported_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: bytes
):
    journal = QuestionJournal(tmp_path / QUESTIONS)
    named = call(journal)
    with (tmp_path / QUESTIONS / f"{day_of(time.time())}.jsonl").open("ab") as file:
        file.write(line + b"\n")
    journal.ended(named, usage(), "chat", said())
    assert journal.spent_today() == {"wiki": 0.25}
    assert read_usage(tmp_path)["cost"].tolist() == [0.25]
    assert "a line cannot be read" in capsys.readouterr().err


def test_questions_are_summed_apart_from_runs_and_days_over_both(tmp_path: Path):
    run, journal = Journal(tmp_path, "run-1", "index"), QuestionJournal(tmp_path / QUESTIONS)
    run.ended("extract", "", usage("chunk-1"), run.begun("extract", "", expected("chunk-1")))
    run.close()
    for name, key in (("q-1-1", "wiki"), ("q-1-2", "wiki"), ("q-2-1", "")):
        journal.ended(call(journal, name, key), usage(), "chat", said(key, name[:3]))
    frame = read_usage(tmp_path)
    assert dict(zip(*[sums(frame, "question")[name] for name in ("question", "calls")], strict=True)) == {  # noqa: E501
        "q-1": 2, "q-2": 1,
    }  # fmt: skip
    assert sums(frame, "key").set_index("key")["cost"].to_dict() == {"": 0.25, "wiki": 0.5}
    assert sums(frame, "run").set_index("run_id")["calls"].to_dict() == {"run-1": 1, "questions": 3}
    assert sums(frame, "day")["calls"].tolist() == [4]
    with pytest.raises(UsageError, match="by: run, step"):
        sums(frame, "price")


@pytest.mark.parametrize(
    "lacks", [["estimated"], ["question", "workspace", "key", "mode", "estimated"]]
)
def test_tables_of_an_earlier_version_are_read(tmp_path: Path, lacks: list[str]):
    run = Journal(tmp_path, "run-1", "index")
    run.ended("extract", "", usage("chunk-1"), run.begun("extract", "", expected("chunk-1")))
    run.close()
    [path] = tmp_path.glob("*.parquet")
    earlier = pq.read_table(path).drop_columns(lacks)
    path.unlink()
    pq.write_table(earlier, tmp_path / "run-1.parquet")
    frame = read_usage(tmp_path)
    assert list(frame.columns) == USAGE.columns
    assert frame["question"].tolist() == [""]
    assert frame["estimated"].tolist() == [False]


def test_no_call_begins_when_the_journal_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="let this user write there"):
        call(QuestionJournal(tmp_path / "file"))


def test_ids_of_questions_differ():
    assert len({new_question_id() for _ in range(100)}) == 100
