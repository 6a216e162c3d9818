"""Sentence spans of a text in any script, by punctuation alone: no model, no language, linear time."""

import re

import regex

_NARROW = ".!?؟"
_WIDE = "。．｡！？；…।॥۔"
_CLOSERS = "\"'”’»›)]}」』）】》〉〕］｝＂＇*_"
_CANDIDATE = re.compile(rf"[{_NARROW}{_WIDE}](?P<tail>[{_NARROW}{_WIDE}{re.escape(_CLOSERS)}]*+)(?P<space>\s*+)|\n\s*+")
_CLUSTER = regex.compile(r"\X")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LAST_WORD = re.compile(r"(?P<before>^|\W)(?P<word>\w+)$")
_WIDE_MARKS = frozenset(_WIDE)
_LONGEST_ABBREVIATION = 8
_LONGEST_INDENT = 16

_TITLES = """
mr mrs ms mx dr prof st mt ft gen col maj capt lt sgt cpl adm cmdr rev fr hon pres gov sen rep amb sra srta
mme mlle vs cf eg ie viz al ca approx fig figs eq eqs sec ch vol pp nos ed eds trans bzw vgl hr nr str
jan feb mar apr jun jul aug sep sept oct nov dec
"""
_SUFFIXES = "jr sr inc ltd co corp bros etc dept univ ave blvd rd est no op am pm"
_NEVER_LAST = frozenset(_TITLES.split())
_LAST_BEFORE_CAPITAL = frozenset(_SUFFIXES.split())


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open character spans in order that cover the text; each keeps the white space that follows it.

    A sentence ends after ``. ! ?`` (and closing quotes or brackets) before white space, after ``。！？；…``
    (and closing marks), and at a blank line; not after an abbreviation, an initial or a list number.
    A text of white space alone is one span; an empty one has none.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for found in _CANDIDATE.finditer(text):
        end = found.end()
        if end < len(text) and _ends_sentence(text, found) and is_cluster_end(text, end) and text[start:end].strip():
            spans.append((start, end))
            start = end
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def halves(text: str) -> list[str]:
    """The text in two at the sentence end next to its middle, else at a space there; one that has neither is one."""
    middle = len(text) // 2
    ends = [end for _, end in sentence_spans(text)[:-1]] or [space.end() for space in re.finditer(r"\s+", text.strip())]
    if not ends:
        return [text]
    cut = min(ends, key=lambda end: (abs(end - middle), end))
    return [text[:cut], text[cut:]]


def ends_paragraph(text: str, end: int) -> bool:
    """Whether a blank line, or the text's end, comes right before offset ``end`` (a span's end)."""
    if end == len(text):
        return True
    newlines = 0
    while end > 0 and text[end - 1].isspace() and newlines < 2:
        end -= 1
        newlines += text[end] == "\n"
    return newlines == 2


def is_cluster_end(text: str, end: int) -> bool:
    """Whether the character at ``end`` does not belong to the one before it, as a combining mark would."""
    pair = text[end - 1 : end + 1]
    return pair.isascii() or _CLUSTER.fullmatch(pair) is None or len(pair) == 1


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    space = found["space"]
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
        return not (tail[-1] in _CLOSERS and text[found.end()].islower())
    return text[found.start()] != "." or not _is_abbreviation(text, found.start(), found.end())


def _is_abbreviation(text: str, stop: int, after: int) -> bool:
    """Whether the full stop at ``stop`` belongs to the word before it; the next word starts at ``after``."""
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
    return before == "." or following.islower() or (letter.isupper() and letter != "I")


def _starts_line(text: str, offset: int) -> bool:
    indent = text[max(0, offset - _LONGEST_INDENT) : offset]
    return not indent[indent.rfind("\n") + 1 :].strip() and ("\n" in indent or offset < _LONGEST_INDENT)
