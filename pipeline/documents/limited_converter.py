"""Files are converted in processes of their own, several at once, each with a time and a memory
limit: a file that is made to hang its reader, or to fill the machine, costs itself alone."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue

import pipeline
from pipeline.contract.conversion import (
    ConversionListener,
    ConversionRules,
    Converted,
    FileToConvert,
    NotConverted,
)
from pipeline.documents.conversion import CONVERTED, NEEDS_EXTRA, converter_for
from pipeline.documents.converter_process import RESULT, TOO_MUCH_MEMORY, Wanted
from pipeline.errors import SettingsError
from pipeline.files import sha256_of, size_of
from pipeline.models.base import Anew
from pipeline.models.conversations import Workers, in_parallel

MOST_PROCESSES = 4
FILES_A_PROCESS = 200
"""What a library does not give back is given back by the end of its process."""
ENDED = "crashed"
_DIGITS = 12
_STARTS = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pipeline.documents.converter_process import"
    " main; main()"
)


def converter_name(suffix: str, rules: ConversionRules) -> str:
    """Of what converts files of this suffix, as it is today; empty where nothing does. Raises
    SettingsError for one of the user's own that is not there."""
    own = rules.own_for(suffix)
    if own is None:
        return converter_for(suffix)
    if isinstance(own, str):
        file, name = own.rsplit(":", 1)
        path = Path(rules.folder, file)
        if not path.is_file():
            raise SettingsError(
                f"input.converter: {path}: no such file; correct it in settings.yaml"
            )
        return f"{Path(file).name}:{name} {sha256_of(path)[:_DIGITS]}"
    if not (Path(rules.folder, own[0]).is_file() if os.sep in own[0] else shutil.which(own[0])):
        raise SettingsError(
            f"input.converter: no command '{own[0]}'; install it, or correct it in settings.yaml"
        )
    return Path(own[0]).name


def is_converted(suffix: str, rules: ConversionRules) -> bool:
    return suffix in CONVERTED or suffix in rules.own


@dataclass(frozen=True)
class LimitedConverter:
    """Keeps nothing. ``processes``: how many at once; 0 for one a processor, up to
    MOST_PROCESSES."""

    processes: int = 0

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        anew: Anew | None = None,
    ) -> list[Converted]:
        if listener:
            listener.expect(len(files))
        results: dict[int, Converted] = {}

        def ended(place: int, result: Converted) -> None:
            results[place] = result
            if listener:
                size = size_of(files[place].path)
                listener.converted(False, failed=isinstance(result, NotConverted), size=size)

        self.each(files, rules, ended)
        return [results[place] for place in range(len(files))]

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        return [None] * len(files)

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        return set()

    def each(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        ended: Callable[[int, Converted], None],
    ) -> None:
        """``ended`` is told, in this thread and as soon as it is there, what came of the file at a
        place."""
        names = {
            suffix: converter_name(suffix, rules) for suffix in {file.suffix for file in files}
        }
        with _processes(rules) as converted:

            def work(place: int) -> tuple[int, Converted]:
                file = files[place]
                own, name = rules.own_for(file.suffix), names[file.suffix]
                if not name:
                    return place, NotConverted("needs_docs", f"{file.suffix} {NEEDS_EXTRA}")
                return place, converted(
                    Wanted(path=str(file.path), own=own, folder=rules.folder, name=name)
                )

            workers = Workers(work, self.processes or _processors(), threading.Event(), 0)
            in_parallel(range(len(files)), workers, lambda done: ended(*done))


def _processors() -> int:
    return min(
        MOST_PROCESSES,
        len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
    )


@contextmanager
def _processes(rules: ConversionRules) -> Iterator[Callable[[Wanted], Converted]]:
    """What asks one of the processes; they are started as they are needed, by whichever thread
    needs one. Each has half of the memory that a file may take; what needs more gets all of it, one
    file at a time, in a process of its own: so that files that are made to fill the machine cannot
    do it together."""
    idle: SimpleQueue[_Process] = SimpleQueue()
    alive: set[_Process] = set()
    over, one_at_a_time = threading.Event(), threading.Lock()

    def started(megabytes: int) -> "_Process":
        process = _Process(rules, megabytes)
        alive.add(process)
        if over.is_set():
            process.stop()
        return process

    def taken() -> "_Process":
        with suppress(Empty):
            return idle.get_nowait()
        return started(max(1, rules.megabytes // 2))

    def converted(wanted: Wanted) -> Converted:
        process = taken()
        result = process.result_of(wanted)
        spent = isinstance(result, NotConverted) and result.reason in (TOO_MUCH_MEMORY, ENDED)
        if process.ended or spent or process.files == FILES_A_PROCESS:
            process.close()
            alive.discard(process)
        else:
            idle.put(process)
        return alone(wanted) if spent and not over.is_set() else result

    def alone(wanted: Wanted) -> Converted:
        with one_at_a_time:
            process = started(rules.megabytes)
            try:
                return process.result_of(wanted)
            finally:
                process.close()
                alive.discard(process)

    try:
        yield converted
    finally:
        over.set()
        for process in list(alive):
            process.stop()


class _Process:
    """``files``: how many it has been asked for. Its command, where it runs one, is of its
    group."""

    def __init__(self, rules: ConversionRules, megabytes: int):
        self.rules, self.files, self.ended = rules, 0, False
        questions, self.questions = os.pipe()
        self.answers, answers = os.pipe()
        arguments = [questions, answers, megabytes, os.getpid()]
        self.process = subprocess.Popen(  # noqa: S603 - this package's own module, wherever it was found
            [
                sys.executable,
                "-P",
                "-c",
                _STARTS,
                str(Path(pipeline.__file__).parents[1]),
                *map(str, arguments),
            ],
            pass_fds=(questions, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        os.close(questions)
        os.close(answers)
        self.asked = Connection(self.questions, readable=False)
        self.told = Connection(self.answers, writable=False)

    def result_of(self, wanted: Wanted) -> Converted:
        self.files += 1
        try:
            self.asked.send_bytes(wanted.model_dump_json().encode())
            if not self.told.poll(self.rules.seconds):
                self.ended = True
                return NotConverted(
                    "too_slow",
                    f"takes more than {self.rules.seconds:g} s; remove it or set"
                    " input.convert_seconds",
                )
            return RESULT.validate_json(self.told.recv_bytes())
        except (EOFError, OSError):
            self.ended = True
            return NotConverted(
                ENDED,
                f"its converter was ended by {self._why()}: it is damaged, or takes more than"
                f" {self.rules.megabytes} MB; remove it or set input.convert_mb",
            )

    def _why(self) -> str:
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """Also from another thread than the one that waits for it, which hears that it has
        ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.stop()
        self.asked.close()
        self.told.close()
