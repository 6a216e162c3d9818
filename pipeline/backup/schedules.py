"""Moves the schedule of a restored project to its new folder.

A schedule names the folder of its project: left as it is, that of a copy would run the original.
"""

from pathlib import Path

from pipeline.errors import UsageError
from pipeline.settings.init import NIGHTLY, schedule_examples
from pipeline.settings.schedules import PROJECT, as_schedule, find_unpriced
from pipeline.settings.schema import Settings

ASIDE = ".original"


def move_schedules(restored: Path, original: Path, folder: Path, settings: Settings) -> list[str]:
    """Rewrite the files of nightly/ that name the original's folder, and return notes.

    ``restored`` has the files, which get the name ``folder`` later. A file as ``init --nightly``
    has written it is written for the new folder. One that its owner has edited, or that was written
    on another machine, is renamed, so that no schedule takes it by accident.
    """
    if folder.absolute() == original:
        return []
    examples = {path.name: path.read_text(encoding="utf-8") for path in schedule_examples()}
    moved: list[str] = []
    aside: list[str] = []
    for path in sorted((restored / NIGHTLY).glob("*")):
        if not path.is_file():
            continue
        text = path.read_bytes().decode(errors="replace")
        example = examples.get(path.name, "")
        # What the original's path is quoted as depends on the file, so each example that names a
        # project counts as naming it.
        if PROJECT not in example and str(original) not in text:
            continue
        new = _for_new_folder(path.name, text, example, original, folder, settings)
        if new:
            # Not by a new file: nightly.sh stays executable.
            path.write_text(new, encoding="utf-8")
            moved.append(path.name)
        else:
            path.rename(_free_name(path))
            aside.append(path.name)
    notes: list[str] = []
    if moved:
        notes.append(
            f"restore: written for this folder in {NIGHTLY}/: {', '.join(moved)}; no schedule runs"
            " it before you install it"
        )
    if aside:
        notes.append(
            f"restore: {', '.join(aside)} in {NIGHTLY}/ may run {original}, so each is renamed to"
            f" NAME{ASIDE}; 'graphmill -C {folder} init --nightly' writes new ones, into which you"
            " can copy your changes"
        )
    return notes


def _free_name(path: Path) -> Path:
    """Return the name for a file that is put aside. A copy of a copy may have one already."""
    aside = path.with_name(f"{path.name}{ASIDE}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}{ASIDE}")
    return aside


def _for_new_folder(
    name: str, text: str, example: str, original: Path, folder: Path, settings: Settings
) -> str:
    """Return the text for the new folder, or "" if the file is not as this machine writes it."""
    try:
        for unpriced in ("", find_unpriced(settings)):
            if example and text == as_schedule(name, example, original, unpriced):
                return as_schedule(name, example, folder, unpriced)
    except UsageError:
        # The command graphmill is not installed, so the file would name none.
        return ""
    return ""
