"""Citations of records by their kind, as [Data: Reports (1); Sources (2)], checked against what was
shown."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST = 5
"""Records that a citation names of a kind; ``+more`` stands for others."""

LONGEST = 4000
"""Characters of a citation: models name hundreds of records in one."""
CITATION = re.compile(rf" ?\[Data: ?([^\[\]\n]{{1,{LONGEST - 10}}})\]", re.IGNORECASE)
_PART = re.compile(r"([A-Za-z]+) ?\(([^()]*)\)")
_NUMBER = re.compile(r"\d+")
_MORE = "+more"

CitableIds = Mapping[str, Iterable[int]]
"""Kind of record (reports, entities, relationships, claims, sources) -> the numbers that may be
cited."""


@dataclass(frozen=True)
class DataCitations:
    """Checks citations of records. ``shown`` None: they are left as they are."""

    shown: Mapping[str, frozenset[str]] | None

    @classmethod
    def of(cls, shown: CitableIds) -> "DataCitations":
        return cls(
            {kind.casefold(): frozenset(map(str, numbers)) for kind, numbers in shown.items()}
        )

    def checked(self, text: str) -> tuple[str, int]:
        """The text, each citation with at most MOST numbers of a kind, all of them shown; how many
        others were removed. What names no kind of record that can be cited was never a record."""
        if self.shown is None:
            return text, 0
        removed = 0

        def kept(citation: re.Match[str]) -> str:
            nonlocal removed
            parts, count = self._parts(citation[1])
            removed += count
            space = " " * citation[0].startswith(" ")
            return f"{space}[Data: {'; '.join(parts)}]" if parts else ""

        return CITATION.sub(kept, text), removed

    def _parts(self, citation: str) -> tuple[list[str], int]:
        """What is left of a citation, by kind, and how many numbers are not."""
        parts: list[str] = []
        found = _PART.findall(citation)
        removed = 0 if found else max(1, len(_NUMBER.findall(citation)))
        for kind, listed in found:
            numbers = list(
                dict.fromkeys(number.lstrip("0") or "0" for number in _NUMBER.findall(listed))
            )
            known = [
                number
                for number in numbers
                if number in (self.shown or {}).get(kind.casefold(), ())
            ]
            removed += len(numbers) - len(known)
            more = [_MORE] if len(known) > MOST or (known and "more" in listed) else []
            if known:
                parts.append(f"{kind.capitalize()} ({', '.join(known[:MOST] + more)})")
        return parts, removed


UNCHECKED = DataCitations(None)


def cited_records(text: str) -> dict[str, list[int]]:
    """Kind of record, in small letters -> the numbers that a text cites, which was checked, each
    once."""
    cited: dict[str, dict[int, None]] = {}
    for citation in CITATION.findall(text):
        for kind, numbers in _PART.findall(citation):
            cited.setdefault(kind.casefold(), {}).update(
                dict.fromkeys(map(int, _NUMBER.findall(numbers)))
            )
    return {kind: list(numbers) for kind, numbers in cited.items()}
