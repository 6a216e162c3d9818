"""Addresses in an answer: what nothing shown holds may be a document's own doing.

A text that was loaded can tell the model to show an image whose address carries the conversation away, or to link to
it; whoever shows the answer as Markdown would load it. So an image or link that leads where nothing that was shown or
asked leads loses its address.
"""

import re
from dataclasses import dataclass

GONE = "(address removed)"
LONGEST_LABEL, LONGEST_ADDRESS = 300, 2000
_INNER = rf"(?:[^()\n]|\([^()\n]{{0,{LONGEST_LABEL}}}\)){{0,{LONGEST_ADDRESS}}}"
_LINKED = re.compile(rf"(!?)\[([^\[\]\n]{{0,{LONGEST_LABEL}}})\]\(({_INNER})\)")
_REST = r"[^\s<>\"'`\]）】()]"
_PLAIN = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]{{0,20}}://{_REST}{{1,{LONGEST_ADDRESS}}}"
    rf"|(?<![\w/:])//[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+{_REST}{{0,{LONGEST_ADDRESS}}}"
)
_IS_ADDRESS = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|//|\\\\)")
_IMAGE = re.compile(r"!(?=\[[^\n]{0,300}\]\()")
_NO_MATTER = re.compile(r"^(?:https?:)?(?://)?(?:www\.)?")
_AFTER = ".,;:!?*_~"
"""Signs that follow an address, and are no part of it."""
UNFINISHED = (
    rf"!?\[[^\[\]\n]{{0,{LONGEST_LABEL}}}(?:\](?:\({_INNER}(?:\([^()\n]{{0,{LONGEST_LABEL}}})?)?)?$"
    rf"|[A-Za-z][A-Za-z0-9+.-]{{0,20}}(?::(?:/(?:/{_REST}{{0,{LONGEST_ADDRESS}}})?)?)?$"
    rf"|/(?:/{_REST}{{0,{LONGEST_ADDRESS}}})?$|!$"
)
"""The end of a text that may yet become one."""


@dataclass(frozen=True)
class Addresses:
    """``shown``: all that the model was shown and asked, in small letters."""

    shown: str

    @classmethod
    def of(cls, *texts: str) -> "Addresses":
        return cls("\n".join(texts).casefold())

    def checked(self, text: str) -> tuple[str, int]:
        """The text without addresses that are in nothing shown, and how many those were."""
        removed = 0

        def linked(link: re.Match[str]) -> str:
            nonlocal removed
            image, label = link[1], link[2]
            address = (link[3].split() or [""])[0].strip("<>")
            if self._holds(address) or not (image or _IS_ADDRESS.match(address)):
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

        text = _PLAIN.sub(plain, _LINKED.sub(linked, text))
        return (_IMAGE.sub("", text) if removed else text), removed

    def _holds(self, address: str) -> bool:
        key = _NO_MATTER.sub("", address.casefold()).rstrip("/")
        return bool(key) and key in self.shown
