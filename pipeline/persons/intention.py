"""The erasures that are under way, noted before the first removal, so that a killed one continues.

    data/erasure.json    {"erasures": given name -> what has to be erased}

The corrections and tables that join names of a person go in the course of an erasure. Without the
note, a second call would know only the given name. It holds names, so only its owner can read it,
and it is deleted with the end of the erasure.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import DamagedError, DataError
from pipeline.files import flush_folder, json_text, read_json, write_private_text
from pipeline.text.ids import match_key

FILE = "data/erasure.json"


@dataclass(frozen=True)
class ErasureIntent:
    """Hold what an erasure has to do.

    - ``names`` are all spellings that were searched for, the given one among them.
    - ``keep`` has the documents that stay, ``purged`` those that are purged.
    - ``deleted`` has the names of entities that corrections delete, in the tables of ``workflow``.
    """

    name: str
    names: tuple[str, ...]
    keep: tuple[str, ...]
    purged: tuple[str, ...]
    deleted: tuple[str, ...] = ()
    workflow: str = ""


@dataclass(frozen=True)
class ErasureIntents:
    """The noted erasures of the project in the folder ``root``."""

    root: Path

    def of(self, name: str) -> ErasureIntent | None:
        """Return the erasure of the person who has this name, or None. Raises DataError if the
        file is damaged."""
        key = match_key(name)
        for intent in self._all().values():
            if key in map(match_key, intent.names):
                return intent
        return None

    def save(self, intent: ErasureIntent) -> None:
        self._save_all({**self._all(), intent.name: intent})

    def end(self, intent: ErasureIntent) -> None:
        left = {name: other for name, other in self._all().items() if name != intent.name}
        if left:
            self._save_all(left)
        else:
            self._path.unlink(missing_ok=True)
            flush_folder(self._path.parent)

    def describe_unended(self) -> str:
        """Return a message about erasures that were broken off, or "". It has no name of a person.

        Raises DataError if the file is damaged.
        """
        if not self._all():
            return ""
        return (
            f"{self._path}: an erasure has not ended; give the same 'graphmill subject NAME"
            " --erase' again until it ends with code 0"
        )

    def _all(self) -> dict[str, ErasureIntent]:
        try:
            erasures = read_json(self._path)["erasures"]
            return {name: _read_intent(name, entry) for name, entry in erasures.items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            raise DataError(
                f"{self._path}: {fact}; an erasure was broken off, and this file names whom: put"
                " your copy of it back, or move it away and erase each spelling of the name"
            ) from error

    def _save_all(self, intents: Mapping[str, ErasureIntent]) -> None:
        content = {name: asdict(intent) for name, intent in intents.items()}
        write_private_text(self._path, json_text({"erasures": content}))

    @property
    def _path(self) -> Path:
        return self.root / FILE


def _read_intent(name: str, entry: Mapping[str, Any]) -> ErasureIntent:
    return ErasureIntent(
        name,
        tuple(map(str, entry["names"])),
        tuple(map(str, entry["keep"])),
        tuple(map(str, entry["purged"])),
        tuple(map(str, entry["deleted"])),
        str(entry["workflow"]),
    )
