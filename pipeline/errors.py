"""Every error that graphmill raises on purpose, with the exit code of the command that it ends.

    GraphmillError            1
    ├── UsageError            2   a command or a query asks for something that makes no sense
    │   ├── NothingLoadedError 2  a query came before the first load
    │   ├── OtherOwnerError   2   the workspace belongs to another project
    │   ├── NotAllowedError   2   the caller has no permission for this
    │   └── SettingsError     2   settings.yaml, .env, a workflow or a prompt is wrong
    │       ├── AuthError     2   an endpoint refused the key
    │       └── NoSuchModelError 2  an endpoint has no model of that name
    ├── DataError             1   a table does not have the shape that its schema declares
    │   └── DamagedError      1   the content of a project's file is not what was written
    ├── VerbError             1   a verb of the user's own raised an exception
    │   └── UnstampedReadError 1  it reads a file and declares no stamp
    ├── DeletionError         1   more documents are gone than max_delete_ratio allows
    ├── ModelError            1   an endpoint cannot be reached or refuses to work
    │   └── PromptTooLongError 1  an endpoint refused a prompt longer than its model reads
    ├── DiskFullError         1   the disk has no space for a file of the project
    ├── StoreError            1   a database cannot be reached or refuses to work
    │   ├── StoreAuthError    2   it refused the user, the password or the name of the database
    │   ├── OtherVectorsError 1   its vectors were replaced by another model's during a query
    │   ├── CacheFullError    1   the disk of the cache of replies is full
    │   └── LostConnectionError 1   the connection broke or the database was busy; retrying may work
    ├── ObjectStoreError      1   the object store of the snapshots cannot be reached or refuses
    │   └── ObjectStoreAuthError 2  it refused the key, or has no such bucket
    ├── RequestEndedError     1   the caller of a query has gone, or its time is up
    ├── WorkerError           1   a process of engine.workers was ended
    ├── LockedError           1   another run holds the project
    │   └── LeaseLostError    1   another client took over the snapshots; this one may not write
    ├── WaitingError          4   a batch is not ready yet; the next run continues with it
    └── BudgetError           5   the budget of a run or a caller is used up; the next run or day
                                  continues
    KeyboardInterrupt       130   Ctrl-C
    └── Terminated          143   SIGTERM

A command also ends with 0, or with 3 if a run has more rejects than max_reject_ratio allows.

Messages read "where: fact; next action". Use ``in_words`` for the exceptions of other libraries,
``counted`` for a number of things, and ``install_extra`` for an extra that is missing.
"""

from pathlib import Path

FAILED, USAGE, ABOVE_MAX_REJECTS, WAITING, BUDGET, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143
"""Every exit code but 0. docs/after-a-failure.md says what to do about each of them."""


class GraphmillError(Exception):
    """Base class of all errors. ``exit_code`` is the code with which the command ends."""

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
    """Report a damaged file: ``fact`` says what is wrong with the file at ``path``."""

    def __init__(
        self, path: Path | str, fact: str, action: str = "move it away and run the workflow again"
    ):
        super().__init__(f"{path}: {fact}; {action}")
        self.path, self.fact = path, fact


class VerbError(GraphmillError):
    """Report an exception of a user's verb.

    The first line of the message names the step, the verb, the line and the row. The lines below it
    are the traceback's frames in the user's code.
    """


class UnstampedReadError(VerbError):
    """Report a file that a user's verb reads, although nothing tells that the file was edited."""


class DeletionError(GraphmillError):
    pass


class DiskFullError(GraphmillError):
    pass


class ModelError(GraphmillError):
    pass


class PromptTooLongError(ModelError):
    """Report a prompt that an endpoint refused because of its length.

    ``fact`` says where the prompt was refused and what the endpoint answered. ``sent`` is the
    number of its tokens as graphmill counts them, or None if that is not known.
    """

    def __init__(self, fact: str, action: str, sent: int | None = None):
        super().__init__(f"{fact}; {action}")
        self.fact, self.sent = fact, sent


class StoreError(GraphmillError):
    pass


class StoreAuthError(StoreError):
    exit_code = USAGE


class OtherVectorsError(StoreError):
    """Report that a load ended after the question was embedded, and stored another model's
    vectors."""


class CacheFullError(StoreError):
    """Report that the cache has no space left for replies.

    No further call begins. The replies of calls under way are stored in disk space that was
    reserved for them.
    """


class LostConnectionError(StoreError):
    """Report a lost connection. The work can be repeated, because nothing of it is left half
    done."""


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
    """The exception that SIGTERM raises. Code that handles Ctrl-C handles it as well."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a run or command that ended with this exception."""
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    return error.exit_code if isinstance(error, GraphmillError) else FAILED


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun, as in "1 run" or "2,000 runs".

    ``plural`` is needed if the plural is not the noun and an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def install_extra(name: str) -> str:
    """Return the instruction to install a missing extra from the wheel or the checkout.

    graphmill is on no package index, where anybody may have taken its name.
    """
    return (
        f"install the extra '{name}' as graphmill was: pip install 'WHEEL[{name}]' with its wheel's"
        f" path, or pip install -e '.[{name}]' in a checkout"
    )


def in_words(error: BaseException) -> str:
    """Return what an exception of another library says, on one line.

    The text leaves out the name of the exception's class, which means nothing to a user. If the
    exception has no text, the result names the kind of fault. A KeyError's text is only a name, so
    "is missing" follows it.
    """
    said = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, KeyError):
        return f"{said} is missing"
    if said:
        return said
    for kind, words in _KINDS.items():
        if isinstance(error, kind):
            return words
    return "an unexpected fault"


# A subclass comes before its base class: the first match counts.
_KINDS: dict[type[BaseException], str] = {
    TimeoutError: "no answer in time",
    ConnectionError: "the connection broke",
    OSError: "the system refused it",
    MemoryError: "not enough memory",
    RecursionError: "nested too deeply",
    ImportError: "a package is missing",
    ValueError: "a value that cannot be read",
}
