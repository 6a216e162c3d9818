"""Nobody need look at a run: closed pipes, dead loggers and closed terminals end no run."""

import io
import logging
import os
import pty
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import files
from pipeline.cli.options import UnbreakableStream
from pipeline.runs.events import Events
from pipeline.runs.reports import Runs
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.sizes import size

WAIT = 120


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE)


def outcome(folder: ProjectFolder) -> tuple[str, str]:
    last = Runs.of(folder.root).last()
    assert last is not None
    return last["outcome"], last["message"]


@pytest.mark.parametrize("log", size(["json"], ["auto", "json"]))
def test_a_reader_that_has_seen_enough(folder: ProjectFolder, log: str):
    """As ``graphmill index 2>&1 | head -1``."""
    process = subprocess.Popen(
        folder.command_line("index", "fast", "--log", log), env=folder.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(WAIT) == 0
    assert outcome(folder) == ("completed", "")


def test_streams_that_are_closed(folder: ProjectFolder):
    """Nor is anything written into the file that would have had their number."""
    line = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *folder.command_line("index", "fast")]
    assert subprocess.run(line, env=folder.environment, timeout=WAIT, check=False).returncode == 0
    assert outcome(folder) == ("completed", "")


def test_a_terminal_that_is_closed(folder: ProjectFolder):
    process, terminal = pty.fork()
    if process == 0:
        line = folder.command_line("index", "fast")
        os.execve(line[0], line, {**folder.environment, "TERM": "xterm"})
    assert os.read(terminal, 1)
    os.close(terminal)  # its session is sent SIGHUP
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert outcome(folder) == ("completed", "")


def test_a_pipe_that_does_not_block_and_is_full():
    """As a parent may have made it: a run's words are lost, a result waits to be read."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    words = UnbreakableStream(writable, whatever=True)
    line = b"x" * 4096
    for _ in range(100):
        assert words.write(line) > 0
    heard: list[int] = []

    def hear() -> None:
        heard.extend(iter(lambda: len(os.read(readable, 65536)), 0))

    reader = threading.Thread(target=hear)
    reader.start()
    with io.BufferedWriter(UnbreakableStream(writable, whatever=False)) as result:
        result.write(line * 100)
    os.close(writable)
    reader.join(WAIT)
    assert sum(heard) >= 100 * len(line)


@pytest.mark.parametrize("opened", [os.pipe, pty.openpty])
def test_a_reader_that_has_stopped_keeps_no_run_waiting(opened: Callable[[], tuple[int, int]]):
    """A pipe that is full, a terminal that its window no longer empties: both block, and nobody
    reads."""
    readable, writable = opened()
    words = UnbreakableStream(writable, whatever=True)
    words.patience = 0.01
    line = b"x" * 5000
    for _ in range(100):
        assert words.write(line) > 0
    assert os.get_blocking(writable)  # the mode is shared with the shell
    words.close()
    os.close(writable)
    os.close(readable)


def test_a_logger_that_raises_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    class Dead(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the log's server is gone")

    monkeypatch.setattr(files.LOG, "handlers", [Dead()])
    files.tell("there: it is damaged; it is passed over")


def test_a_dead_logger_hears_no_more_and_the_run_goes_on():
    told = []

    def tell(event: object) -> None:
        told.append(event)
        raise BrokenPipeError(32, "Broken pipe")

    events = Events(tell)
    events.step_started("embed", 1, 1)
    events.step_advanced("embed", 1, 1)
    assert len(told) == 1


@pytest.mark.parametrize(
    "asked", ["status", "--help"], ids=["held to the end", "written in between"]
)
def test_a_result_that_could_not_be_written_is_an_error(folder: ProjectFolder, asked: str):
    """A result is no progress: where the disk is full, who asked for it learns so."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            folder.command_line(asked), env=folder.environment, stdout=full, timeout=WAIT,
            check=False,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1, "graphmill: stdout: No space left on device; the result is cut off: print it again\n",
    )  # fmt: skip
