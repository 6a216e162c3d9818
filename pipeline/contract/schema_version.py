"""The version of what is written, and what a later one has written."""

from pipeline.errors import DataError

SCHEMA_VERSION = 7
UNMARKED = 1
"""The version that did not write itself down."""


def refuse_newer(found: int | None, where: str) -> None:
    """Raises DataError for what a later version has written; ``found`` is None where none is
    written."""
    version = found or UNMARKED
    if version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: written by a newer graphmill (schema {version}; this one reads up to"
            f" {SCHEMA_VERSION}); upgrade graphmill"
        )
