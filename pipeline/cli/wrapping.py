"""Wrap streamed text to a terminal's width, without breaking words."""

import re
import shutil
import sys
from typing import TextIO
from unicodedata import east_asian_width

LEAST, MOST = 40, 100
"""The least and the most columns of a line."""
FENCE = "```"
_BEGINS_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)]|\[\d{1,5}\])$")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of a line on a stream, by default stdout; None if it is no terminal."""
    if not (stream or sys.stdout).isatty():
        return None
    return min(max(shutil.get_terminal_size().columns, LEAST), MOST)


def wrap_text(text: str, width: int | None) -> str:
    wrapped = LineWrapper(width)
    return wrapped.feed(text) + wrapped.end()


class LineWrapper:
    """Breaks text into lines of at most ``width`` columns; None stands for no limit.

    ``feed`` takes the next chunk of the text, and ``end`` ends it; both return the text to print. A
    word is held back until it is complete. Lines of a Markdown table and lines between code fences
    are not broken.
    """

    def __init__(self, width: int | None):
        self.width, self.column, self.indent = width, 0, 0
        self.word, self.space, self.fenced, self.verbatim = "", 0, False, False

    def feed(self, piece: str) -> str:
        """Take a chunk of the text; return what can be printed now."""
        if self.width is None:
            return piece
        return "".join(map(self._take, piece))

    def end(self) -> str:
        """Return the last word, if one is held back."""
        return self._end_word()

    def _take(self, character: str) -> str:
        if character == "\n":
            before = self._end_word()
            self.column = self.indent = self.space = 0
            self.verbatim = self.fenced
            return before + "\n"
        if character == " ":
            before = self._end_word()
            self.space += 1
            return before
        if columns_of(character) == 2:
            # A wide character, as in Chinese, is a word of its own: a line may break around it.
            before = self._end_word()
            self.word = character
            return before + self._end_word()
        self.word += character
        return ""

    def _end_word(self) -> str:
        """Return the held back word with the spaces or the line break before it."""
        word, self.word = self.word, ""
        if not word:
            return ""
        if self.column == 0:
            self._begin_line(word)
        space, self.space = self.space, 0
        size = columns_of(word)
        may_break = self.column > 0 and not self.verbatim
        if self.width and may_break and self.column + space + size > self.width:
            self.column = self.indent + size
            return "\n" + " " * self.indent + word
        self.column += space + size
        return " " * space + word

    def _begin_line(self, word: str) -> None:
        """Note what the first word of a line means for it: a fence, a table, or an item of a list.

        Continued lines of an item are indented to the word after its sign.
        """
        if word.startswith(FENCE):
            self.fenced = not self.fenced
            self.verbatim = True
        self.verbatim = self.verbatim or word.startswith("|")
        self.indent = self.space + (len(word) + 1 if _BEGINS_ITEM.match(word) else 0)


def columns_of(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
