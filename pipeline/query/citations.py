"""What an answer cites, by marks that no text has by chance: a number each, and nothing that was not shown; so for the
addresses in it."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.query.addresses import Addresses
from pipeline.query.context import LONGEST, UNCHECKED, DataCitations, Reference, cited_records

_NUMBER = r"\d{1,9}"
_LIST = rf"refs? ?: ?{_NUMBER}(?: ?[,;–-] ?(?:refs? ?: ?)?{_NUMBER}){{0,150}} ?"
_MARKED = re.compile(rf" ?(?:\(\[ ?{_LIST}\]\)|\[ ?{_LIST}\]|【 ?{_LIST}】|\( ?{_LIST}\))", re.IGNORECASE)
_RANGE = re.compile(rf"({_NUMBER})(?: ?[–-] ?(?:refs? ?: ?)?({_NUMBER}))?", re.IGNORECASE)
_UNFINISHED = re.compile(
    rf" ?[\[【(][\[\] refs\d,;:–-]{{0,{LONGEST}}}$"
    rf"| ?\[(?:d(?:a(?:t(?:a(?::[^\[\]\n]{{0,{LONGEST}}})?)?)?)?)?$"
    "| $",
    re.IGNORECASE,
)
"""The end of a text that may yet become a citation."""
WIDEST = 50
"""Numbers of a range that are looked at one by one."""


@dataclass
class Cited:
    """By an answer, each once: numbers of text units and of reports; ``removed``: how many others were taken out, and
    ``addresses``: how many of these."""

    removed: int = 0
    addresses: int = 0
    sources: list[int] = field(default_factory=list)
    reports: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Citations:
    """Checks an answer, as it comes. ``references``: its sources; ``records``: the same for citations of data;
    ``known``: addresses that it may name."""

    references: Sequence[Reference]
    records: DataCitations = UNCHECKED
    known: Addresses | None = None

    def stream(self, pieces: Iterable[str]) -> Generator[str, None, Cited]:
        """The text in pieces, its marks as [3]; returns what it cites. What may yet become a citation is held back
        until it is known; what was shown is not looked at again. All other brackets are the answer's own."""
        cited = Cited()
        marked = self._marked(pieces, cited)
        if self.known is None:
            yield from marked
        else:
            cited.addresses = yield from self.known.stream(marked)
        return cited

    def _marked(self, pieces: Iterable[str], cited: Cited) -> Iterator[str]:
        held = ""
        for piece in pieces:
            held += piece
            unfinished = _UNFINISHED.search(held)
            settled = unfinished.start() if unfinished else len(held)
            if text := self._checked(held[:settled], cited):
                yield text
            held = held[settled:]
        if text := self._checked(held, cited):
            yield text

    def _checked(self, text: str, cited: Cited) -> str:
        text, strange = self.records.checked(text)
        cited.removed += strange
        for kind, numbers in cited_records(text).items() if self.records.shown is not None else ():
            known = {"sources": cited.sources, "reports": cited.reports}.get(kind, [])
            known.extend(number for number in numbers if number not in known)
        return _MARKED.sub(lambda mark: self._numbered(mark[0], cited), text)

    def _numbered(self, mark: str, cited: Cited) -> str:
        """``[1][3]`` for the numbers that were shown; nothing, not even the space before, without any."""
        numbers = dict.fromkeys(number for span in _RANGE.finditer(mark) for number in _numbers(span))
        kept = [number for number in numbers if number in self._shown]
        cited.removed += len(numbers) - len(kept)
        cited.sources.extend(number for number in kept if number not in cited.sources)
        return " " * (mark.startswith(" ") and bool(kept)) + "".join(f"[{number}]" for number in kept)

    @cached_property
    def _shown(self) -> frozenset[int]:
        return frozenset(reference.id for reference in self.references)


def _numbers(span: re.Match[str]) -> Iterable[int]:
    first, last = int(span[1]), int(span[2] or span[1])
    return range(first, last + 1) if first <= last < first + WIDEST else (first, last)
