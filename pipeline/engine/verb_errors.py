"""Errors in a verb of the user's own, described by the step, the file and line, the row, and the
user's frames. A verb that reads a file and declares no stamp is such an error."""

import inspect
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import pipeline
from pipeline.contract.conversion import Converter
from pipeline.engine.unstamped_reads import OutsideRead, watched_reads
from pipeline.engine.workflow import Step
from pipeline.errors import GraphmillError, UnstampedReadError, VerbError, counted
from pipeline.models.base import ChatModel, EmbeddingModel

Made = dict[str, pd.DataFrame]
PACKAGE = Path(pipeline.__file__).parent
ASKED = (ChatModel, EmbeddingModel, Converter)
"""Roles of a verb that cost money or much time: such a verb is not called again to find the row."""
LONGEST_CALL = 10.0
"""Seconds. The search for the row takes about as long as the call that failed."""


def call_verb(step: Step, inputs: Mapping[str, pd.DataFrame], call: Callable[..., Made]) -> Made:
    """Return ``call(inputs)``, which calls the step's verb.

    Raises VerbError where a verb of the user's own raises, UnstampedReadError where it reads a file
    and declares no stamp; what a verb of this package raises is not changed.
    """
    if step.verb.stamp or not is_own(step):
        return _call_described(step, inputs, call)
    with watched_reads(file_of(step)) as reads:
        try:
            made = _call_described(step, inputs, call)
        except Exception as error:
            # The file may be the cause of the exception, such as one that is missing.
            if reads:
                raise UnstampedReadError(describe_reads(step, reads)) from error
            raise
    if reads:
        raise UnstampedReadError(describe_reads(step, reads))
    return made


def _call_described(
    step: Step, inputs: Mapping[str, pd.DataFrame], call: Callable[..., Made]
) -> Made:
    """Return ``call(inputs)``; an exception of a verb of the user's own becomes a VerbError."""
    began = time.monotonic()
    try:
        return call(inputs)
    except (GraphmillError, MemoryError):
        raise
    except Exception as error:
        if not is_own(step):
            raise
        may_search = time.monotonic() - began <= LONGEST_CALL
        row = failing_row(step, inputs, call, type(error)) if may_search else ""
        raise VerbError(describe(step, error, row)) from error


def is_own(step: Step) -> bool:
    """Check whether the step's verb is defined outside this package."""
    return not file_of(step).is_relative_to(PACKAGE)


def file_of(step: Step) -> Path:
    """Return the file that defines the step's verb."""
    return Path(inspect.unwrap(step.verb.function).__code__.co_filename)


def describe(step: Step, error: Exception, row: str) -> str:
    """Return a line about the error, and below it the frames of the user's own folder."""
    folder = file_of(step).parent
    own_frames: list[traceback.FrameSummary] = []
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        # This package may be installed below the user's folder.
        if file.is_relative_to(folder) and not file.is_relative_to(PACKAGE):
            own_frames.append(frame)
    where = ""
    if own_frames:
        innermost = own_frames[-1]
        where = f" ({Path(innermost.filename).name}:{innermost.lineno})"
    message = traceback.format_exception_only(error)[-1]
    # The message of an exception may have many lines, as where it repeats a text.
    what = " ".join(message.split())
    fact = (
        f"step '{step.id}': verb '{step.verb.name}'{where} raised {what}{row}; correct the verb,"
        " then run again"
    )
    lines = "".join(traceback.format_list(own_frames)).rstrip()
    return f"{fact}\n{lines}" if lines else fact


def describe_reads(step: Step, reads: Sequence[OutsideRead]) -> str:
    """Return what a verb without a stamp has read, and what to do."""
    first = reads[0]
    others = {read.what for read in reads}
    others.discard(first.what)
    more = f", and {counted(len(others), 'other file')}" if others else ""
    return (
        f"step '{step.id}': verb '{step.verb.name}' ({first.place}) {first.what}{more}, and"
        " declares no stamp, so that an edit of it would change nothing; declare a stamp, pass the"
        " content in a param, or read it by a source verb with a stamp (docs/verbs.md)"
    )


def failing_row(
    step: Step,
    inputs: Mapping[str, pd.DataFrame],
    call: Callable[..., Made],
    expected: type[Exception],
) -> str:
    """Return words that name a row of which alone the verb raises ``expected``; "" where none is
    found.

    Only rowwise verbs without models are called again: halves of the rows, then quarters, and so
    on.
    """
    rowwise = step.verb.rowwise
    asks = any(kind in ASKED for kind in step.verb.roles.values())
    if rowwise is None or asks or rowwise not in inputs:
        return ""

    def raises(rows: pd.DataFrame) -> bool:
        try:
            call({**inputs, rowwise: rows})
        except expected:
            return True
        except Exception:  # noqa: BLE001 - another fault of these rows is not the one that is looked for
            return False
        return False

    rows = inputs[rowwise]
    while len(rows) > 1:
        middle = len(rows) // 2
        first, second = rows.iloc[:middle], rows.iloc[middle:]
        rows = first if raises(first) else second
    if rows.empty or not raises(rows):
        return ""
    return f", on the row {name_of(rows)} of '{rowwise}'"


def name_of(row: pd.DataFrame) -> str:
    """Return the id of a table of one row, or its first cell."""
    cell: Any = row["id"].iloc[0] if "id" in row.columns else row.iloc[0, 0]
    return repr(str(cell))
