"""Whether the data folders can be written, and for how long."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.finding import Finding
from pipeline.errors import in_words
from pipeline.settings import Settings

LEAST_FREE = 10**9


def examine_space(root: Path, settings: Settings) -> Iterator[Finding]:
    """A load and a new set of snapshots need about as much again as the snapshots have."""
    snapshots = root / settings.snapshots
    for folder in dict.fromkeys((root / "data", snapshots)):
        place = _nearest(folder)
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            fact = f"{place} cannot be written ({in_words(error)})"
            yield Finding("space", folder.name, "failed", fact, "give the user who runs graphmill the right to write")
            return
    free = shutil.disk_usage(_nearest(snapshots)).free
    used = sum(path.stat().st_size for path in snapshots.rglob("*.parquet"))
    fact = f"{free / 1e9:.1f} GB free, snapshots take {used / 1e9:.2f} GB"
    if free < max(LEAST_FREE, 2 * used):
        action = "make room: 1 GB and twice the snapshots should be free"
        yield Finding("space", "data", "warning", fact, action)
    else:
        yield Finding("space", "data", "ok", fact)


def _nearest(folder: Path) -> Path:
    """The folder, or the one above it in which it would be made."""
    return next(place for place in (folder, *folder.parents) if place.exists())
