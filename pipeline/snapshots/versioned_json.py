"""JSON files of snapshots that carry the version of their schema."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pipeline.contract.schema_version import SCHEMA_VERSION, refuse_newer
from pipeline.errors import DamagedError
from pipeline.snapshots.folder import Folder

Converted = TypeVar("Converted")


def with_version(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with the present version of the schema."""
    return {**content, "schema_version": SCHEMA_VERSION}


def read_versioned(
    folder: Folder, name: str, convert: Callable[[dict[str, Any]], Converted]
) -> Converted:
    """Read a JSON file, check its version and return what ``convert`` makes of its content.

    Raises FileNotFoundError; DamagedError if the content is not as expected; DataError if a later
    version of graphmill has written it.
    """
    content = folder.read(name)
    path = folder.describe(name)
    version = content.pop("schema_version", None)
    require_fact(version is None or isinstance(version, int), path, "of no known version")
    refuse_newer(version, path)
    try:
        return convert(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedError(path, f"of another version ({error})") from error


def require_fact(holds: bool, path: str, fault: str) -> None:
    """Raise DamagedError for a file whose content is wrong."""
    if not holds:
        raise DamagedError(path, fault)
