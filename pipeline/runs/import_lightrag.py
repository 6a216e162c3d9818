"""Take over an index of LightRAG into a project, before a workflow reads it."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.corrections.conflicts import find_conflict
from pipeline.corrections.decisions import AddStatement, Decision, Rename, StatementDecision
from pipeline.corrections.file import FILE, read_lines, write_decisions
from pipeline.documents.lightrag import copy_index
from pipeline.documents.lightrag_postgres import SCHEMES, copy_tables
from pipeline.errors import UsageError, counted
from pipeline.files import read_json, temporary_folder, write_json
from pipeline.runs.corrections import lock_corrections
from pipeline.runs.services import Services
from pipeline.settings.schema import LightragSettings

if TYPE_CHECKING:
    from pipeline.documents.lightrag_edits import ReadRows
    from pipeline.verbs.read_lightrag import LightragIndex

WRITTEN = "data/lightrag-corrections.json"
"""The file with the ids of the corrections that imports have added."""
SHOWN = 3
"""The number of names that a note shows."""
_ADDRESS = re.compile(r"\s*(?P<scheme>[A-Za-z][\w+.-]+):/|.*\bpassword=", re.DOTALL)
"""The beginning of an address, which may have a password. A Path makes one slash of two."""


def take_index(
    project: Services,
    source: str | Path,
    workspace: str,
    check: "Callable[[LightragIndex], None]",
) -> "LightragIndex":
    """Copy an index to the project, so that later runs need LightRAG no more. Return what it has.

    ``source`` is a folder, or the address of a PostgreSQL, whose ``workspace`` is read. Nothing is
    copied if settings name this folder as ``lightrag.path``, or if ``check`` raises an error.
    Raises UsageError if they name another one, which may be in use by LightRAG. Raises as
    ``copy_index`` and ``copy_tables``.
    """
    from pipeline.verbs.read_lightrag import examine_lightrag

    found: list[LightragIndex] = []

    def examine(folder: Path) -> None:
        index = examine_lightrag(folder)
        check(index)
        found.append(index)

    target = project.lightrag_folder
    is_address = _is_address(source)
    if not is_address and Path(source).resolve() == target.resolve():
        examine(target)
        return found[0]
    if project.settings.lightrag.path != LightragSettings().path:
        raise UsageError(
            f"lightrag.path: it names {target}, another place than that of the index; import this"
            " one, or remove lightrag.path from settings.yaml"
        )
    if is_address:
        copy_tables(str(source), workspace, target, examine)
    else:
        copy_index(Path(source), target, examine)
    return found[0]


@contextmanager
def open_index(source: str | Path, workspace: str = "") -> Iterator[Path]:
    """Give the folder of an index; that of a PostgreSQL is copied to a temporary one."""
    if not _is_address(source):
        yield Path(source).resolve()
        return
    with temporary_folder("graphmill-lightrag-") as folder:
        copy_tables(str(source), workspace, folder / "index")
        yield folder / "index"


def _is_address(source: str | Path) -> bool:
    """Return whether an index is in a PostgreSQL, and not in a folder.

    Raises UsageError for any other address, without it: it may have a password.
    """
    address = str(source)
    if address.startswith(SCHEMES):
        return True
    other = _ADDRESS.match(address)
    if other and not Path(address).exists():
        raise UsageError(
            f"import lightrag: {other['scheme'] or 'such an address'} is not read; name LightRAG's"
            " working folder, or its PostgreSQL by postgresql://USER@HOST:PORT/DATABASE, with the"
            " password in PGPASSWORD"
        )
    return False


def take_edits(project: Services, index: "LightragIndex") -> list[str]:
    """Add a line to corrections.jsonl for each edit of a person in the index, and return notes.

    A line of an earlier import whose edit the index no longer has is removed. It stays where the
    index has not every reply about its nodes, as an edit of these is not found. A line that
    somebody has taken back or changed since is not added again. All lines stay if the graph cannot
    be read.
    """
    found = index.edits
    if found is None:
        kept = "corrections of earlier imports stay as they are"
        return [f"edits by hand: the index has no whole graph that can be read; {kept}"]
    decisions = {one.id: one for _, one in found if one is not None}
    added, hidden, refused = _sync(project, decisions, index.read_rows)
    notes: list[str] = []
    if hidden:
        shown = ", ".join(hidden[:SHOWN])
        notes.append(
            f"{FILE}: {counted(len(hidden), 'correction')} of earlier imports ({shown}) stay, as"
            " the index lacks replies about their nodes; let LightRAG finish, and import again, or"
            " take them back by 'graphmill corrections undo'"
        )
    if added:
        notes.append(f"{FILE}: {counted(added, 'correction')} of edits in LightRAG")
    for decision, fact in refused:
        notes.append(f"{FILE}: {decision.id} of an edit in LightRAG is not added: {fact}")
    lost = [edit.place for edit, decision in found if decision is None]
    if lost:
        shown = ", ".join(lost[:SHOWN])
        notes.append(f"{counted(len(lost), 'edit')} cannot be a correction ({shown}); see rejects")
    return notes


def _sync(
    project: Services, decisions: dict[str, Decision], read_rows: "ReadRows"
) -> tuple[int, list[str], list[tuple[Decision, str]]]:
    """Bring corrections.jsonl up to date with these decisions.

    Return the number of those that were added, the ids of lines that stay though their edit is not
    found, and the decisions that contradict a line, with the fact.
    """
    from pipeline.verbs.read_lightrag import BY

    file, record = project.root / FILE, project.root / WRITTEN
    refused: list[tuple[Decision, str]] = []
    with lock_corrections(project):
        written = set(read_json(record)["ids"]) if record.is_file() else set[str]()
        lines = [line.decision for line in read_lines(file)]
        unfound = {one.id: one for one in lines if one.id in written and one.id not in decisions}
        later = set(map(_subject_of, decisions.values()))
        hidden = {
            id: one
            for id, one in unfound.items()
            if _subject_of(one) not in later and not _is_undone(one, read_rows)
        }
        kept = [one for one in lines if one.id not in unfound or one.id in hidden]
        present = {one.id for one in kept} | written
        new = [decision for id, decision in decisions.items() if id not in present]
        before = len(kept)
        _add_without_conflict(new, kept, refused)
        added = len(kept) - before
        if kept != lines:
            write_decisions(file, kept)
        of_imports = {one.id for one in kept if one.id in written or one.by == BY}
        ids = of_imports & (decisions.keys() | hidden.keys())
        # What somebody has taken back stays so. Nobody knows which nodes it was about.
        taken_back = written - {one.id for one in lines}
        ids |= taken_back & decisions.keys() if read_rows.is_whole else taken_back
        if ids or written:
            write_json(record, {"ids": sorted(ids)})
    return added, list(hidden), refused


def _is_undone(decision: Decision, read_rows: "ReadRows") -> bool:
    """Check that a person has undone an edit that the index does not show."""
    if isinstance(decision, Rename):
        return read_rows.shows_node(decision.entity) or read_rows.shows_node(decision.to)
    if isinstance(decision, StatementDecision):
        ends = decision.source, decision.target
        # What a person has made goes with a node, or by a person.
        is_removed = isinstance(decision, AddStatement) and read_rows.lacks_edge(*ends)
        return is_removed or read_rows.shows_edge(*ends)
    return read_rows.shows_node(str(getattr(decision, "entity", "")))


def _subject_of(decision: Decision) -> tuple[str, ...]:
    """Return what a decision is about: its kind, and the names of its node or edge."""
    fields = decision.model_dump(include={"kind", "entity", "source", "target"})
    return tuple(f"{key}={value}" for key, value in sorted(fields.items()))


def _add_without_conflict(
    new: Sequence[Decision], kept: list[Decision], refused: list[tuple[Decision, str]]
) -> None:
    """Add to ``kept``, in their order, the new decisions that contradict none before them.

    The others are added to ``refused``, with the fact. Halves are tried where all together
    contradict something, since each look goes through all decisions.
    """
    conflict = find_conflict([*kept, *new])
    if conflict is None:
        kept.extend(new)
    elif len(new) == 1:
        refused.append((new[0], conflict.fact))
    else:
        middle = len(new) // 2
        _add_without_conflict(new[:middle], kept, refused)
        _add_without_conflict(new[middle:], kept, refused)
