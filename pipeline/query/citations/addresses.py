"""Check of the addresses in an answer: those that nothing shown contains are removed.

A loaded document can tell the model to show an image whose address carries the conversation away,
or to link to it. A program that renders the answer as Markdown would load it. So an image or link
loses its address unless the address is in what was shown or asked.
"""

import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from html import unescape

from pipeline.query.marks import PLACEHOLDERS

GONE = "(address removed)"
LONGEST_LABEL, LONGEST_ADDRESS = 300, 2000
LONGEST_UNFINISHED = 8_000
"""The most characters that a stream holds back, because an address may begin there.

A word, a label, an address and a pair of parentheses in it fit. Each place where an address may
begin is tried up to 2,000 characters far, so a limit keeps the time for one long text linear.
"""
_INNER = rf"(?:[^()\n]|\([^()\n]{{0,{LONGEST_LABEL}}}\)){{0,{LONGEST_ADDRESS}}}"
_LINKED = re.compile(rf"(!?)\[([^\[\]\n]{{0,{LONGEST_LABEL}}})\]\(({_INNER})\)")
_REST = rf"[^\s<>\"'`\]）】(){PLACEHOLDERS}]"
"""A character of an address; the placeholder of a citation ends an address."""
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
"""Signs after an address that are not part of it."""
_LETTER = r"[!#-&*-;=?-\\^_a-~]"
_UNFINISHED = re.compile(
    rf"(?:(?<!{_LETTER}){_LETTER}{{1,{LONGEST_ADDRESS}}})?"
    rf"(?:!?\[[^\[\]\n]{{0,{LONGEST_LABEL}}}(?:\](?:\({_INNER}(?:\([^()\n]{{0,{LONGEST_LABEL}}})?)?)?$"
    rf"|(?:[A-Za-z][A-Za-z0-9+.-]{{0,20}}:/|/|[wW]{{3}}\.)/?{_REST}{{0,{LONGEST_ADDRESS}}}$|!$)"
    rf"|{_LETTER}{{1,{LONGEST_ADDRESS}}}$"
)
"""The end of a text that may become an address, from the beginning of its word."""


@dataclass(frozen=True)
class Addresses:
    """The addresses that an answer may contain.

    ``shown``: everything that the model was shown and asked, in lower case.
    """

    shown: str

    @classmethod
    def of(cls, *texts: str) -> "Addresses":
        """Accept the addresses that occur in these texts."""
        return cls("\n".join(texts).casefold())

    def stream(self, pieces: Iterable[str]) -> Generator[str, None, int]:
        """Yield the text in pieces of whole words; return how many addresses were removed."""
        removed, held = 0, ""
        for piece in pieces:
            held += piece
            unfinished = _UNFINISHED.search(held, max(0, len(held) - LONGEST_UNFINISHED))
            settled = unfinished.start() if unfinished else len(held)
            text, newly_removed = self.check(held[:settled])
            removed += newly_removed
            held = held[settled:]
            if text:
                yield text
        text, newly_removed = self.check(held)
        if text:
            yield text
        return removed + newly_removed

    def check(self, text: str) -> tuple[str, int]:
        """Return the text without addresses that nothing shown contains, and how many they were."""
        removed = 0

        def check_link(link: re.Match[str]) -> str:
            nonlocal removed
            image, label = link[1], link[2]
            address = (link[3].split() or [""])[0].strip("<>")
            leads_somewhere = image or _IS_ADDRESS.match(_decode_address(address))
            if self._holds(address) or not leads_somewhere:
                return link[0]
            removed += 1
            # A number keeps its brackets: it may be a citation.
            return f"[{label}]" if label.isdigit() else label

        def check_plain(found: re.Match[str]) -> str:
            nonlocal removed
            address = found[0].rstrip(_AFTER)
            if self._holds(address):
                return found[0]
            removed += 1
            return GONE + found[0][len(address) :]

        def check_encoded(word: re.Match[str]) -> str:
            nonlocal removed
            # A plain address that is still there has been accepted.
            if _PLAIN.search(word[0]):
                return word[0]
            found = _PLAIN.search(_decode_address(word[0]))
            if not found or self._holds(found[0].rstrip(_AFTER)):
                return word[0]
            removed += 1
            return GONE

        text = _LINKED.sub(check_link, text)
        text = _PLAIN.sub(check_plain, text)
        if "&" in text or "\\" in text:
            text = _WORD.sub(check_encoded, text)
        if removed:
            # An image without its address would still be shown as one.
            text = _IMAGE.sub("", text)
        return text, removed

    def _holds(self, address: str) -> bool:
        """Return whether the address was shown, ignoring its scheme, www. and a final slash."""
        key = _NO_MATTER.sub("", address.casefold()).rstrip("/")
        return bool(key) and key in self.shown


def _decode_address(address: str) -> str:
    """Return the address as Markdown and a browser read it.

    For example, ``https:&#47;&#47;`` and ``https\\://`` are both ``https://``.
    """
    return re.sub(r"[\t\r\n]", "", unescape(_ESCAPED.sub(r"\1", address)))
