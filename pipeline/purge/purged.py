"""The list of purged documents, by keyed hashes of their names, so that they stay purged.

    data/purged.json    {"documents": hash of a name -> day of its purge,
                         "persons": hash of an erased name -> what else is known of it}
    data/purged-key     the secret key of the hashes, without which names could be guessed

A backup that is older than a purge still has the document. A restore therefore compares what a
backup has with the list of the present project, and an import what it brings with the list here.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import DamagedError, DataError, UsageError
from pipeline.files import alone_in, read_json, secret_in, write_json, write_text
from pipeline.purge.erased_names import ErasedName, ErasedNames
from pipeline.runs.owner import has_project
from pipeline.text.ids import is_syllabic
from pipeline.text.named import words_of

LIST = "data/purged.json"
KEY = "data/purged-key"
_ARCHIVE = re.compile(r".+?\.zip(?=/)", re.IGNORECASE)


@dataclass(frozen=True)
class PurgedDocuments:
    """The list in two files: that of the hashes, and that of their key."""

    list: Path
    key: Path

    @classmethod
    def of(cls, root: Path) -> "PurgedDocuments":
        return cls(root / LIST, root / KEY)

    @classmethod
    def at(cls, place: Path, owner: str) -> "PurgedDocuments":
        """Return the list of a project's folder, or that of a copied file with its key beside it.

        Raises UsageError if one of the two files is missing, or if the folder is not that of the
        project of this owner.
        """
        if place.is_dir():
            # Any other folder has no list either, and would count as one without a purge.
            if not has_project(place, owner):
                raise UsageError(
                    f"{place}: not the folder of the project that was backed up; name the present"
                    f" project's folder, or a copy of its {LIST} with {Path(KEY).name} beside it"
                )
            found = cls.of(place)
            # A project that has never purged anything has an empty list.
            if not found.list.exists():
                return found
        else:
            found = cls(place, place.parent / Path(KEY).name)
        for file in (found.list, found.key):
            if not file.is_file():
                raise UsageError(
                    f"{file}: no such file; name the present project's folder, or a copy of its"
                    f" {LIST} with {Path(KEY).name} beside it"
                )
        return found

    def all(self) -> dict[str, str]:
        """Return the day of each purge by the hash of the name. Raises DataError if damaged."""
        try:
            return {str(one): str(day) for one, day in read_json(self.list)["documents"].items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError) as error:
            raise DataError(
                f"{self.list}: damaged, so purged documents are not known; put a copy in its place"
            ) from error

    def erased_names(self) -> ErasedNames:
        """Return a search for the names of erased persons.

        Raises DataError if the list is damaged or has lost its key.
        """
        self.require_key()
        return ErasedNames(self._persons(), self._hash_name)

    def is_empty(self) -> bool:
        return not self.all() and not self._persons()

    def note(self, source: str) -> str:
        """Add a document to the list, and return the hash of its name.

        Raises DataError if the list has lost its key: a new one would not fit the other hashes.
        """
        self.require_key()
        with alone_in(self.list.parent):
            hashed = self._hash_name(source)
            self._save({**self.all(), hashed: _today()}, self._persons())
        return hashed

    def note_names(self, names: Iterable[str], deleted: bool) -> None:
        """Add the names of an erased person to the list.

        ``deleted`` says that the entity was deleted, for documents with the name were kept. Raises
        DataError if the list has lost its key.
        """
        self.require_key()
        with alone_in(self.list.parent):
            persons = dict(self._persons())
            for name in names:
                words = words_of(name)
                # A name without spaces is looked for by its characters, not by its words.
                has_no_spaces = any(map(is_syllabic, name))
                length = len(words) if has_no_spaces else len(words.split())
                hashed = self._hash_name(words)
                earlier = persons.get(hashed)
                # A second erasure that keeps nothing takes no deletion back.
                is_deleted = deleted or (earlier is not None and earlier.is_deleted)
                persons[hashed] = ErasedName(_today(), length, has_no_spaces, is_deleted)
            self._save(self.all(), persons)

    def take_over(self, other: "PurgedDocuments") -> None:
        """Replace this list and its key by those of another project.

        Lists with the same key are merged. Hashes of another key mean nothing to this one.
        """
        if not other.is_empty():
            documents, persons = other.all(), other._persons()
            if self.key.exists() and self.key.read_bytes() == other.key.read_bytes():
                documents = {**self.all(), **documents}
                persons = {**self._persons(), **persons}
            self.key.unlink(missing_ok=True)
            write_text(self.key, other.key.read_text(encoding="utf-8"))
            self.key.chmod(0o600)
            self._save(documents, persons)

    def among(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the purged documents that these sources are or belong to, each with its day.

        Raises DataError if the list has lost its key.
        """
        self.require_key()
        documents = self.all()
        if not documents:
            return {}
        names: set[str] = set()
        for source in sources:
            names.update(names_within(source))
        day_of: dict[str, str] = {}
        for name in sorted(names):
            hashed = self._hash_name(name)
            if hashed in documents:
                day_of[name] = documents[hashed]
        return day_of

    def require_key(self) -> None:
        """Raise DataError if the list has entries, but not the key by which they are known."""
        if not self.is_empty() and not self.key.exists():
            raise DataError(
                f"{self.list}: its key {self.key} is gone, so purged documents are not known; put"
                " your copy of the key there; if there is none, move the list away, and know that a"
                " restore or an import may bring back what was purged"
            )

    def _hash_name(self, source: str) -> str:
        key = secret_in(self.key).encode()
        # The name of a file may have bytes that are no text, which stand as lone surrogates.
        name = source.encode(errors="surrogatepass")
        return hmac.new(key, name, hashlib.sha256).hexdigest()

    def _persons(self) -> dict[str, ErasedName]:
        try:
            persons = read_json(self.list).get("persons", {})
            return {str(hashed): ErasedName(**fields) for hashed, fields in persons.items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, TypeError) as error:
            raise DataError(
                f"{self.list}: damaged, so erased persons are not known; put a copy in its place"
            ) from error

    def _save(self, documents: Mapping[str, str], persons: Mapping[str, ErasedName]) -> None:
        content: dict[str, object] = {"documents": dict(sorted(documents.items()))}
        if persons:
            entries = {hashed: asdict(persons[hashed]) for hashed in sorted(persons)}
            content["persons"] = entries
        write_json(self.list, content)


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def names_within(source: str) -> Iterator[str]:
    """Yield the names by which a document may have been purged: its own, its file, its archive."""
    yield source
    file, _, _ = source.rpartition("#")
    if file:
        yield file
    archive = _ARCHIVE.match(source)
    if archive:
        yield archive[0]


def refuse_purged(root: Path, sources: Iterable[str], action: str) -> None:
    """Raise UsageError if one of the sources was purged from the project in this folder.

    ``action`` names the command in the message.
    """
    found = PurgedDocuments.of(root).among(sources)
    if found:
        listed = ", ".join(f"{name} (on {day})" for name, day in found.items())
        raise UsageError(
            f"{action}: it would bring back what was purged: {listed}; take that out of it, then"
            " import it again"
        )
