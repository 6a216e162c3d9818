"""Every call has its row, whatever happens to the run."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.usage.journal import USAGE, Journal, read_usage, settle, usage_of
from pipeline.engine.usage.lines import UNKNOWN
from pipeline.errors import DiskFullError
from pipeline.models.base import Usage


def usage(row: str, outcome: str = "ok", attempt: int = 1, **more: object) -> Usage:
    return Usage(
        row,
        "m",
        100,
        20,
        cached=False,
        seconds=0.5,
        outcome=outcome,
        attempt=attempt,
        cost=0.25,
        **more,
    )


def expected(row: str, tokens: int, texts: int = 0) -> Usage:
    return Usage(row, "m", tokens, 0, cached=False, seconds=0.0, cost=0.125, texts=texts)


def test_a_journal_becomes_a_table(tmp_path: Path):
    journal = Journal(tmp_path, "run-1", "index")
    call = journal.begun("extract", "doc-1", expected("chunk-1", 1000))
    journal.ended("extract", "doc-1", usage("chunk-1", "throttled"), call)
    call = journal.begun("extract", "doc-1", expected("chunk-1", 1000))
    journal.ended("extract", "doc-1", usage("chunk-1", attempt=2, cached_tokens=64), call)
    call = journal.begun("embed", "", expected("", 100, texts=4))
    journal.ended("embed", "", usage("", texts=7), call)
    during = read_usage(tmp_path)
    journal.close()
    frame = read_usage(tmp_path)
    assert [path.match("run-1.*.parquet") for path in tmp_path.iterdir()] == [True]
    assert frame.equals(during)
    assert list(frame.columns) == USAGE.columns
    shown = [
        "run_id",
        "workflow",
        "step",
        "row_id",
        "document_id",
        "kind",
        "outcome",
        "attempt",
        "texts",
    ]
    assert frame[shown].to_numpy().tolist() == [
        ["run-1", "index", "extract", "chunk-1", "doc-1", "chat", "throttled", 1, 0],
        ["run-1", "index", "extract", "chunk-1", "doc-1", "chat", "ok", 2, 0],
        ["run-1", "index", "embed", "", "", "embedding", "ok", 1, 7],
    ]
    assert frame["cost"].sum() == 0.75
    assert frame["cached_tokens"].tolist() == [0, 64, 0]


def test_a_run_without_calls_writes_no_usage_file(tmp_path: Path):
    Journal(tmp_path / "usage", "run-1", "index").close()
    assert not (tmp_path / "usage").exists()
    assert read_usage(tmp_path / "usage").columns.tolist() == USAGE.columns


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.engine.usage.journal import Journal
from pipeline.models.base import Usage
journal = Journal(Path(sys.argv[1]), "run-1", "index")
for row in range(5):
    expected = Usage(f"chunk-{row}", "m", 1000, 0, cached=False, seconds=0, cost=0.125)
    call = journal.begun("extract", "doc-1", expected)
    if row < 3:
        journal.ended("extract", "doc-1", Usage(f"chunk-{row}", "m", 900, 80, cached=False, seconds=1), call)
os.kill(os.getpid(), signal.SIGKILL)
"""  # noqa: E501


def test_calls_that_a_kill_cut_off_are_unknown_with_an_estimate(tmp_path: Path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -9
    for _ in range(2):
        frame = read_usage(tmp_path)
        assert frame["outcome"].tolist() == ["ok"] * 3 + [UNKNOWN] * 2
        assert frame["row_id"].tolist() == [f"chunk-{row}" for row in range(5)]
        assert frame["input_tokens"].tolist() == [900] * 3 + [1000] * 2
        assert frame["cost"].isna().tolist() == [True] * 3 + [False] * 2
        settle(tmp_path)
    assert [path.match("run-1.*.parquet") for path in tmp_path.iterdir()] == [True]


def filled(folder: Path, run: str = "run-1", calls: int = 3) -> Journal:
    journal = Journal(folder, run, "index")
    for n in range(calls):
        journal.ended(
            "extract",
            "",
            usage(f"chunk-{n}"),
            journal.begun("extract", "", expected(f"chunk-{n}", 10)),
        )
    return journal


def test_a_kill_between_the_table_and_the_journal_s_end_counts_nothing_twice(tmp_path: Path):
    journal = filled(tmp_path)
    left = (tmp_path / "run-1.jsonl").read_bytes()
    journal.close()
    (tmp_path / "run-1.jsonl").write_bytes(left)
    assert len(read_usage(tmp_path)) == 3
    settle(tmp_path)
    assert [path.match("run-1.*.parquet") for path in tmp_path.iterdir()] == [True]
    assert len(read_usage(tmp_path)) == 3


@pytest.mark.parametrize("moment", ["*.jsonl", "*.*parquet"])
def test_a_run_that_ends_while_usage_is_read_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
):
    """The journal becomes a table right before, or right after, the reader looks into one of the
    two places."""
    for before in (True, False):
        folder = tmp_path / str(before)
        filled(folder, "run-0").close()
        journal = filled(folder)
        look = Path.glob

        def end_meanwhile(
            self: Path,
            pattern: str,
            look: Any = look,
            journal: Journal = journal,
            first: bool = before,
        ):
            if pattern != moment or journal._closed:
                return look(self, pattern)
            found = [] if first else list(look(self, pattern))
            journal.close()
            return look(self, pattern) if first else found

        monkeypatch.setattr(Path, "glob", end_meanwhile)
        assert read_usage(folder)["run_id"].value_counts().to_dict() == {"run-0": 3, "run-1": 3}
        monkeypatch.undo()


def test_a_call_that_ends_after_the_run_loses_nothing(tmp_path: Path):
    journal = filled(tmp_path)
    late = journal.begun("extract", "", expected("late", 10))
    journal.close()
    journal.ended("extract", "", usage("late"), late)
    settle(tmp_path)
    assert read_usage(tmp_path)["outcome"].tolist() == ["ok"] * 3 + [UNKNOWN]


FULL_DISK = """
import resource, sys
from pathlib import Path
from pipeline.engine.usage.journal import Journal, read_usage
from pipeline.engine.usage.lines import UNKNOWN
from pipeline.errors import DiskFullError
from pipeline.models.base import Usage

folder = Path(sys.argv[1])
usage = Usage("row", "m", 100, 20, cached=False, seconds=0.5)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
try:
    with Journal(folder, "run-1", "index") as journal:
        journal.ended("extract", "", usage, journal.begun("extract", "", usage))
        size = (folder / "run-1.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
        try:
            journal.begun("extract", "", usage)
            sys.exit("written")
        except DiskFullError as error:
            assert "make space" in str(error), error
        assert (folder / "run-1.jsonl").stat().st_size == size
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        raise RuntimeError("what ended the run")
except RuntimeError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert read_usage(folder)["outcome"].tolist() == ["ok"]
"""


def test_a_full_disk_is_named_and_hides_nothing(tmp_path: Path):
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_half_a_line_is_left_out(tmp_path: Path):
    journal = Journal(tmp_path, "run-1", "index")
    call = journal.begun("extract", "", expected("chunk-1", 10))
    journal.ended("extract", "", usage("chunk-1"), call)
    with (tmp_path / "run-1.jsonl").open("a") as file:
        file.write(json.dumps({"begun": "1", "step": "extr"})[:-4])
    journal.close()
    assert len(read_usage(tmp_path)) == 1


def test_a_journal_stays_when_its_table_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(tmp_path, "run-1", "index")
    journal.ended(
        "extract", "", usage("chunk-1"), journal.begun("extract", "", expected("chunk-1", 10))
    )

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipeline.engine.usage.journal.publish_file", full)
    with pytest.raises(DiskFullError, match="No space"):
        journal.close()
    monkeypatch.undo()
    settle(tmp_path)
    assert len(read_usage(tmp_path)) == 1


def test_threads_share_a_journal_and_runs_a_folder(tmp_path: Path):
    for run in ("run-1", "run-2"):
        journal = Journal(tmp_path, run, "index")

        def work(journal: Journal = journal) -> None:
            for n in range(50):
                call = journal.begun("extract", "doc", expected(f"chunk-{n}", 10))
                journal.ended("extract", "doc", usage(f"chunk-{n}"), call)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        journal.close()
    frame = read_usage(tmp_path)
    assert frame["run_id"].value_counts().to_dict() == {"run-1": 400, "run-2": 400}
    assert set(frame["outcome"]) == {"ok"}


def test_usage_of_some_runs_reads_no_file_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    ended, going = (
        Journal(tmp_path, f"20260101T000000.{name}", "index") for name in ("1-a", "2-b")
    )
    for journal in (ended, going):
        journal.ended(
            "extract", "", usage("chunk-1"), journal.begun("extract", "", expected("chunk-1", 10))
        )
        if journal is ended:
            journal.close()
    (tmp_path / "20260101T000000.3-c.parquet").write_text("no table")
    (tmp_path / "20260101T000000.3-c.jsonl").mkdir()
    for journal in (ended, going):
        assert usage_of(tmp_path, [journal.run_id])["run_id"].tolist() == [journal.run_id]
    assert usage_of(tmp_path, ["20260101T000000.*"]).empty
    assert usage_of(tmp_path, []).empty
    assert not caplog.records
    (tmp_path / "20260101T000000.3-c.jsonl").rmdir()
    going.close()


def test_a_usage_table_with_a_flipped_bit_is_not_counted(tmp_path: Path):
    """A damaged footer is found too, although it may give fewer rows."""
    journal = Journal(tmp_path, "20260101T000000-a", "index")
    call = Usage("u", "m", 10, 2, cached=False, seconds=0.1)
    for _ in range(40):
        journal.ended("extract", "d", call, journal.begun("extract", "d", call))
    journal.close()
    [path] = tmp_path.glob("*.parquet")
    whole = path.read_bytes()
    assert len(read_usage(tmp_path)) == 40
    for place in range(len(whole) - 2000, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_usage(tmp_path).empty
