"""Examines the inputs beside the input folder: whether each can be listed, and how much it has."""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from threading import Thread

from pipeline.doctor.finding import Finding, finding_of, guarded
from pipeline.documents.database_rows import RowsError, count_rows, lacking
from pipeline.documents.input_files import Listing
from pipeline.documents.inputs import with_inputs
from pipeline.errors import counted
from pipeline.runs.services import Services
from pipeline.settings.inputs import Input
from pipeline.verbs.load_documents import NO_INPUT

AREA = "settings"
SECONDS = 45.0
"""Time limit of all inputs together, which are listed at the same time. A bucket that does not
answer is given up after half a minute, with a reason of its own."""


def examine_inputs(project: Services) -> Iterator[Finding]:
    """Yield a finding on each input, in the order of the settings.

    An input that has not been listed within SECONDS is a warning. An address is shown at most
    without its secrets.
    """
    sources = [Input.model_validate(each) for each in project.placed_inputs()]
    most_mb = project.settings.input.max_file_mb
    environment = project.keys_of_inputs()
    listed: dict[str, list[Finding]] = {}

    def examine(source: Input) -> None:
        look = partial(_examine_input, source, most_mb, environment)
        listed[source.name] = guarded(AREA, _subject(source), look)

    # A thread that waits for a database or a disk that is silent cannot be ended. A daemon at least
    # does not keep the process from its end.
    threads = [Thread(target=examine, args=(source,), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    for source, thread in zip(sources, threads, strict=True):
        thread.join(max(end - time.monotonic(), 0.0))
        yield from listed.get(source.name) or [_finding_on_silence(source)]


def _subject(source: Input) -> str:
    return f"input {source.prefix.rstrip('/')}"


def _finding_on_silence(source: Input) -> Finding:
    fact = f"not listed within {SECONDS:g} s: it does not answer, or is slow or very large"
    action = "see whether it answers; a run waits for it, or keeps its documents as they were"
    return Finding(AREA, _subject(source), "warning", fact, action)


def _examine_input(
    source: Input, most_mb: int, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the finding on an input that answers or refuses."""
    if source.type == "sql":
        yield _examine_database(source)
    else:
        yield _examine_files(source, most_mb, environment)


def _examine_database(source: Input) -> Finding:
    try:
        rows, columns = count_rows(source)
    except RowsError as error:
        return finding_of(AREA, _subject(source), "failed", str(error))
    if not rows:
        return finding_of(
            AREA, _subject(source), "warning", "its query gives no row; correct its query"
        )
    missing = lacking(source, columns)
    if missing:
        named = " and ".join(f"'{name}'" for name in missing)
        fact = f"{counted(rows, 'row')}, but its query gives no column {named}"
        action = "correct the query, or take it out of metadata"
        return Finding(AREA, _subject(source), "warning", fact, action)
    return Finding(AREA, _subject(source), "ok", counted(rows, "row"))


def _examine_files(source: Input, most_mb: int, environment: Mapping[str, str]) -> Finding:
    files = with_inputs(Listing(()), [source], (), most_mb, most_mb, environment, {}).files
    readable = [file for file in files if not file.fault]
    faulty = [file for file in files if file.fault and file.fault[0] not in NO_INPUT]
    for file in faulty:
        if file.fault and file.name == source.prefix.rstrip("/"):
            # It stands for the whole input, which could not be listed.
            return finding_of(AREA, _subject(source), "failed", file.fault[1])
    fact = f"{counted(len(readable), 'file')} for {source.include}"
    if faulty:
        first = faulty[0]
        why = first.fault[1] if first.fault else ""
        fact = f"{fact}, {len(faulty):,} cannot be read ({first.name}: {why})"
        return Finding(AREA, _subject(source), "warning", fact, "mend them")
    if not readable:
        return finding_of(AREA, _subject(source), "warning", f"{fact}; correct its url or include")
    return Finding(AREA, _subject(source), "ok", fact)
