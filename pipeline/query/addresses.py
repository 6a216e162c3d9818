"""Addresses in an answer: what nothing shown holds may be a document's own doing.

A text that was loaded can tell the model to show an image whose address carries the conversation
away, or to link to it; whoever shows the answer as Markdown would load it. So an image or link that
leads where nothing that was shown or asked leads loses its address.
"""

import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from html import unescape

from pipeline.query.marks import PLACEHOLDERS

GONE = "(address removed)"
LONGEST_LABEL, LONGEST_ADDRESS = 300, 2000
_INNER = rf"(?:[^()\n]|\([^()\n]{{0,{LONGEST_LABEL}}}\)){{0,{LONGEST_ADDRESS}}}"
_LINKED = re.compile(rf"(!?)\[([^\[\]\n]{{0,{LONGEST_LABEL}}})\]\(({_INNER})\)")
_REST = rf"[^\s<>\"'`\]）】(){PLACEHOLDERS}]"
"""A character of an address; one that stands for a citation ends it."""
_PLAIN = re.compile(
    rf"(?:[A-Za-z][A-Za-z0-9+.-]{{0,20}}://|[hH][tT]{{2}}[pP][sS]?:(?!\d+\b(?!\.\w))|(?<![A-Za-z0-9_/:.-])[wW]{{3}}\.)"
    rf"{_REST}{{1,{LONGEST_ADDRESS}}}"
    rf"|(?<![A-Za-z0-9_/:])//[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+{_REST}{{0,{LONGEST_ADDRESS}}}"
)
_WORD = re.compile(rf"{_REST}{{1,{LONGEST_ADDRESS}}}")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_IS_ADDRESS = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|//|\\\\)")
_IMAGE = re.compile(r"!(?=\[[^\n]{0,300}\]\()")
_NO_MATTER = re.compile(r"^(?:https?:)?(?://)?(?:www\.)?")
_AFTER = ".,;:!?*_~"
"""Signs that follow an address, and are no part of it."""
_LETTER = r"[!#-&*-;=?-\\^_a-~]"
_UNFINISHED = re.compile(
    rf"(?:(?<!{_LETTER}){_LETTER}{{1,{LONGEST_ADDRESS}}})?"
    rf"(?:!?\[[^\[\]\n]{{0,{LONGEST_LABEL}}}(?:\](?:\({_INNER}(?:\([^()\n]{{0,{LONGEST_LABEL}}})?)?)?$"
    rf"|(?:[A-Za-z][A-Za-z0-9+.-]{{0,20}}:/|/|[wW]{{3}}\.)/?{_REST}{{0,{LONGEST_ADDRESS}}}$|!$)"
    rf"|{_LETTER}{{1,{LONGEST_ADDRESS}}}$"
)
"""The end of a text that may yet become one: from the beginning of its word, so that none is looked
at by halves."""


@dataclass(frozen=True)
class Addresses:
    """``shown``: all that the model was shown and asked, in small letters."""

    shown: str

    @classmethod
    def of(cls, *texts: str) -> "Addresses":
        return cls("\n".join(texts).casefold())

    def stream(self, pieces: Iterable[str]) -> Generator[str, None, int]:
        """The text in pieces, each word whole; returns how many addresses were taken out."""
        removed, held = 0, ""
        for piece in pieces:
            held += piece
            unfinished = _UNFINISHED.search(held)
            settled = unfinished.start() if unfinished else len(held)
            text, strange = self.checked(held[:settled])
            removed, held = removed + strange, held[settled:]
            if text:
                yield text
        text, strange = self.checked(held)
        if text:
            yield text
        return removed + strange

    def checked(self, text: str) -> tuple[str, int]:
        """The text without addresses that are in nothing shown, and how many those were."""
        removed = 0

        def linked(link: re.Match[str]) -> str:
            nonlocal removed
            image, label = link[1], link[2]
            address = (link[3].split() or [""])[0].strip("<>")
            if self._holds(address) or not (image or _IS_ADDRESS.match(_decoded(address))):
                return link[0]
            removed += 1
            return f"[{label}]" if label.isdigit() else label

        def plain(found: re.Match[str]) -> str:
            nonlocal removed
            address = found[0].rstrip(_AFTER)
            if self._holds(address):
                return found[0]
            removed += 1
            return GONE + found[0][len(address) :]

        def disguised(word: re.Match[str]) -> str:
            nonlocal removed
            if _PLAIN.search(word[0]):  # one that is held
                return word[0]
            found = _PLAIN.search(_decoded(word[0]))
            if not found or self._holds(found[0].rstrip(_AFTER)):
                return word[0]
            removed += 1
            return GONE

        text = _PLAIN.sub(plain, _LINKED.sub(linked, text))
        if "&" in text or "\\" in text:
            text = _WORD.sub(disguised, text)
        return (_IMAGE.sub("", text) if removed else text), removed

    def _holds(self, address: str) -> bool:
        key = _NO_MATTER.sub("", address.casefold()).rstrip("/")
        return bool(key) and key in self.shown


def _decoded(address: str) -> str:
    """As Markdown and a browser read it: ``https:&#47;&#47;`` and ``https\\://`` are
    ``https://``."""
    return re.sub(r"[\t\r\n]", "", unescape(_ESCAPED.sub(r"\1", address)))
