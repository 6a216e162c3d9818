"""Sentence spans of a text in any script, by punctuation alone, and the pieces of a text within a
limit of tokens."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import regex

_NARROW = ".!?؟"
_WIDE = "。．｡！？；…।॥۔"
_CLOSERS = "\"'”’»›)]}」』）】》〉〕］｝＂＇*_"
_CANDIDATE = re.compile(
    rf"[{_NARROW}{_WIDE}](?P<tail>[{_NARROW}{_WIDE}{re.escape(_CLOSERS)}]*+)(?P<space>\s*+)|\n\s*+"
)
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
"""  # noqa: E501
_SUFFIXES = "jr sr inc ltd co corp bros etc dept univ ave blvd rd est no op am pm"
_NEVER_LAST = frozenset(_TITLES.split())
_LAST_BEFORE_CAPITAL = frozenset(_SUFFIXES.split())


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Half-open character spans in order that cover the text; each keeps the white space that
    follows it.

    A sentence ends after ``. ! ?`` (and closing quotes or brackets) before white space, after
    ``。！？；…`` (and closing marks), and at a blank line; not after an abbreviation, an initial or a
    list number. A text of white space alone is one span; an empty one has none.
    """  # noqa: E501
    spans: list[tuple[int, int]] = []
    start = 0
    for found in _CANDIDATE.finditer(text):
        end = found.end()
        if (
            end < len(text)
            and _ends_sentence(text, found)
            and is_cluster_end(text, end)
            and text[start:end].strip()
        ):
            spans.append((start, end))
            start = end
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def halves(text: str) -> list[str]:
    """The text in two at the sentence end next to its middle, else at a space there; one that has
    neither is one."""
    middle = len(text) // 2
    ends = [end for _, end in sentence_spans(text)[:-1]] or [
        space.end() for space in re.finditer(r"\s+", text.strip())
    ]
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
    """Whether the character at ``end`` does not belong to the one before it, as a combining mark
    would."""
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
    """Whether the full stop at ``stop`` belongs to the word before it; the next word starts at
    ``after``."""
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
    return not indent[indent.rfind("\n") + 1 :].strip() and (
        "\n" in indent or offset < _LONGEST_INDENT
    )


Count = Callable[[str], int]
Rank = bytes

_BREAKS = [regex.compile(pattern) for pattern in (r"\n\s*", r"[,;:]\s+|[，、：]\s*", r"\s+")]
_INSIDE_SENTENCE, _SENTENCE_END, _PARAGRAPH_END = b"0", b"1", b"2"
_CONTEXT = 16
_LONGEST_CHOICE = 4096
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """``n_tokens`` is without the white space around it. ``rank`` says how good its end is for a
    cut: the kind of end first, then the piece's own content, then that of the piece before it as
    well."""

    start: int
    end: int
    n_tokens: int
    rank: Rank


def sentence_pieces(text: str, size: int, count: Count) -> list[Piece]:
    """Pieces in order that cover the text; only a single character may have more than ``size``
    tokens."""
    pieces: list[Piece] = []
    before = b""
    for start, end in sentence_spans(text):
        for part_start, part_end in _parts(text, start, end, size, count):
            content = text[part_start:part_end].strip()
            key = _key(content.encode("utf-8", "surrogatepass"))
            rank = _kind(text, part_end, end, content) + key + _key(before + key)
            pieces.append(Piece(part_start, part_end, count(content), rank))
            before = key
    return pieces


def fitting_end(text: str, start: int, end: int, size: int, count: Count) -> int:
    """How far up to ``end`` whole clusters from ``start`` go that have nearly ``size`` tokens, not
    more."""
    limit = start + _largest(
        end - start, size, lambda length: count(text[start : start + length].strip())
    )
    if limit == end:
        return end
    clusters = _cluster_ends(text, _word_start(text, start, limit), limit)
    return _shrunk(text, start, clusters[-1] if clusters else limit, size, count)


def fitting_start(text: str, start: int, end: int, size: int, count: Count) -> int:
    """From where, after ``start``, whole clusters up to ``end`` have nearly ``size`` tokens, not
    more."""
    if size == 0 or end - start < 2:
        return end
    earliest = end - _largest(
        end - start - 1, size, lambda length: count(text[end - length : end].strip())
    )
    clusters = _cluster_ends(text, _word_start(text, start, earliest), end)
    return next((stop for stop in clusters if stop >= earliest), end)


def _parts(text: str, start: int, end: int, size: int, count: Count) -> Iterator[tuple[int, int]]:
    """The sentence in parts that fit: cut at a line's, clause's or word's end, else between
    clusters.

    Of these ends the text right before it decides, so that parts, too, stay as they were after an
    edit.
    """
    while (limit := fitting_end(text, start, end, size, count)) < end:
        cut = _shrunk(text, start, _best_break(text, start, limit), size, count)
        yield start, cut
        start = cut
    yield start, end


def _best_break(text: str, start: int, limit: int) -> int:
    lowest = max(start + (limit - start) // 5, limit - _LONGEST_CHOICE)
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, lowest, limit)]
        ends = [end for end in ends if is_cluster_end(text, end)]
        if ends:
            break
    else:
        ends = [end for end in _cluster_ends(text, start, limit) if end > lowest] or [limit]
    return max(
        ends,
        key=lambda end: (
            _key(text[max(0, end - _CONTEXT) : end].encode("utf-8", "surrogatepass")),
            end,
        ),
    )


def _word_start(text: str, start: int, limit: int) -> int:
    """A place before ``limit`` where a cluster begins, to look for clusters from there on."""
    return max(start, text.rfind(" ", start, limit))


def _cluster_ends(text: str, start: int, limit: int) -> list[int]:
    """The ends up to ``limit`` of the grapheme clusters (Unicode Standard Annex 29) from ``start``
    on."""
    ends = [start + found.end() for found in _CLUSTER.finditer(text[start : limit + 1])]
    return [end for end in ends if end <= limit]


def _shrunk(text: str, start: int, end: int, size: int, count: Count) -> int:
    """``end``, moved back while the text up to it does not fit: a shorter text can have more
    tokens."""
    while end - start > 1 and count(text[start:end].strip()) > size:
        end -= 1
    return end


def _largest(limit: int, allowed: int, cost: Callable[[int], int]) -> int:
    """Nearly the largest length from 1 to ``limit`` of allowed cost, by interpolation, then
    bisection."""
    low, high, length, tries = 1, limit + 1, min(limit, allowed * _CHARACTERS_A_TOKEN), 0
    while high - low > 1:
        spent = cost(length)
        if spent > allowed:
            high = length
        else:
            low = length
            if high <= limit and allowed - spent <= allowed // 50:
                break
        tries += 1
        guess = length * min(4.0, allowed / max(1, spent)) if tries < 8 else (low + high) / 2
        length = min(max(int(guess), low + 1), high - 1)
    return low


def _kind(text: str, end: int, sentence_end: int, content: str) -> bytes:
    if end < sentence_end or content.startswith("#"):
        return _INSIDE_SENTENCE
    return _PARAGRAPH_END if ends_paragraph(text, end) else _SENTENCE_END


def _key(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()
