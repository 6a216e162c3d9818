"""The version of everything that is stored, and the check for files of a later version."""

from pipeline.errors import DataError

SCHEMA_VERSION = 8
UNMARKED = 1
"""The version that files without a version were written by."""


def refuse_newer(found: int | None, where: str) -> None:
    """Raise DataError for something that a later version has stored.

    ``found``: its version, None if it has none. ``where``: names it in the message.
    """
    version = found or UNMARKED
    if version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: written by a newer graphmill (schema {version}; this one reads up to"
            f" {SCHEMA_VERSION}); upgrade graphmill"
        )
