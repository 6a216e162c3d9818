"""Find the sentences of a text in any script.

What decides is punctuation, blank lines, a short list of abbreviations, and case. No language is
looked at.
"""

import re

import regex

_NARROW = ".!?؟"
"""Marks that end a sentence only before white space."""
_WIDE = "。．｡！？；…।॥۔"
"""Marks that end a sentence even without white space."""
_CLOSERS = "\"'”’»›)]}」』）】》〉〕］｝＂＇*_"
"""Quotes and brackets that belong to the sentence before them."""
_CANDIDATE = re.compile(
    rf"[{_NARROW}{_WIDE}](?P<tail>[{_NARROW}{_WIDE}{re.escape(_CLOSERS)}]*+)(?P<space>\s*+)|\n\s*+"
)
"""Every place where a sentence may end: after a mark with its closing quotes, or at a line end."""
CLUSTER = regex.compile(r"\X")
"""A grapheme cluster: a character with the combining marks that belong to it."""
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LAST_WORD = re.compile(r"(?P<before>^|\W)(?P<word>\w+)$")
_WIDE_MARKS = frozenset(_WIDE)
_LONGEST_ABBREVIATION = 8
"""Characters before a full stop that are searched for an abbreviation."""
_LONGEST_INDENT = 16
"""Characters before a full stop that are searched for the start of the line."""

_NEVER_LAST = frozenset(
    """
mr mrs ms mx dr prof st mt ft gen col maj capt lt sgt cpl adm cmdr rev fr hon pres gov sen rep amb sra srta
mme mlle vs cf eg ie viz al ca approx fig figs eq eqs sec ch vol pp nos ed eds trans bzw vgl hr nr str
jan feb mar apr jun jul aug sep sept oct nov dec
""".split()  # noqa: E501
)
"""Abbreviations that never end a sentence."""
_LAST_BEFORE_CAPITAL = frozenset(
    "jr sr inc ltd co corp bros etc dept univ ave blvd rd est no op am pm".split()
)
"""Abbreviations that end a sentence, unless a small letter or a digit follows."""


def find_sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentences as (start, end) character offsets, in order and without gaps.

    Each sentence includes the white space that follows it. A sentence ends after ``. ! ?`` (and
    closing quotes or brackets) before white space. It also ends after ``。！？；…`` (and closing
    marks), and at a blank line. It does not end after an abbreviation, an initial or a list number.
    A text of white space alone is one sentence; an empty one has none.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for found in _CANDIDATE.finditer(text):
        end = found.end()
        if end == len(text) or not _ends_sentence(text, found):
            continue
        if is_cluster_end(text, end) and text[start:end].strip():
            spans.append((start, end))
            start = end
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def split_in_two(text: str) -> list[str]:
    """Split the text in two at the sentence end next to its middle, or else at a space there.

    A text without either is returned as a list of one.
    """
    middle = len(text) // 2
    ends = [end for _, end in find_sentences(text)[:-1]]
    if not ends:
        # White space at the beginning or the end of the text divides nothing.
        spaces = re.finditer(r"(?<=\S)\s+(?=\S)", text)
        ends = [space.end() for space in spaces]
    if not ends:
        return [text]
    cut = min(ends, key=lambda end: (abs(end - middle), end))
    return [text[:cut], text[cut:]]


def ends_paragraph(text: str, end: int) -> bool:
    """Return whether the white space before offset ``end`` has a blank line, or the text ends
    there."""
    if end == len(text):
        return True
    newlines = 0
    position = end
    while position > 0 and text[position - 1].isspace() and newlines < 2:
        position -= 1
        if text[position] == "\n":
            newlines += 1
    return newlines == 2


def is_cluster_end(text: str, end: int) -> bool:
    """Return whether a grapheme cluster ends at offset ``end``, after a mark or white space.

    It does not if the character at ``end`` belongs to the one before it, such as a combining mark.
    Only these two are looked at. That is enough after a mark or a space, and not within an emoji
    of several characters.
    """
    if end == len(text):
        return True
    pair = text[end - 1 : end + 1]
    # A quick answer for most texts: of two ASCII characters each is a cluster.
    if pair.isascii():
        return True
    return CLUSTER.fullmatch(pair) is None


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    """Return whether a sentence ends at this candidate."""
    space = found["space"]
    # Without a mark, only a blank line ends a sentence.
    if space is None:
        return _BLANK_LINE.match(found[0]) is not None
    if "\n" in space and _BLANK_LINE.search(space):
        return True
    tail = found["tail"]
    if text[found.start()] in _WIDE or not _WIDE_MARKS.isdisjoint(tail):
        return True
    if not space:
        return False
    if tail:
        # A quoted sentence within another one is followed by a small letter.
        is_quoted_within = tail[-1] in _CLOSERS and text[found.end()].islower()
        return not is_quoted_within
    if text[found.start()] != ".":
        return True
    return not _is_abbreviation(text, found.start(), found.end())


def _is_abbreviation(text: str, stop: int, after: int) -> bool:
    """Return whether the full stop at ``stop`` belongs to the word before it.

    That word is an abbreviation, an initial or a list number. The next word starts at ``after``.
    """
    last = _LAST_WORD.search(text[max(0, stop - _LONGEST_ABBREVIATION) : stop])
    if last is None:
        return False
    word = last["word"].casefold()
    if len(word) == 1 and word.isalpha():
        return _is_initial(last["word"], last["before"], text[after])
    if word.isdecimal():
        return len(word) <= 2 and _starts_line(text, stop - len(word))
    if word in _LAST_BEFORE_CAPITAL:
        return text[after].islower() or text[after].isdecimal()
    return word in _NEVER_LAST


def _is_initial(letter: str, before: str, following: str) -> bool:
    """Return whether a single letter before a full stop is an initial, as in "e.g." or "J. Smith".

    The pronoun "I" may end a sentence.
    """
    return before == "." or following.islower() or (letter.isupper() and letter != "I")


def _starts_line(text: str, offset: int) -> bool:
    """Return whether only white space is between the start of the line and ``offset``."""
    before = text[max(0, offset - _LONGEST_INDENT) : offset]
    indent = before[before.rfind("\n") + 1 :]
    is_start_visible = "\n" in before or offset < _LONGEST_INDENT
    return is_start_visible and not indent.strip()
