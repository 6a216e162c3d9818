"""Citations of records by kind, such as [Data: Reports (1); Sources (2)], and their check."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST = 5
"""Most numbers of a kind in a citation; ``+more`` stands for others."""

LONGEST = 4000
"""Most characters of a citation; models put hundreds of records into one. Longer text in brackets
is taken for no citation and stays as it is."""
CITATION = re.compile(rf" ?\[Data: ?([^\[\]\n]{{1,{LONGEST - 10}}})\]", re.IGNORECASE)
_PART = re.compile(r"([A-Za-z]+) ?\(([^()]*)\)")
_NUMBER = re.compile(r"\d+")
_MORE = "+more"

CitableIds = Mapping[str, Iterable[int]]
"""Kind of record (reports, entities, relationships, claims, sources) -> the numbers that may be
cited."""


@dataclass(frozen=True)
class DataCitations:
    """A check of citations of records against those that were shown.

    ``shown``: kind -> numbers. If it is None, citations are not changed.
    """

    shown: Mapping[str, frozenset[str]] | None

    @classmethod
    def of(cls, shown: CitableIds) -> "DataCitations":
        """Return a check against these numbers; kinds are compared without regard to case."""
        # Numbers are compared as they are written in a text.
        written: dict[str, frozenset[str]] = {}
        for kind, numbers in shown.items():
            written[kind.casefold()] = frozenset(map(str, numbers))
        return cls(written)

    def check(self, text: str) -> tuple[str, int]:
        """Return the text with only citations of shown records, and how many numbers were removed.

        A citation keeps at most MOST numbers of a kind; those beyond are not counted. A bracket
        without any `Kind (numbers)` is removed too, and counts its numbers, at least one.
        """
        if self.shown is None:
            return text, 0
        parts: list[str] = []
        n_removed = 0
        end_of_last = 0
        for citation in CITATION.finditer(text):
            kinds, removed = self._check_kinds(citation[1])
            n_removed += removed
            parts.append(text[end_of_last : citation.start()])
            if kinds:
                # The pattern includes the space before the bracket, which goes with a citation.
                space = " " if citation[0].startswith(" ") else ""
                parts.append(f"{space}[Data: {'; '.join(kinds)}]")
            end_of_last = citation.end()
        parts.append(text[end_of_last:])
        return "".join(parts), n_removed

    def _check_kinds(self, citation: str) -> tuple[list[str], int]:
        """Return the valid part of each kind in a citation, and how many numbers are left out."""
        shown = self.shown or {}
        parts = _PART.findall(citation)
        if not parts:
            n_numbers = len(_NUMBER.findall(citation))
            return [], max(1, n_numbers)
        kinds: list[str] = []
        n_removed = 0
        for kind, listed in parts:
            shown_numbers = shown.get(kind.casefold(), ())
            # A model may write 07 for 7.
            written = [number.lstrip("0") or "0" for number in _NUMBER.findall(listed)]
            numbers = list(dict.fromkeys(written))
            valid = [number for number in numbers if number in shown_numbers]
            n_removed += len(numbers) - len(valid)
            if valid:
                has_more = len(valid) > MOST or "more" in listed
                cited = [*valid[:MOST], _MORE] if has_more else valid
                kinds.append(f"{kind.capitalize()} ({', '.join(cited)})")
        return kinds, n_removed


UNCHECKED = DataCitations(None)


def parse_cited_records(text: str) -> dict[str, list[int]]:
    """Return the numbers that a checked text cites, each once, by kind in lower case."""
    cited: dict[str, dict[int, None]] = {}
    for citation in CITATION.findall(text):
        for kind, listed in _PART.findall(citation):
            numbers = cited.setdefault(kind.casefold(), {})
            for number in _NUMBER.findall(listed):
                numbers[int(number)] = None
    return {kind: list(numbers) for kind, numbers in cited.items()}
