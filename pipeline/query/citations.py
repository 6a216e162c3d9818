"""What an answer may cite: the references it was shown, by number or by name. What else it cites is taken out."""

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from pipeline.query.context import Reference

LONGEST = 300
"""Characters after which a bracket that has not closed is no citation, and a line no entry of a list."""

_NUMBERS = re.compile(r"(?: |(?<!\w))\[\d+(?:, ?\d+)*\]")
_NUMBER = re.compile(r"\d+")
_ENTRY = re.compile(r"[ \t]*(?:[-*] +|\d+\. +)?\[(\d+)\][ \t:]+(\S[^\n]*\.[A-Za-z][A-Za-z0-9]{1,4}\W*)\n?$")
"""A line of a list of references: a number and a file."""
_NAMED = re.compile(
    r" ?[\[(](?:(?:source|file|document|reference)s?: *)([^\[\]()\n]{1,300})[\])]"
    r"| ?[\[(]([^\[\]()\n]{1,300}\.[A-Za-z][A-Za-z0-9]{1,4})[\])]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Citations:
    """Checks an answer, as it comes. ``references``: what it was shown."""

    references: Sequence[Reference]

    def checked(self, text: str) -> tuple[str, int]:
        """The text without citations of what was not shown, and how many those were."""
        lines = [self._line(line) for line in _lines(text)]
        return "".join(line for line, _ in lines), sum(count for _, count in lines)

    def stream(self, pieces: Iterable[str]) -> Generator[str, None, int]:
        """The checked text in pieces; returns how many citations were removed. What may yet become a citation is held
        back until it is known."""
        removed, line, sent = 0, "", 0
        for piece in pieces:
            *ended, line = _lines(line + piece)
            for whole in ended:
                text, count = self._line(whole)
                if len(text) > sent:
                    yield text[sent:]
                removed, sent = removed + count, 0
            text, _ = self._line(line[: _settled(line)])
            if len(text) > sent:
                yield text[sent:]
                sent = len(text)
        text, count = self._line(line)
        if len(text) > sent:
            yield text[sent:]
        return removed + count

    def _line(self, line: str) -> tuple[str, int]:
        entry = _ENTRY.match(line) if len(line) <= LONGEST else None
        if entry and not (entry[1] in self._numbers and self._names(entry[2])):
            return "", 1
        cited = [number for citation in _NUMBERS.findall(line) for number in _NUMBER.findall(citation)]
        made_up = [match for match in _NAMED.finditer(line) if not self._names(match[1] or match[2])]
        line = _NUMBERS.sub(self._with_shown, line)
        line = _NAMED.sub(lambda match: match[0] if self._names(match[1] or match[2]) else "", line)
        return line, sum(number not in self._numbers for number in cited) + len(made_up)

    @property
    def _numbers(self) -> set[str]:
        return {str(reference.id) for reference in self.references}

    def _with_shown(self, citation: re.Match[str]) -> str:
        """``[1]`` or ``[1, 2]`` with the numbers that were shown; nothing, not even the space before, without any."""
        numbers = _NUMBER.findall(citation[0])
        kept = [number for number in numbers if number in self._numbers]
        if kept == numbers:
            return citation[0]
        return f"{citation[0].partition('[')[0]}[{', '.join(kept)}]" if kept else ""

    def _names(self, name: str) -> bool:
        """Whether a document that was shown is called so, by its path, its file name or its title."""
        wanted = name.strip().strip("`*_\"'").casefold()
        known = {
            part for entry in self.references for part in (entry.source, entry.source.rpartition("/")[2], entry.title)
        }
        return any(part and part.casefold() in wanted for part in known)


def _lines(text: str) -> list[str]:
    """With their ends; the last has none, and may be empty."""
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), last]


def _settled(line: str) -> int:
    """How much of a line that goes on is as it stays."""
    begun = line.lstrip(" \t-*0123456789.")
    if (not begun or begun.startswith("[")) and len(line) <= LONGEST:
        return 0
    opened, closed = max(line.rfind("["), line.rfind("(")), max(line.rfind("]"), line.rfind(")"))
    settled = opened if opened > closed and len(line) - opened <= LONGEST else len(line)
    return settled - line[:settled].endswith(" ")
