"""Find files that a verb of the user's own reads although it declares no stamp.

Such a step is reused after an edit of the file, since its fingerprint does not contain the file.
The interpreter reports each file that is opened to an audit hook. A hook can never be removed and
sees the whole process. It is added with the first verb of a user's own, and acts only while such a
verb runs.
"""

import os
import site
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

import pipeline

OPENED, DATABASE = "open", "sqlite3.connect"
PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})
STARTERS = ("subprocess.py", "os.py")
"""The modules by which a user starts a program. Libraries start some too, as to find others."""
EVENTS = PROGRAMS | {OPENED, DATABASE}
PACKAGE = os.path.dirname(os.path.abspath(pipeline.__file__)) + os.sep
CODE = (".py", ".pyc", ".pyi", ".so", ".pyd")
"""The suffixes of code: an import, or the line that a warning shows, reads it."""
OF_THE_SYSTEM = ("/proc", "/sys", "/etc", "/lib", "/usr/lib", "/usr/share", "/usr/local/etc")
"""Folders that libraries read themselves, for time zones, certificates or the number of cores."""
TOKEN_CACHE = "data-gym-cache"  # noqa: S105 - the name of a folder
"""The folder, among temporary files, in which tiktoken keeps its ranks."""


@dataclass(frozen=True)
class OutsideRead:
    """A read of a file by a verb. ``what`` describes it in words: "reads the file ...".

    ``place`` is the name of the user's file and the line that read it.
    """

    what: str
    place: str


@dataclass
class Watch:
    """The reads of one call of a verb.

    ``file`` defines the verb; ``made`` are files that the verb has created itself, such as
    temporary ones.
    """

    file: str
    process: int = field(default_factory=os.getpid)
    reads: list[OutsideRead] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)
_RUNNING: list[Watch] = []
"""The calls that are watched now, in all threads of this process."""
_ADDING = threading.Lock()


@contextmanager
def watched_reads(file: Path) -> Iterator[list[OutsideRead]]:
    """Give the list of what a verb that ``file`` defines reads within the context.

    Files that a role of the verb opens, such as the cache of a model, are not in it.
    """
    with _ADDING:
        _add_hook()
    watch = Watch(str(file))
    _RUNNING.append(watch)
    token = _WATCH.set(watch)
    try:
        yield watch.reads
    finally:
        _WATCH.reset(token)
        _RUNNING.remove(watch)


@cache
def _add_hook() -> None:
    """Add the hook to this process, once."""
    sys.addaudithook(_look)
    _report_parquet_files()


def _report_parquet_files() -> None:
    """Let pyarrow report the Parquet files that it opens, as pandas does for all others.

    It opens them in C++, of which no audit hook hears.
    """
    from pyarrow import parquet

    _report_first_argument(parquet.ParquetFile)
    _report_first_argument(parquet.ParquetDataset)


def _report_first_argument(reader: Any) -> None:
    """Let a class of readers report the file that it is created with."""
    create: Callable[..., None] = reader.__init__

    @wraps(create)
    def report(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(source, str | os.PathLike):
            sys.audit(OPENED, os.fspath(source), "r", os.O_RDONLY)
        create(self, source, *args, **kwargs)

    reader.__init__ = report


def _look(event: str, args: tuple[Any, ...]) -> None:
    """Note what a watched verb reads. The interpreter calls this with every event."""
    if not _RUNNING or event not in EVENTS:
        return
    origin = _origin(sys._getframe(1), _WATCH.get())
    if origin is None:
        return
    watch, frame, is_direct = origin
    if event in PROGRAMS:
        # A program that a library starts is the library's own affair.
        what = _describe_program(args) if is_direct else ""
    else:
        what = _describe_file(event, args, watch)
    if not what:
        return
    file = os.path.basename(frame.f_code.co_filename)
    read = OutsideRead(what, f"{file}:{frame.f_lineno}")
    if os.getpid() != watch.process:
        # A list in a process that the verb has forked reaches nobody.
        raise RuntimeError(f"{read.what} ({read.place}), in a process that the verb started")
    watch.reads.append(read)


def _origin(frame: FrameType | None, watch: Watch | None) -> tuple[Watch, FrameType, bool] | None:
    """Return the watched call that an event comes from, and the user's frame that led to it.

    The third value says whether no library except STARTERS is between them. Returns None if the
    event belongs to no watched call. ``watch`` is the call of this thread. A thread that a verb has
    started has none; the call is then found by the file of the verb among the frames.
    """
    if frame is not None and frame.f_code.co_filename == __file__:
        # _report_first_argument has reported a Parquet file.
        frame = frame.f_back
    user: FrameType | None = None
    is_direct = True
    while frame is not None:
        file = frame.f_code.co_filename
        if user is None:
            # A role of the verb reads what it needs itself, and an import reads modules.
            if file.startswith((PACKAGE, "<frozen importlib")):
                return None
            if not file.startswith("<") and not file.startswith(_folders_of_libraries()):
                user = frame
            elif os.path.basename(file) not in STARTERS:
                is_direct = False
        if user is not None:
            if watch is not None:
                return watch, user, is_direct
            for running in _RUNNING:
                if running.file == file:
                    return running, user, is_direct
        frame = frame.f_back
    return None


def _describe_file(event: str, args: tuple[Any, ...], watch: Watch) -> str:
    """Return in words which file is read; "" if the file is not the user's."""
    path = args[0] if args else None
    if not isinstance(path, str | bytes | os.PathLike):
        return ""
    text = os.fsdecode(path)
    if event == DATABASE:
        # SQLite takes a path, or a URI with parameters.
        encoded_path, _, _ = text.removeprefix("file:").partition("?")
        text = unquote(encoded_path)
        # A database that does not exist yet is created, and ":memory:" is none.
        creates = not os.path.exists(text)
    else:
        flags = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
        replaces = flags & os.O_CREAT and flags & (os.O_EXCL | os.O_TRUNC)
        only_writes = flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY
        creates = replaces or only_writes
    file = os.path.abspath(text)
    if file == os.devnull:
        return ""
    if creates:
        watch.made.add(file)
        return ""
    if file in watch.made or file.endswith(CODE) or _is_of_a_library(file, watch.file):
        return ""
    return f"reads the file {text}"


def _describe_program(args: tuple[Any, ...]) -> str:
    """Return in words which program is started."""
    command = "?"
    if args and isinstance(args[0], str | bytes):
        command = os.fsdecode(args[0])
    # A shell is given the program with its arguments.
    program = command.split(maxsplit=1)[0]
    return f"starts the program '{program}', which may read files"


def _is_of_a_library(file: str, verb: str) -> bool:
    """Check that a file belongs to a library or the system, and is not beside the verb."""
    if file.startswith(_folders_of_libraries()):
        return True
    if file.startswith(os.path.dirname(verb) + os.sep):
        return False
    return file.startswith(_folders_of_caches())


@cache
def _folders_of_packages() -> tuple[str, ...]:
    """Return the folders of installed packages."""
    paths = sysconfig.get_paths()
    return _as_prefixes([paths["purelib"], paths["platlib"], site.getusersitepackages()])


@cache
def _folders_of_libraries() -> tuple[str, ...]:
    """Return the folders of Python's library, of installed packages, and of this package."""
    paths = sysconfig.get_paths()
    python = _as_prefixes([paths["stdlib"], paths["platstdlib"]])
    return (*python, *_folders_of_packages(), PACKAGE)


@cache
def _folders_of_caches() -> tuple[str, ...]:
    """Return the folders of the system, and those in which libraries keep settings and downloads:
    hidden ones of the user, and those of tiktoken."""
    from tempfile import gettempdir

    variables = (
        "TIKTOKEN_CACHE_DIR",
        "DATA_GYM_CACHE_DIR",
        "HF_HOME",
        "XDG_CACHE_HOME",
        "NLTK_DATA",
    )
    chosen = [os.environ[name] for name in variables if os.environ.get(name)]
    of_tiktoken = os.path.join(gettempdir(), TOKEN_CACHE)
    prefixes = _as_prefixes([*OF_THE_SYSTEM, *chosen, of_tiktoken])
    # No separator follows the point: all hidden files and folders of the user begin so.
    hidden_of_user = os.path.join(os.path.expanduser("~"), ".")
    return (*prefixes, hidden_of_user)


def _as_prefixes(folders: list[str]) -> tuple[str, ...]:
    """Return how the paths of files in these folders begin."""
    return tuple(os.path.abspath(folder) + os.sep for folder in folders)
