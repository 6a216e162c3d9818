"""What an answer may cite: the references it was shown, by number or by name. What else it cites is taken out."""

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.query.context import LONGEST as LONGEST_OF_DATA
from pipeline.query.context import OPENING, UNCHECKED, DataCitations, Reference

LONGEST = 300
"""Characters after which a bracket that has not closed is no citation, and a line no entry of a list."""
LEAST_NAME = 4
"""Characters from which on a name is one also among other words."""

_FILE = r"\.(?:pdf|docx?|txt|md|markdown|csv|tsv|xlsx?|pptx?|html?|jsonl?|xml|epub|rtf|odt|ya?ml)"
_LIST = r" ?(?:(?:source|reference|document)s?:? *)?\^?\d+(?: ?[,;–-] ?\d+)* ?"
_PLACE = r"(?:†[^】\n]{0,100})?"
_NUMBERS = re.compile(rf" ?\[{_LIST}\]| ?\(\[{_LIST}\]\)| ?【{_LIST}{_PLACE}】", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_ENTRY = re.compile(rf"[ \t]*(?:[-*] +|\d+\. +)?\[(\d+)\][ \t:]+(\S[^\n]*{_FILE}\W*)\n?$", re.IGNORECASE)
_TITLED = re.compile(r"[ \t]*(?:[-*] +|\d+\. +)\[(\d+)\][ \t:]+\S[^\n]*[^\s.!?:]\n?$")
"""Lines of a list of references: a number and a file, or a title."""
_LABELLED = r"(?:source|file|document|reference)s?: *([^\[\]()\n]{1,300})"
_UNLABELLED = rf"([^\[\]()\n]{{0,300}}{_FILE})"
_NAMED = re.compile(
    "|".join(rf" ?\[{name}\]| ?\({name}\)" for name in (_LABELLED, _UNLABELLED)),
    re.IGNORECASE,
)
PAIRS = {"]": "[", ")": "(", "】": "【"}


@dataclass(frozen=True)
class Citations:
    """Checks an answer, as it comes. ``references``: its sources; ``records``: the same for citations of data."""

    references: Sequence[Reference]
    records: DataCitations = UNCHECKED

    def stream(self, pieces: Iterable[str]) -> Generator[str, None, int]:
        """The checked text in pieces; returns how many citations were removed. What may yet become a citation is held
        back until it is known; what was shown is not looked at again."""
        removed, line = 0, _Line()
        for piece in pieces:
            *ended, rest = _lines(piece)
            for end in ended:
                text, count = self._rest_of_line(line.text + end, line.begun)
                removed, line = removed + count, _Line()
                if text:
                    yield text
            line.add(rest)
            if settled := line.take_settled():
                text, count = self._checked(settled)
                removed += count
                if text:
                    yield text
        text, count = self._rest_of_line(line.text, line.begun)
        if text:
            yield text
        return removed + count

    def _rest_of_line(self, rest: str, begun: bool) -> tuple[str, int]:
        """``begun``: what stands before it on the line was shown already."""
        if not begun and len(rest) <= LONGEST and self._made_up_entry(rest):
            return "", 1
        return self._checked(rest)

    def _checked(self, line: str) -> tuple[str, int]:
        line, strange = self.records.checked(line)
        cited = [number for citation in _NUMBERS.findall(line) for number in _numbers(citation)]
        unknown = [number for number in cited if number not in self._numbers]
        line = _NUMBERS.sub(self._with_shown, line)
        made_up = [match for match in _NAMED.finditer(line) if not self._names(_name(match))]
        line = _NAMED.sub(lambda match: match[0] if self._names(_name(match)) else "", line)
        return line, strange + len(unknown) + len(made_up)

    def _made_up_entry(self, line: str) -> bool:
        if entry := _ENTRY.match(line):
            return not (entry[1] in self._numbers and self._names(entry[2]))
        titled = _TITLED.match(line)
        return titled is not None and titled[1] not in self._numbers

    @cached_property
    def _numbers(self) -> set[str]:
        return {str(reference.id) for reference in self.references}

    @cached_property
    def _known_names(self) -> set[str]:
        return {
            part.casefold()
            for entry in self.references
            for part in (entry.source, entry.source.rpartition("/")[2], entry.title)
        }

    def _with_shown(self, citation: re.Match[str]) -> str:
        """``[1]`` or ``[1, 2]`` with the numbers that were shown; nothing, not even the space before, without any."""
        numbers = _numbers(citation[0])
        kept = [number for number in numbers if number in self._numbers]
        if kept == numbers:
            return citation[0]
        return f"{' ' * citation[0].startswith(' ')}[{', '.join(kept)}]" if kept else ""

    def _names(self, name: str) -> bool:
        """Whether a document that was shown is called so, by its path, its file name or its title."""
        wanted = name.strip().strip("`*_\"'").casefold()
        return wanted in self._known_names or any(
            len(part) >= LEAST_NAME and re.search(rf"(?<![\w.-]){re.escape(part)}(?![\w-])", wanted)
            for part in self._known_names
        )


def _numbers(citation: str) -> list[str]:
    return _NUMBER.findall(citation.partition("†")[0])


def _name(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _lines(text: str) -> list[str]:
    """With their ends; the last has none, and may be empty."""
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), last]


@dataclass
class _Line:
    """What of a line that goes on is not shown yet. ``begun``: some of it was; ``opened``: where the brackets are that
    may yet be closed."""

    text: str = ""
    begun: bool = False
    opened: list[int] = field(default_factory=list)

    def add(self, piece: str) -> None:
        begin = len(self.text)
        self.text += piece
        for place, character in enumerate(piece, start=begin):
            if character in PAIRS:
                kinds = [self.text[start] for start in self.opened[::-1]]
                if PAIRS[character] in kinds:
                    del self.opened[len(kinds) - 1 - kinds.index(PAIRS[character]) :]
            elif character in PAIRS.values():
                self.opened.append(place)

    def take_settled(self) -> str:
        """What is as it stays; it is not here any more."""
        words = self.text[:LONGEST].lstrip(" \t-*0123456789.")
        if not self.begun and (not words or words.startswith("[")) and len(self.text) <= LONGEST:
            return ""
        self.opened = [place for place in self.opened if len(self.text) - place <= _longest(self.text, place)]
        settled = self.text[: min(self.opened, default=len(self.text))].rstrip(" ")
        if settled:
            self.text, self.begun = self.text[len(settled) :], True
            self.opened = [place - len(settled) for place in self.opened]
        return settled


def _longest(line: str, place: int) -> int:
    return LONGEST_OF_DATA if line[place : place + len(OPENING)].casefold() == OPENING else LONGEST
