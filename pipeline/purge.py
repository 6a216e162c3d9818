"""Remove a document and every trace of it: file, tables, history, cached replies, rows of the stores, remote files.

Text that a surviving document has too stays. What a database server of one's own keeps in logs and backups is beyond
this (docs/nightly.md).
"""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pipeline.engine.deletions import DOCUMENTS, check_deletions, identities, is_of, without
from pipeline.engine.loading import present_documents
from pipeline.engine.metering import Meter
from pipeline.engine.options import RunOptions
from pipeline.engine.replay import needed_keys
from pipeline.engine.report import RunReport
from pipeline.engine.runner import Silent
from pipeline.engine.usage import Journal
from pipeline.errors import UsageError
from pipeline.gc import collect_garbage
from pipeline.load.remembered import Remembered
from pipeline.services import Services
from pipeline.stages import index_stage, load_stage, run_stages

PURGE = "purge"
"""In usage, the workflow and the step of what abandoned batches have cost."""


@dataclass(frozen=True)
class PurgeReport:
    """``forgotten``: cached replies and vectors; ``files``: snapshots and records; ``rebuilt``: whether the embedded
    PostgreSQL was made anew; ``unowned``: cached replies and vectors of nobody known, which are left."""

    document: str
    runs: tuple[RunReport, ...]
    forgotten: int
    files: int
    rebuilt: bool
    unowned: int = 0


def purge(project: Services, document: str) -> PurgeReport:
    """``document``: its path below the input folder. Broken off anywhere, the same call goes on.

    Raises, before anything is deleted, LockedError while a run is under way, UsageError when it is not below the input
    folder, or is the last document, DeletionError when too many others are gone, WaitingError while the endpoint is
    still cancelling a batch; and what ``run`` raises, StoreError when others read the cache all the time.
    """
    source = _source(project, document)
    with project.runs.alone():
        return _purge(project, source)


def _purge(project: Services, source: str) -> PurgeReport:
    workflows = _workflows(project)
    _refuse_the_last(project, source, workflows)
    _refuse_other_deletions(project, source, workflows)
    _abandon_batches(project)
    (project.input_folder / source).unlink(missing_ok=True)
    live = project.live_workflow()
    options = RunOptions(may_go=source, direct=True)  # a batch would be abandoned again by a purge that goes on
    runs = [run_stages(project, name, Silent(), options, index_stage) for name in workflows]
    rebuilt = _drop_embedded(project)
    Remembered(project.snapshots.root).forget()
    if live in workflows:
        runs.append(run_stages(project, live, Silent(), options, load_stage))
    project.snapshots.sweep()
    collected = collect_garbage(project.snapshots, keep=1, dry_run=False)
    project.runs.forget_before(max((run.run_id for run in runs), default=""))
    keys = [needed_keys(project.workflow(name), project.resources, project.snapshots) for name in workflows]
    forgotten = project.cache.forget_all_but(set().union(*keys))
    return PurgeReport(source, tuple(runs), forgotten, collected.total.files, rebuilt, project.cache.unowned())


def _source(project: Services, document: str) -> str:
    """The path below the input folder."""
    folder = project.input_folder.resolve()
    given = Path(document)
    candidates = [given] if given.is_absolute() else [folder / given, project.root / given, Path.cwd() / given]
    inside = [path.resolve() for path in candidates if path.resolve().is_relative_to(folder)]
    path = next((path for path in inside if path.is_file()), inside[0] if inside else None)
    if path is None or path == folder:
        raise UsageError(f"purge: {document} is not below {folder}; name a file there")
    if path.is_dir():
        raise UsageError(f"purge: {document} is a folder; name one file at a time")
    if not path.exists() and "#" in path.name:
        raise UsageError(
            f"purge: {document} is a record; take it out of {path.name.partition('#')[0]}, then purge with a path "
            "that no longer exists to forget what was known of it"
        )
    return path.relative_to(folder).as_posix()


def _workflows(project: Services) -> list[str]:
    """Those that have tables. Raises UsageError for one whose file is gone: it cannot be run without the document."""
    names = project.snapshots.workflows()
    for name in names:
        if not (project.root / "workflows" / f"{name}.yaml").is_file():
            raise UsageError(
                f"purge: workflow '{name}' has tables but no file; restore workflows/{name}.yaml, or delete "
                f"{project.snapshots.root / f'manifest-{name}.json'} and manifests/{name}"
            )
    return names


def _refuse_the_last(project: Services, source: str, workflows: Sequence[str]) -> None:
    for name in workflows:
        manifest = project.snapshots.manifest(name)
        if "documents" not in manifest.tables:
            continue
        sources = project.snapshots.columns(manifest.tables["documents"], ["source"])["source"]
        if len(sources) and all(is_of(known, source) for known in sources):
            raise UsageError(f"purge: {source} is the only document; delete the folder data instead")


def _refuse_other_deletions(project: Services, source: str, workflows: Sequence[str]) -> None:
    """A purge erases the way back: it is for this document only, and not while the folder is half mounted."""
    for name in workflows:
        before = project.snapshots.manifest(name).tables.get(DOCUMENTS)
        present = present_documents(project.workflow(name))
        if before is not None and present is not None and project.snapshots.exists(before):
            known = identities(project.snapshots, before)
            first = f"if this is meant, 'graphmill run {name} --allow-deletes' first, then purge"
            check_deletions(without(known, source), without(present, source), project.settings.max_delete_ratio, first)


def _abandon_batches(project: Services) -> None:
    with closing(Journal(project.usage_folder, project.runs.new_id(), PURGE)) as journal:
        project.abandon_batches(Meter(PURGE, lambda done, expected: None, journal=journal))


def _drop_embedded(project: Services) -> bool:
    """The embedded PostgreSQL keeps deleted rows in its files: it is made anew by the next load."""
    folder = project.embedded_folder
    if folder is None or not folder.exists():
        return False
    project.stop_stores()
    shutil.rmtree(folder)
    return True
