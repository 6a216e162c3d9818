"""Sentences of a text in any script, found by punctuation alone, and chunks within a limit of
tokens."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
_CLUSTER = regex.compile(r"\X")
"""A grapheme cluster: a character with the combining marks that belong to it."""
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LAST_WORD = re.compile(r"(?P<before>^|\W)(?P<word>\w+)$")
_WIDE_MARKS = frozenset(_WIDE)
_LONGEST_ABBREVIATION = 8
_LONGEST_INDENT = 16
"""Number of characters before a full stop that are searched for an abbreviation, and for the start
of the line."""

_TITLES = """
mr mrs ms mx dr prof st mt ft gen col maj capt lt sgt cpl adm cmdr rev fr hon pres gov sen rep amb sra srta
mme mlle vs cf eg ie viz al ca approx fig figs eq eqs sec ch vol pp nos ed eds trans bzw vgl hr nr str
jan feb mar apr jun jul aug sep sept oct nov dec
"""  # noqa: E501
_SUFFIXES = "jr sr inc ltd co corp bros etc dept univ ave blvd rd est no op am pm"
_NEVER_LAST = frozenset(_TITLES.split())
"""Abbreviations that never end a sentence."""
_LAST_BEFORE_CAPITAL = frozenset(_SUFFIXES.split())
"""Abbreviations that end a sentence if the next word begins with a capital letter."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
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


def halves(text: str) -> list[str]:
    """Split the text in two at the sentence end next to its middle, or else at a space there.

    A text without either is returned as a list of one.
    """
    middle = len(text) // 2
    ends = [end for _, end in sentence_spans(text)[:-1]]
    if not ends:
        ends = [space.end() for space in re.finditer(r"\s+", text.strip())]
    if not ends:
        return [text]
    cut = min(ends, key=lambda end: (abs(end - middle), end))
    return [text[:cut], text[cut:]]


def ends_paragraph(text: str, end: int) -> bool:
    """Return whether a blank line or the text's end is at offset ``end``, the end of a sentence."""
    if end == len(text):
        return True
    newlines = 0
    while end > 0 and text[end - 1].isspace() and newlines < 2:
        end -= 1
        if text[end] == "\n":
            newlines += 1
    return newlines == 2


def is_cluster_end(text: str, end: int) -> bool:
    """Return whether a grapheme cluster ends at offset ``end``.

    It does not if the character at ``end`` belongs to the one before it, such as a combining mark.
    """
    pair = text[end - 1 : end + 1]
    return pair.isascii() or _CLUSTER.fullmatch(pair) is None or len(pair) == 1


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
        return not (tail[-1] in _CLOSERS and text[found.end()].islower())
    is_full_stop = text[found.start()] == "."
    return not is_full_stop or not _is_abbreviation(text, found.start(), found.end())


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


Count = Callable[[str], int]
"""Function that counts the tokens of a text."""
Rank = bytes
"""Sort key of a cut; the cut with the greatest key is preferred."""

_BREAKS = [regex.compile(pattern) for pattern in (r"\n\s*", r"[,;:]\s+|[，、：]\s*", r"\s+")]
"""Places where a long sentence is cut, best first: line ends, clause ends, word ends."""
_INSIDE_SENTENCE, _SENTENCE_END, _PARAGRAPH_END = b"0", b"1", b"2"
"""Kinds of ends, in the order of their quality for a cut."""
_CONTEXT = 16
"""Characters before a cut inside a sentence that decide between equal places."""
_LONGEST_CHOICE = 4096
"""Characters before the limit in which a place for a cut is searched."""
_CHARACTERS_A_TOKEN = 4
"""First estimate of the length of a token."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of a text between two possible cuts.

    ``n_tokens`` does not count the white space around it. ``rank`` says how good its end is for a
    cut. It depends first on the kind of end, then on the content of the chunk, then on the content
    of the previous chunk as well.
    """

    start: int
    end: int
    n_tokens: int
    rank: Rank


def sentence_pieces(text: str, size: int, count: Count) -> list[Piece]:
    """Split the text into sentences, and long sentences into chunks of at most ``size`` tokens.

    The chunks are in order and without gaps. Only a single character may have more tokens.
    """
    pieces: list[Piece] = []
    before = b""
    for start, end in sentence_spans(text):
        for piece_start, piece_end in _split_sentence(text, start, end, size, count):
            content = text[piece_start:piece_end].strip()
            key = _hash(content.encode("utf-8", "surrogatepass"))
            rank = _end_kind(text, piece_end, end, content) + key + _hash(before + key)
            pieces.append(Piece(piece_start, piece_end, count(content), rank))
            before = key
    return pieces


def fitting_end(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return the greatest offset up to ``end`` so that the text from ``start`` has at most ``size``
    tokens.

    It is nearly the greatest: the search is not exact. Grapheme clusters are not split.
    """

    def tokens_of(length: int) -> int:
        return count(text[start : start + length].strip())

    limit = start + _largest_length(end - start, size, tokens_of)
    if limit == end:
        return end
    clusters = _cluster_ends(text, _word_start(text, start, limit), limit)
    last_end = clusters[-1] if clusters else limit
    return _shrink(text, start, last_end, size, count)


def fitting_start(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return the least offset after ``start`` so that the text up to ``end`` has at most ``size``
    tokens.

    It is nearly the least: the search is not exact. Grapheme clusters are not split.
    """
    if size == 0 or end - start < 2:
        return end

    def tokens_of(length: int) -> int:
        return count(text[end - length : end].strip())

    earliest = end - _largest_length(end - start - 1, size, tokens_of)
    clusters = _cluster_ends(text, _word_start(text, start, earliest), end)
    return next((stop for stop in clusters if stop >= earliest), end)


def _split_sentence(
    text: str, start: int, end: int, size: int, count: Count
) -> Iterator[tuple[int, int]]:
    """Yield the offsets of chunks of the sentence that have at most ``size`` tokens.

    It is cut at the end of a line, a clause or a word, or else between grapheme clusters.
    """
    limit = fitting_end(text, start, end, size, count)
    while limit < end:
        cut = _shrink(text, start, _best_break(text, start, limit), size, count)
        yield start, cut
        start = cut
        limit = fitting_end(text, start, end, size, count)
    yield start, end


def _best_break(text: str, start: int, limit: int) -> int:
    """Return the best offset before ``limit`` to cut a sentence.

    Among equally good places, a hash of the text right before them decides. Most cuts therefore
    stay where they were after an edit.
    """
    lowest = max(start + (limit - start) // 5, limit - _LONGEST_CHOICE)
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, lowest, limit)]
        ends = [end for end in ends if is_cluster_end(text, end)]
        if ends:
            break
    else:
        ends = [end for end in _cluster_ends(text, start, limit) if end > lowest] or [limit]

    def rank(end: int) -> tuple[bytes, int]:
        context = text[max(0, end - _CONTEXT) : end]
        return _hash(context.encode("utf-8", "surrogatepass")), end

    return max(ends, key=rank)


def _word_start(text: str, start: int, limit: int) -> int:
    """Return an offset before ``limit`` where a grapheme cluster begins, to search clusters from
    there on.

    Searching from ``start`` would be slow in a long text.
    """
    return max(start, text.rfind(" ", start, limit))


def _cluster_ends(text: str, start: int, limit: int) -> list[int]:
    """Return the ends up to ``limit`` of the grapheme clusters that begin at ``start`` or later.

    Grapheme clusters are those of Unicode Standard Annex 29.
    """
    ends = [start + found.end() for found in _CLUSTER.finditer(text[start : limit + 1])]
    return [end for end in ends if end <= limit]


def _shrink(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return ``end``, moved back until the text up to it has at most ``size`` tokens.

    That is needed because a shorter text may have more tokens than a longer one.
    """
    while end - start > 1 and count(text[start:end].strip()) > size:
        end -= 1
    return end


def _largest_length(limit: int, allowed: int, cost: Callable[[int], int]) -> int:
    """Return nearly the largest length from 1 to ``limit`` whose cost is allowed.

    The search interpolates at first, then bisects. It stops at 98 % of the allowed cost.
    """
    # The length ``low`` is allowed (1 always is), and ``high`` is not.
    low, high = 1, limit + 1
    length = min(limit, allowed * _CHARACTERS_A_TOKEN)
    tries = 0
    while high - low > 1:
        spent = cost(length)
        if spent > allowed:
            high = length
        else:
            low = length
            is_close = allowed - spent <= allowed // 50
            if is_close and high <= limit:
                break
        tries += 1
        interpolated = length * min(4.0, allowed / max(1, spent))
        guess = interpolated if tries < 8 else (low + high) / 2
        length = min(max(int(guess), low + 1), high - 1)
    return low


def _end_kind(text: str, end: int, sentence_end: int, content: str) -> bytes:
    """Return the kind of end of a chunk. After a heading, no cut is good."""
    if end < sentence_end or content.startswith("#"):
        return _INSIDE_SENTENCE
    return _PARAGRAPH_END if ends_paragraph(text, end) else _SENTENCE_END


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()
