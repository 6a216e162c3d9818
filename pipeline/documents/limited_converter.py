"""Convert files in processes of their own, several at once, each with limits of time and memory.

So a file that makes its reader hang, or that would fill the machine, harms no other file.
"""

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
from pipeline.models.base import Repeats
from pipeline.models.conversations import Workers, in_parallel

MOST_PROCESSES = 4
"""The most processes that convert at once."""
FILES_A_PROCESS = 200
"""The number of files after which a process ends; this frees the memory that libraries leak."""
ENDED = "crashed"
"""The reason of a file whose process ended by itself."""
_DIGITS = 12
_STARTS = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pipeline.documents.converter_process import"
    " main; main()"
)


def converter_name(suffix: str, rules: ConversionRules) -> str:
    """Return the name of the present converter of files with this suffix, with its version.

    Returns "" if there is none. Raises SettingsError if the user's own converter is missing.
    """
    own = rules.own_for(suffix)
    if own is None:
        return converter_for(suffix, rules.articles)
    if isinstance(own, str):
        file, name = own.rsplit(":", 1)
        path = Path(rules.folder, file)
        if not path.is_file():
            raise SettingsError(
                f"input.converter: {path}: no such file; correct it in settings.yaml"
            )
        return f"{Path(file).name}:{name} {sha256_of(path)[:_DIGITS]}"
    command = own[0]
    if os.sep in command:
        is_there = Path(rules.folder, command).is_file()
    else:
        is_there = shutil.which(command) is not None
    if not is_there:
        raise SettingsError(
            f"input.converter: no command '{command}'; install it, or correct it in settings.yaml"
        )
    return Path(command).name


def is_converted(suffix: str, rules: ConversionRules) -> bool:
    """Return whether files with this suffix (in lower case, with its dot) need a conversion."""
    return suffix in CONVERTED or suffix in rules.own


@dataclass(frozen=True)
class LimitedConverter:
    """A converter that keeps no results.

    ``processes`` is the number of processes that convert at once. 0 stands for one per processor,
    at most `MOST_PROCESSES`.
    """

    processes: int = 0

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        """Convert the files; ``listener`` receives the progress, ``repeats`` has no effect here."""
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
        """Return None for each file: no result is kept."""
        return [None] * len(files)

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        """Return no keys: no result is kept."""
        return set()

    def each(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        ended: Callable[[int, Converted], None],
    ) -> None:
        """Convert the files and call ``ended`` with the index and the result of each.

        The calls are made in this thread, each as soon as its result is there.
        """
        suffixes = {file.suffix for file in files}
        names = {suffix: converter_name(suffix, rules) for suffix in suffixes}
        with open_converter(rules) as convert:

            def work(place: int) -> tuple[int, Converted]:
                file = files[place]
                name = names[file.suffix]
                if not name:
                    return place, NotConverted("needs_docs", f"{file.suffix} {NEEDS_EXTRA}")
                own = rules.own_for(file.suffix)
                wanted = Wanted(
                    path=str(file.path), own=own, folder=rules.folder, name=name,
                    articles=rules.articles,
                )  # fmt: skip
                return place, convert(wanted)

            workers = Workers(work, self.processes or _count_processors(), threading.Event(), 0)
            in_parallel(range(len(files)), workers, lambda done: ended(*done))


def _count_processors() -> int:
    """Return the number of processors that this process may use, at most `MOST_PROCESSES`."""
    if sys.platform == "linux":
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    return min(MOST_PROCESSES, processors)


@contextmanager
def open_converter(rules: ConversionRules) -> Iterator[Callable[[Wanted], Converted]]:
    """Provide a function that converts a file in one of several processes, from any thread.

    Processes are started as they are needed and killed at the end. Each has half of the memory that
    a file may take. A file that needs more is converted again with all of it, in a process of its
    own, one such file at a time. So files that are made to fill the machine cannot do it together.
    """
    idle: SimpleQueue[_Process] = SimpleQueue()
    alive: set[_Process] = set()
    over = threading.Event()
    one_at_a_time = threading.Lock()

    def start(megabytes: int) -> "_Process":
        process = _Process(rules, megabytes)
        alive.add(process)
        # The end may have come between the request for the process and its start.
        if over.is_set():
            process.stop()
        return process

    def take() -> "_Process":
        with suppress(Empty):
            return idle.get_nowait()
        return start(max(1, rules.megabytes // 2))

    def close(process: "_Process") -> None:
        process.close()
        alive.discard(process)

    def convert(wanted: Wanted) -> Converted:
        process = take()
        result = process.convert(wanted)
        needs_more = isinstance(result, NotConverted) and result.reason in (TOO_MUCH_MEMORY, ENDED)
        if process.ended or needs_more or process.files == FILES_A_PROCESS:
            close(process)
        else:
            idle.put(process)
        return convert_alone(wanted) if needs_more and not over.is_set() else result

    def convert_alone(wanted: Wanted) -> Converted:
        with one_at_a_time:
            process = start(rules.megabytes)
            try:
                return process.convert(wanted)
            finally:
                close(process)

    try:
        yield convert
    finally:
        over.set()
        for process in list(alive):
            process.stop()


class _Process:
    """A process that converts files. ``files`` counts its requests; ``ended`` is true if it failed.

    A command that it runs belongs to its process group.
    """

    def __init__(self, rules: ConversionRules, megabytes: int):
        self.rules = rules
        self.files = 0
        self.ended = False
        requests_out, requests_in = os.pipe()
        results_out, results_in = os.pipe()
        folder_of_package = str(Path(pipeline.__file__).parents[1])
        arguments = [requests_out, results_in, megabytes, os.getpid()]
        line = [sys.executable, "-P", "-c", _STARTS, folder_of_package, *map(str, arguments)]
        self.process = subprocess.Popen(  # noqa: S603 - this package's own module
            line,
            pass_fds=(requests_out, results_in),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C shall reach the parent only.
            start_new_session=True,
        )
        # These ends belong to the process; it is noticed to have ended once nobody else has them.
        os.close(requests_out)
        os.close(results_in)
        self.requests = Connection(requests_in, readable=False)
        self.results = Connection(results_out, writable=False)

    def convert(self, wanted: Wanted) -> Converted:
        """Convert a file; an exceeded time limit or an end of the process is a result too."""
        self.files += 1
        try:
            self.requests.send_bytes(wanted.model_dump_json().encode())
            if not self.results.poll(self.rules.seconds):
                self.ended = True
                fact = f"takes more than {self.rules.seconds:g} s"
                return NotConverted("too_slow", f"{fact}; remove it or set input.convert_seconds")
            return RESULT.validate_json(self.results.recv_bytes())
        except (EOFError, OSError):
            self.ended = True
            return NotConverted(
                ENDED,
                f"its converter was ended by {self._reason()}: it is damaged, or takes more than"
                f" {self.rules.megabytes} MB; remove it or set input.convert_mb",
            )

    def _reason(self) -> str:
        """Return the signal or the exit code by which the process ended."""
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """Stop the process and its group by a signal, from any thread.

        A thread that waits for a result then notices the end of the process.
        """
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Stop the process and close the pipes."""
        self.stop()
        self.requests.close()
        self.results.close()
