"""What runs in a process that converts files, one after the other, and has only so much memory: a
file is asked for on one pipe, what came of it goes out on another. It ends with the process that
started it, however that ends; so does what it starts itself."""

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
from pipeline.documents.files import not_read
from pipeline.errors import in_words
from pipeline.text.ids import clean

RESULT: TypeAdapter[Converted] = TypeAdapter(Converted)
_CONVERSION = TypeAdapter(Conversion)
TOO_MUCH_MEMORY = "too_much_memory"
_PR_SET_PDEATHSIG = 1
_SECONDS_BETWEEN_LOOKS = 1
_NOT_MAPPED = re.compile("cannot allocate memory|failed to map segment", re.IGNORECASE)
"""What the loader says of a library that there is no room for."""


class Wanted(BaseModel):
    """A file to be converted, and by what of the user's own; ``name``: of that converter, for
    people."""

    path: str
    own: OwnConverter | None = None
    folder: str = "."
    name: str = ""


def result_of(wanted: Wanted, megabytes: int) -> Converted:
    try:
        return _by_own(wanted, wanted.own) if wanted.own else convert(Path(wanted.path))
    except NoConverterError as error:
        if _is_of_memory(error):
            return NotConverted(*_too_much(megabytes))
        return NotConverted("needs_docs", f"{Path(wanted.path).suffix.lower()} {error}")
    except OSError as error:
        return NotConverted(*(_too_much(megabytes) if _is_of_memory(error) else not_read(error)))
    except Exception as error:  # noqa: BLE001 - a converter of the user's own raises what it likes
        if _is_of_memory(error):
            return NotConverted(*_too_much(megabytes))
        said = (
            str(error)
            if isinstance(error, ValueError)
            else f"{in_words(error)[:MOST_SAID]}; mend it or remove it"
        )
        return NotConverted("parse", clean(said))


def _too_much(megabytes: int) -> tuple[str, str]:
    return TOO_MUCH_MEMORY, f"takes more than {megabytes} MB; remove it or set input.convert_mb"


def _is_of_memory(error: BaseException | None) -> bool:
    """Libraries pass that on as a cause, or tell of it in words only."""
    return error is not None and (
        isinstance(error, MemoryError)
        or MemoryError.__name__ in str(error)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, ImportError) and _NOT_MAPPED.search(str(error)) is not None)
        or _is_of_memory(error.__cause__ or error.__context__)
    )


def _by_own(wanted: Wanted, own: OwnConverter) -> Conversion:
    made = (
        _function(wanted.folder, own)(Path(wanted.path))
        if isinstance(own, str)
        else _said(own, wanted)
    )
    if isinstance(made, str):
        return Conversion(clean(made), wanted.name)
    if not isinstance(made, Conversion):
        raise ValueError(
            f"input.converter: {wanted.name} gave {type(made).__name__}; return a text or a"
            " Conversion"
        )
    return _sendable(made, wanted)


def _sendable(made: Conversion, wanted: Wanted) -> Conversion:
    """As it arrives where it is sent to: its author may have put anything into it."""
    try:
        sent = RESULT.dump_json(replace(made, text=clean(made.text)), warnings=False)
        return _CONVERSION.validate_json(sent)
    except (TypeError, AttributeError, ValueError) as error:
        invalid = isinstance(error, ValidationError)
        fact = (
            f"{'.'.join(map(str, error.errors()[0]['loc']))}: no such type"
            if invalid
            else in_words(error)
        )
        raise ValueError(
            f"input.converter: {wanted.name} gave a Conversion that cannot be kept"
            f" ({fact[:MOST_SAID]}); mend it"
        ) from error


@cache
def _function(folder: str, own: str) -> Any:
    file, name = own.rsplit(":", 1)
    path = Path(folder, file).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(function := getattr(module, name, None)):
        raise ValueError(
            f"input.converter: {path.name} has no function '{name}'; correct settings.yaml"
        )
    return function


def _said(words: tuple[str, ...], wanted: Wanted) -> str:
    """What the command prints. It has the limits of this process."""
    command = [word.replace(FILE, wanted.path) for word in words]
    done = subprocess.run(  # noqa: S603 - settings name the command
        command, cwd=wanted.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[-MOST_SAID:]
        raise ValueError(
            f"{wanted.name} ended with {done.returncode} ({said}); mend the file, or the command"
            " and 'graphmill retry'"
        )
    return done.stdout.decode(errors="replace")


def _end_with_the_parent(by: signal.Signals) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


@cache
def _guarded() -> None:
    """From now on nothing that this process starts outlives it, however it ends: a process waits
    for that, to end all of the group."""
    guarded = os.getpid()
    if sys.platform != "linux" or os.fork():
        return
    os.closerange(
        0, os.sysconf("SC_OPEN_MAX")
    )  # whoever reads what this process says has to hear that it has ended
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _end_with_the_parent(signal.SIGTERM)
    if os.getppid() == guarded:
        signal.sigwait({signal.SIGTERM})
    os.killpg(0, signal.SIGKILL)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    questions, answers, megabytes, parent = map(int, sys.argv[2:])
    _end_with_the_parent(signal.SIGKILL)
    if sys.platform != "linux":
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        return
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes * 2**20, megabytes * 2**20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked, told = Connection(questions, writable=False), Connection(answers, readable=False)
    while True:
        try:
            wanted = Wanted.model_validate_json(asked.recv_bytes())
        except EOFError:
            return
        if wanted.own:
            _guarded()
        told.send_bytes(RESULT.dump_json(result_of(wanted, megabytes)))
