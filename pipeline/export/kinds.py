"""The kinds of export, by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.export.csv import write_csv
from pipeline.export.exported import Exported, check_folder
from pipeline.export.graphml import write_graphml
from pipeline.export.graphrag_parquet import write_graphrag_parquet
from pipeline.export.neo4j_admin import write_neo4j_admin
from pipeline.export.source import Source

KINDS: Mapping[str, Callable[[Source, Path], Exported]] = {
    "graphml": write_graphml,
    "csv": write_csv,
    "neo4j-admin": write_neo4j_admin,
    "parquet": write_graphrag_parquet,
}


def export(kind: str, source: Source, folder: Path, force: bool = False) -> Exported:
    """Write the source's tables below the folder, made if need be.

    Raises UsageError for an unknown kind, a folder that is not empty (unless ``force``) or not to be written to, and
    tables that are not there; DataError when a snapshot is damaged.
    """
    if kind not in KINDS:
        raise UsageError(f"export: no kind '{kind}'; have: {', '.join(KINDS)}")
    try:
        check_folder(folder, force)
        return KINDS[kind](source, folder)
    except OSError as error:
        raise UsageError(f"export: {folder}: {error.strerror or error}; name a folder you may write to") from error
