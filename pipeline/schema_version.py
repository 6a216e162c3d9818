"""The version of what is kept on disk and in the stores: layouts of files and tables, not of their rows.

It is in every manifest and step record (key ``schema_version``) and in the stores' live row. A Parquet file
does not have it: it would change the file's content hash, and so run every step again.
"""

from pipeline.errors import DataError

SCHEMA_VERSION = 5
UNMARKED = 1
"""The version that did not write itself down."""


def refuse_newer(found: int | None, where: str) -> None:
    """Raises DataError for what a later version has written; ``found`` is None where none is written."""
    version = found or UNMARKED
    if version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: written by a newer graphmill (schema {version}; this one reads up to {SCHEMA_VERSION}); "
            "upgrade graphmill"
        )
