"""The names of erased persons, known by keyed hashes alone, and the lines that have one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.corrections.decisions import Decision, DeleteEntity
from pipeline.corrections.file import FILE as CORRECTIONS
from pipeline.corrections.file import read_lines, write_decisions
from pipeline.files import alone_in, lines_of, write_text
from pipeline.runs.corrections import lock_corrections
from pipeline.runs.services import Services
from pipeline.text.named import NameSearch, words_of

QUESTIONS = "data/questions.jsonl"
"""The questions with which the project is evaluated."""


@dataclass(frozen=True)
class ErasedName:
    """The facts that are kept of an erased name beside its hash.

    ``length`` counts words, or characters if ``is_syllabic``: such names stand anywhere in a text.
    ``is_deleted`` is true if documents with the name were kept, so that the entity was deleted.
    """

    day: str
    length: int
    is_syllabic: bool
    is_deleted: bool


@dataclass(frozen=True)
class ErasedNames(NameSearch):
    """A search for erased names: each part of a text that may be one is hashed and compared."""

    names: Mapping[str, ErasedName]
    hash_name: Callable[[str], str]

    def are_in(self, text: str) -> bool:
        parts = self._parts(words_of(text))
        return any(self.hash_name(part) in self.names for part in parts)

    def is_deleted(self, name: str) -> bool:
        """Return whether this is the whole name of an entity that was deleted."""
        found = self.names.get(self.hash_name(words_of(name)))
        return found is not None and found.is_deleted

    def _parts(self, text: str) -> Iterator[str]:
        """Yield the parts of a text that are as long as one of the names."""
        words = text.split()
        lengths = {(name.length, name.is_syllabic) for name in self.names.values()}
        for length, is_syllabic in lengths:
            if is_syllabic:
                for start in range(len(text) - length + 1):
                    yield text[start : start + length]
            else:
                for start in range(len(words) - length + 1):
                    yield " ".join(words[start : start + length])


def remove_questions(root: Path, names: NameSearch) -> int:
    """Remove the questions of evaluations that have one of the names; return their number."""
    file = root / QUESTIONS
    if not file.is_file():
        return 0
    with alone_in(file.parent):
        lines = lines_of(file)
        kept = [line for line in lines if not names.are_in_line(line)]
        if len(kept) < len(lines):
            write_text(file, "".join(f"{line}\n" for line in kept))
    return len(lines) - len(kept)


def remove_corrections(project: Services, names: NameSearch) -> list[Decision]:
    """Remove the corrections that have one of the names, and return them.

    Those that delete an entity stay.
    """
    file = project.root / CORRECTIONS
    kept: list[Decision] = []
    removed: list[Decision] = []
    with lock_corrections(project):
        for line in read_lines(file):
            decision = line.decision
            has_name = names.are_in_values(decision.model_dump(mode="json"))
            if has_name and not isinstance(decision, DeleteEntity):
                removed.append(decision)
            else:
                kept.append(decision)
        if removed:
            write_decisions(file, kept)
    return removed
