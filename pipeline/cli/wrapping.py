"""Text that comes in pieces, in lines of a terminal's width, each word whole."""

import re
import shutil
import sys
from typing import TextIO
from unicodedata import east_asian_width

LEAST, MOST = 40, 100
"""Columns."""
FENCE = "```"
_BEGINS_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)]|\[\d{1,5}\])$")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Columns to write in, by default on stdout; None where no person reads."""
    if not (stream or sys.stdout).isatty():
        return None
    return min(max(shutil.get_terminal_size().columns, LEAST), MOST)


def in_lines(text: str, width: int | None) -> str:
    wrapped = Wrapped(width)
    return wrapped.feed(text) + wrapped.end()


class Wrapped:
    """``feed`` and ``end`` give what is to be printed. Lines of a table or between fences stay as
    they are."""

    def __init__(self, width: int | None):
        self.width, self.column, self.indent = width, 0, 0
        self.word, self.space, self.fenced, self.verbatim = "", 0, False, False

    def feed(self, piece: str) -> str:
        if self.width is None:
            return piece
        return "".join(map(self._take, piece))

    def end(self) -> str:
        return self._word_done()

    def _take(self, character: str) -> str:
        if character == "\n":
            said = self._word_done() + "\n"
            self.column = self.indent = self.space = 0
            self.verbatim = self.fenced
            return said
        if character == " ":
            said = self._word_done()
            self.space += 1
            return said
        if columns_of(character) == 2:
            said = self._word_done()
            self.word = character
            return said + self._word_done()
        self.word += character
        return ""

    def _word_done(self) -> str:
        word, self.word = self.word, ""
        if not word:
            return ""
        if self.column == 0:
            self._begin_line(word)
        space, self.space = self.space, 0
        size = columns_of(word)
        if (
            self.width
            and self.column
            and not self.verbatim
            and self.column + space + size > self.width
        ):
            self.column = self.indent + size
            return "\n" + " " * self.indent + word
        self.column += space + size
        return " " * space + word

    def _begin_line(self, word: str) -> None:
        """Lines that go on stand below the first word after the sign of an item."""
        if word.startswith(FENCE):
            self.fenced = not self.fenced
            self.verbatim = True
        self.verbatim = self.verbatim or word.startswith("|")
        self.indent = self.space + (len(word) + 1 if _BEGINS_ITEM.match(word) else 0)


def columns_of(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
