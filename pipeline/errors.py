"""Everything graphmill raises on purpose, with the exit code the command ends with.

    GraphmillError            1
    ├── UsageError            2   the command, or a query, was asked for something that makes no sense
    │   ├── NothingLoadedError 2  a query before the first load
    │   ├── OtherOwnerError   2   the workspace belongs to another project
    │   ├── NotAllowedError   2   who asks may not ask for that
    │   └── SettingsError     2   settings.yaml, .env, a workflow or a prompt is wrong
    │       ├── AuthError     2   an endpoint refused the key
    │       └── NoSuchModelError 2  an endpoint has no model of that name
    ├── DataError             1   a table does not have the shape its schema declares
    │   └── DamagedError      1   a file of the project is not what was written
    ├── VerbError             1   a verb of the user's own raises
    ├── DeletionError         1   more of the documents are gone than max_delete_ratio allows
    ├── ModelError            1   an endpoint cannot be reached or refuses to work
    │   └── PromptTooLongError 1  it refuses a prompt that is longer than its model reads
    ├── DiskFullError         1   a file of the project cannot be written for want of space
    ├── StoreError            1   a database cannot be reached or refuses to work
    │   ├── StoreAuthError    2   it refused the user, the password, or the name of the database
    │   ├── CacheFullError    1   the disk of the cache of replies is full
    │   └── LostConnectionError 1   it went away, or was busy, in the middle: doing the work again may well go through
    ├── ObjectStoreError      1   the object store of the snapshots cannot be reached or refuses to work
    │   └── ObjectStoreAuthError 2  it refused the key, or has no such bucket
    ├── RequestEndedError     1   nobody waits for the answer to a question any more, or its time is up
    ├── WorkerError           1   a process of engine.workers was ended
    ├── LockedError           1   another run holds the project
    │   └── LeaseLostError    1   another client has taken the snapshots over: nothing more is written there
    ├── WaitingError          4   a batch is not ready yet: the next run goes on with it
    └── BudgetError           5   what a run, or who asks, may spend is used up: the next run, or day, goes on
    KeyboardInterrupt       130   Ctrl-C
    └── Terminated          143   SIGTERM

The command's other codes: 0, and 3 for a run with more rejects than max_reject_ratio allows.

Messages read "where: fact; next action"; what other libraries raise is told ``in_words``, a number
of things as ``counted``, an extra that is missing as ``install_extra``.
"""  # noqa: E501

from pathlib import Path

FAILED, USAGE, ABOVE_MAX_REJECTS, WAITING, BUDGET, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143
"""Every exit code but 0; docs/nightly.md says what to do about each."""


class GraphmillError(Exception):
    """Base of all; ``exit_code`` is what the command ends with."""

    exit_code = FAILED


class UsageError(GraphmillError):
    exit_code = USAGE


class NothingLoadedError(UsageError):
    pass


class OtherOwnerError(UsageError):
    pass


class NotAllowedError(UsageError):
    pass


class SettingsError(UsageError):
    pass


class AuthError(SettingsError):
    pass


class NoSuchModelError(SettingsError):
    pass


class DataError(GraphmillError):
    pass


class DamagedError(DataError):
    """``fact``: what is wrong with the file at ``path``."""

    def __init__(
        self, path: Path | str, fact: str, action: str = "delete it and run the workflow again"
    ):
        super().__init__(f"{path}: {fact}; {action}")
        self.path, self.fact = path, fact


class VerbError(GraphmillError):
    """The first line says which step, verb, line and row; the lines below are the user's frames of
    the traceback."""


class DeletionError(GraphmillError):
    pass


class DiskFullError(GraphmillError):
    pass


class ModelError(GraphmillError):
    pass


class PromptTooLongError(ModelError):
    """``fact``: where it was refused, and what the endpoint says; ``sent``: tokens of the prompt as
    we count them, None where that is not known."""

    def __init__(self, fact: str, action: str, sent: int | None = None):
        super().__init__(f"{fact}; {action}")
        self.fact, self.sent = fact, sent


class StoreError(GraphmillError):
    pass


class StoreAuthError(StoreError):
    exit_code = USAGE


class OtherVectorsError(StoreError):
    """A load has ended since the question was embedded, and its vectors are another model's."""


class CacheFullError(StoreError):
    """No call begins any more; the replies of those under way are stored in room that was
    reserved."""


class LostConnectionError(StoreError):
    """What was being done may be done again: nothing of it is left half done."""


class ObjectStoreError(GraphmillError):
    pass


class ObjectStoreAuthError(ObjectStoreError):
    exit_code = USAGE


class RequestEndedError(GraphmillError):
    pass


class WorkerError(GraphmillError):
    pass


class LockedError(GraphmillError):
    pass


class LeaseLostError(LockedError):
    pass


class WaitingError(GraphmillError):
    exit_code = WAITING


class BudgetError(GraphmillError):
    exit_code = BUDGET


class Terminated(KeyboardInterrupt):
    """SIGTERM: all that handles Ctrl-C handles it too."""


def exit_code_of(error: BaseException) -> int:
    """What a run or a command ends with that this has ended."""
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    return error.exit_code if isinstance(error, GraphmillError) else FAILED


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number with its noun, as in "1 night", "2,000 nights"; ``plural`` where that is not the
    noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def install_extra(name: str) -> str:
    """What to do where an extra is missing. graphmill is on no package index: its name there may be
    anybody's."""
    return (
        f"install the extra '{name}' as graphmill was: pip install 'WHEEL[{name}]' with its wheel's"
        f" path, or pip install -e '.[{name}]' in a checkout"
    )


def in_words(error: BaseException) -> str:
    """What an exception of another library says, on one line, without the name of its class, which
    says nothing to who reads it; where it says nothing, or no more than a name, what kind of fault
    it is."""
    said = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, KeyError):
        return f"{said} is missing"
    kind = next(
        (words for known, words in _KINDS.items() if isinstance(error, known)),
        "an unexpected fault",
    )
    return said or kind


_KINDS: dict[type[BaseException], str] = {
    TimeoutError: "no answer in time",
    ConnectionError: "the connection broke",
    OSError: "the system refused it",
    MemoryError: "not enough memory",
    RecursionError: "nested too deeply",
    ImportError: "a package is missing",
    ValueError: "a value that cannot be read",
}
