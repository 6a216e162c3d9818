"""The documents as they are now, made as a run would make them, and not kept."""

from dataclasses import dataclass
from itertools import takewhile

import pandas as pd

from pipeline.engine.deletions import DOCUMENTS, document_changes, documents_before
from pipeline.engine.local import LocalEngine
from pipeline.engine.plan import following
from pipeline.engine.unread import named_sources, with_kept
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import UsageError
from pipeline.snapshots import SnapshotStore

LISTED = ["id", "source", "title", "content_hash"]


@dataclass(frozen=True)
class Present:
    """``sources``: of all documents that are loaded, also where a filter leaves them out; ``unread``: names of the
    sources that were not read, or not whole (engine/unread.py)."""

    documents: pd.DataFrame
    sources: frozenset[str]
    unread: frozenset[str]


def present_documents(workflow: Workflow, snapshots: SnapshotStore, gone: str | None = None) -> Present | None:
    """The table ``documents`` after the steps that load and filter them, with those that a run would keep, but of the
    source ``gone``; None for a workflow without such steps. Raises what these raise."""
    previous = snapshots.manifest(workflow.name)
    tables: dict[str, pd.DataFrame] = {}
    sources: set[str] = set()
    unread: set[str] = set()
    for loads in takewhile(_loads, workflow.steps):
        step = following(loads, previous.steps, snapshots)
        given = {name: tables[table][step.reads[name].columns] for name, table in step.inputs.items()}
        frames = LocalEngine().run(step.verb, given, {"params": step.params} if step.verb.takes_params else {})
        frames = with_kept(step, frames, previous, snapshots, gone)
        unread |= named_sources(frames[REJECTS]) if REJECTS in frames and not step.inputs else set()
        sources |= set(frames[DOCUMENTS]["source"])
        tables |= {table: frames[name] for name, table in step.outputs.items()}
    return Present(tables[DOCUMENTS], frozenset(sources), frozenset(unread)) if DOCUMENTS in tables else None


def changed_documents(workflow: Workflow, snapshots: SnapshotStore) -> pd.DataFrame:
    """A row a document that a run would find ``new``, ``edited`` or ``gone`` (column ``change``), with ``source`` and
    ``title``. Raises what reading the documents raises, UsageError for a workflow that loads none."""
    present = present_documents(workflow, snapshots)
    if present is None:
        raise UsageError(f"workflow '{workflow.name}': it loads no documents; name another")
    now, before = present.documents, documents_before(workflow, snapshots)
    then = snapshots.table(before, LISTED).to_pandas() if before else now.head(0)[LISTED]
    changes = document_changes(then, now)
    titles = {**_titles(then), **_titles(now)}
    told = [(change, source) for change in changes.counts for source in getattr(changes, change)]
    return pd.DataFrame(
        [(change, source, titles[source]) for change, source in told], columns=["change", "source", "title"]
    )


def _titles(documents: pd.DataFrame) -> dict[str, str]:
    return dict(zip(documents["source"], documents["title"], strict=True))


def _loads(step: Step) -> bool:
    return DOCUMENTS in step.outputs and not step.models and not step.prompts
