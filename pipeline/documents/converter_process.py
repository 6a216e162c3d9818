"""Run a process that converts one file after the other with limited memory.

A request for a file comes in on one pipe, and the result goes out on another. The process ends with
the process that started it, however that ends; so do the processes that it starts itself.
"""

import ctypes
import errno
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from pipeline.contract.conversion import FILE, Conversion, Converted, NotConverted, OwnConverter
from pipeline.documents.conversion import MOST_SAID, NoConverterError, convert
from pipeline.documents.input_files import not_read
from pipeline.errors import in_words
from pipeline.text.ids import clean

RESULT: TypeAdapter[Converted] = TypeAdapter(Converted)
_CONVERSION = TypeAdapter(Conversion)
TOO_MUCH_MEMORY = "too_much_memory"
_PR_SET_PDEATHSIG = 1
"""The number of the operation of prctl(2) that sends a signal when the parent ends."""
_SECONDS_BETWEEN_CHECKS = 1
_OUT_OF_MEMORY = re.compile(
    "out of memory|memory allocation failed|bad_alloc|error return without exception set"
    "|returned NULL without setting an exception",
    re.IGNORECASE,
)
"""The messages of parsers of XML, of C++ and of modules in C that could not get memory."""
_NOT_MAPPED = re.compile("cannot allocate memory|failed to map segment", re.IGNORECASE)
"""The messages of the loader if there is no memory for a library."""


class Wanted(BaseModel):
    """A request to convert the file at ``path``.

    ``own`` is the user's own converter, if there is one for the file, and ``name`` is its name in
    messages. ``folder`` is the folder of the project. ``articles`` is as in `convert`.
    """

    path: str
    own: OwnConverter | None = None
    folder: str = "."
    name: str = ""
    articles: bool = False


def result_of(wanted: Wanted, megabytes: int) -> Converted:
    """Convert the file; errors become a `NotConverted`. ``megabytes`` is the limit of memory."""
    try:
        if wanted.own:
            return _convert_by_own(wanted, wanted.own)
        return convert(Path(wanted.path), wanted.articles)
    except Exception as error:  # noqa: BLE001 - a converter of the user's own raises what it likes
        if _is_of_memory(error):
            message = f"takes more than {megabytes} MB; remove it or set input.convert_mb"
            return NotConverted(TOO_MUCH_MEMORY, message)
        if isinstance(error, NoConverterError):
            return NotConverted("needs_docs", f"{Path(wanted.path).suffix.lower()} {error}")
        if wanted.own and isinstance(error, OSError) and not error.errno:
            # An error that the system did not number is not one of the file: a server is away.
            fact = clean(in_words(error)[:MOST_SAID])
            return NotConverted("io_error", f"{fact}; the next run converts it again")
        if isinstance(error, OSError):
            return NotConverted(*not_read(error))
        if isinstance(error, ValueError):
            return NotConverted("parse", clean(str(error)))
        message = f"{in_words(error)[:MOST_SAID]}; mend it or remove it"
        return NotConverted("parse", clean(message))


def _is_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, is a lack of memory.

    Libraries raise other errors with this one as their cause, or only mention it in their text.
    """
    if error is None:
        return False
    if isinstance(error, MemoryError) or MemoryError.__name__ in str(error):
        return True
    if _OUT_OF_MEMORY.search(str(error)):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, ImportError) and _NOT_MAPPED.search(str(error)):
        return True
    return _is_of_memory(error.__cause__ or error.__context__)


def _convert_by_own(wanted: Wanted, own: OwnConverter) -> Conversion:
    """Convert the file by a function or a command of the user.

    Raises ValueError for a result of another type, and whatever the function raises.
    """
    if isinstance(own, str):
        made = _load_function(wanted.folder, own)(Path(wanted.path))
    else:
        made = _run_command(own, wanted)
    if isinstance(made, str):
        return Conversion(clean(made), wanted.name)
    if not isinstance(made, Conversion):
        raise ValueError(
            f"input.converter: {wanted.name} gave {type(made).__name__}; return a text or a"
            " Conversion"
        )
    return _check_sendable(made, wanted)


def _check_sendable(made: Conversion, wanted: Wanted) -> Conversion:
    """Return the conversion as the other process will receive it.

    A user's function may have put values of any type into it. Raises ValueError if one of them
    cannot be sent.
    """
    try:
        sent = RESULT.dump_json(replace(made, text=clean(made.text)), warnings=False)
        return _CONVERSION.validate_json(sent)
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ValidationError):
            field = ".".join(map(str, error.errors()[0]["loc"]))
            fact = f"{field}: no such type"
        else:
            fact = in_words(error)
        raise ValueError(
            f"input.converter: {wanted.name} gave a Conversion that cannot be kept"
            f" ({fact[:MOST_SAID]}); mend it"
        ) from error


@cache
def _load_function(folder: str, own: str) -> Any:
    """Return the function that ``own`` names as "file:function", its file within ``folder``.

    Raises ValueError if the file has no such function, and whatever its import raises.
    """
    file, name = own.rsplit(":", 1)
    path = Path(folder, file).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(
            f"input.converter: {path.name} has no function '{name}'; correct settings.yaml"
        )
    return function


def _run_command(words: tuple[str, ...], wanted: Wanted) -> str:
    """Return the output of the command for the file; the limits of this process apply to it.

    Raises ValueError if the command fails.
    """
    command = [word.replace(FILE, wanted.path) for word in words]
    done = subprocess.run(  # noqa: S603 - settings name the command
        command, cwd=wanted.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split())[-MOST_SAID:]
        raise ValueError(
            f"{wanted.name} ended with {done.returncode} ({message}); mend the file, or the command"
            " and 'graphmill retry'"
        )
    return done.stdout.decode(errors="replace")


def _end_with_the_parent(by: signal.Signals) -> None:
    """Let the system send this process the signal ``by`` when its parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


@cache
def _guard_group() -> None:
    """Make sure that no process started by this one outlives it, however it ends (Linux only).

    A child process waits until this process ends, and then ends the whole process group.
    """
    guarded = os.getpid()
    if sys.platform != "linux" or os.fork():
        return
    # The reader of this process's pipes notices its end only if no other process has them open.
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _end_with_the_parent(signal.SIGTERM)
    # If the parent has ended already, no signal will come.
    if os.getppid() == guarded:
        signal.sigwait({signal.SIGTERM})
    os.killpg(0, signal.SIGKILL)


def _watch(parent: int) -> None:
    """End this process group as soon as the parent process has ended."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Answer requests until the pipe of requests is closed.

    The arguments behind the first are the file descriptors of requests and answers, the limit of
    memory in MB, and the id of the parent process.
    """
    questions, answers, megabytes, parent = map(int, sys.argv[2:])
    _end_with_the_parent(signal.SIGKILL)
    if sys.platform != "linux":
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        # The parent ended before this process could ask to end with it.
        return
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes * 2**20, megabytes * 2**20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests = Connection(questions, writable=False)
    results = Connection(answers, readable=False)
    while True:
        try:
            wanted = Wanted.model_validate_json(requests.recv_bytes())
        except EOFError:
            return
        if wanted.own:
            _guard_group()
        results.send_bytes(RESULT.dump_json(result_of(wanted, megabytes)))
