"""Writes the certificate of a purge: what was removed, when, by which version, and how that was
verified. It names the document, and has none of its content."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.files import write_json
from pipeline.purge.document import PurgeReport
from pipeline.purge.target import KnownDocuments
from pipeline.runs.reports import clock_now
from pipeline.runs.services import Services


def write_certificate(project: Services, report: PurgeReport, file: Path, stores: str) -> None:
    """Write the certificate of a purge that has just ended into a new file.

    The files and tables are searched for the document once more. ``stores`` says how the stores
    compare with the tables. Raises UsageError if the file exists.
    """
    if file.exists():
        raise UsageError(f"{file}: exists already; name a new file")
    write_json(file, _certificate(project, report, stores))


def _certificate(project: Services, report: PurgeReport, stores: str) -> dict[str, Any]:
    known = KnownDocuments(project)
    is_in_a_table: bool | None = known.has(report.document)
    if not is_in_a_table and known.unread:
        # A table that cannot be read may have it.
        is_in_a_table = None
    return {
        "certificate": "purge of a document",
        "document": report.document,
        "document_hash": report.hashed,
        "at": clock_now(),
        "graphmill": version("graphmill"),
        "project": project.known_owner,
        "removed": {
            "file": report.file,
            "rows_of_tables": report.rows,
            "rows_of_stores": report.workspaces,
            "cached_replies": report.forgotten,
            "snapshot_files": report.files,
            "embedded_database_made_anew": report.rebuilt,
        },
        "verification": {
            "in_the_input_folder": known.file(report.document) is not None,
            "in_a_table": is_in_a_table,
            "tables_that_could_not_be_read": len(known.unread),
            "stores": stores,
            "not_reached": dict(report.unreached),
        },
    }
