"""Remove a document and every trace of it: file, tables, history, cached replies, rows of the stores, remote files.

Text that a surviving document has too stays. What a database server of one's own keeps in logs and backups is beyond
this (docs/nightly.md).
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.engine.options import RunOptions
from pipeline.engine.replay import needed_keys
from pipeline.engine.report import RunReport
from pipeline.errors import UsageError
from pipeline.gc import collect_garbage

if TYPE_CHECKING:
    from pipeline.project import Project

ALLOWING = RunOptions(allow_deletes=True)


@dataclass(frozen=True)
class PurgeReport:
    """``forgotten``: cached replies and vectors; ``files``: snapshots and records; ``rebuilt``: whether the embedded
    PostgreSQL was made anew."""

    document: str
    runs: tuple[RunReport, ...]
    forgotten: int
    files: int
    rebuilt: bool


def purge(project: "Project", document: str) -> PurgeReport:
    """``document``: its path below the input folder. Broken off anywhere, the same call goes on.

    Raises UsageError when it is not below the input folder, or is the last document; and what ``run`` raises.
    """
    source = _source(project, document)
    workflows = _workflows(project)
    _refuse_the_last(project, source, workflows)
    project.abandon_batches()
    (project.input_folder / source).unlink(missing_ok=True)
    live = project.live_workflow()
    runs = tuple(project.index(name, options=ALLOWING) for name in workflows)
    rebuilt = _drop_embedded(project)
    if live in workflows:
        runs += (project.load(live),)
    with project.runs.alone():
        project.snapshots.sweep()
        collected = collect_garbage(project.snapshots, keep=1, dry_run=False)
        project.runs.forget_before(max((run.run_id for run in runs), default=""))
    keys = [needed_keys(project.workflow(name), project.resources, project.snapshots) for name in workflows]
    forgotten = project.cache.forget_all_but(set().union(*keys))
    return PurgeReport(source, runs, forgotten, collected.total.files, rebuilt)


def _source(project: "Project", document: str) -> str:
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


def _workflows(project: "Project") -> list[str]:
    """Those that have tables. Raises UsageError for one whose file is gone: it cannot be run without the document."""
    names = project.snapshots.workflows()
    for name in names:
        if not (project.root / "workflows" / f"{name}.yaml").is_file():
            raise UsageError(
                f"purge: workflow '{name}' has tables but no file; restore workflows/{name}.yaml, or delete "
                f"{project.snapshots.root / f'manifest-{name}.json'} and manifests/{name}"
            )
    return names


def _refuse_the_last(project: "Project", source: str, workflows: Sequence[str]) -> None:
    for name in workflows:
        manifest = project.snapshots.manifest(name)
        if "documents" not in manifest.tables:
            continue
        sources = project.snapshots.columns(manifest.tables["documents"], ["source"])["source"]
        if len(sources) and all(_is_of(known, source) for known in sources):
            raise UsageError(f"purge: {source} is the only document; delete the folder data instead")


def _is_of(known: str, source: str) -> bool:
    """Records of a file are documents of their own: ``file#key``."""
    return known == source or known.startswith(f"{source}#")


def _drop_embedded(project: "Project") -> bool:
    """The embedded PostgreSQL keeps deleted rows in its files: it is made anew by the next load."""
    folder = project.embedded_folder
    if folder is None or not folder.exists():
        return False
    project.stop_stores()
    shutil.rmtree(folder)
    return True
