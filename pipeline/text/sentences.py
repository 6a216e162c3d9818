"""A text as pieces within a limit of tokens: its sentences, and parts of those that are longer."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import regex

from pipeline.sentences import ends_paragraph, is_cluster_end, sentence_spans

Count = Callable[[str], int]
Rank = bytes

_CLUSTER = regex.compile(r"\X")
_BREAKS = [regex.compile(pattern) for pattern in (r"\n\s*", r"[,;:]\s+|[，、：]\s*", r"\s+")]
_INSIDE_SENTENCE, _SENTENCE_END, _PARAGRAPH_END = b"0", b"1", b"2"
_CONTEXT = 16
_LONGEST_CHOICE = 4096
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """``n_tokens`` is without the white space around it. ``rank`` says how good its end is for a cut:
    the kind of end first, then the piece's own content, then that of the piece before it as well."""

    start: int
    end: int
    n_tokens: int
    rank: Rank


def sentence_pieces(text: str, size: int, count: Count) -> list[Piece]:
    """Pieces in order that cover the text; only a single character may have more than ``size`` tokens."""
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
    """How far up to ``end`` whole clusters from ``start`` go that have nearly ``size`` tokens, not more."""
    limit = start + _largest(end - start, size, lambda length: count(text[start : start + length].strip()))
    if limit == end:
        return end
    clusters = _cluster_ends(text, _word_start(text, start, limit), limit)
    return _shrunk(text, start, clusters[-1] if clusters else limit, size, count)


def fitting_start(text: str, start: int, end: int, size: int, count: Count) -> int:
    """From where, after ``start``, whole clusters up to ``end`` have nearly ``size`` tokens, not more."""
    if size == 0 or end - start < 2:
        return end
    earliest = end - _largest(end - start - 1, size, lambda length: count(text[end - length : end].strip()))
    clusters = _cluster_ends(text, _word_start(text, start, earliest), end)
    return next((stop for stop in clusters if stop >= earliest), end)


def _parts(text: str, start: int, end: int, size: int, count: Count) -> Iterator[tuple[int, int]]:
    """The sentence in parts that fit: cut at a line's, clause's or word's end, else between clusters.

    Of these ends the text right before it decides, so that parts, too, stay as they were after an edit.
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
    return max(ends, key=lambda end: (_key(text[max(0, end - _CONTEXT) : end].encode("utf-8", "surrogatepass")), end))


def _word_start(text: str, start: int, limit: int) -> int:
    """A place before ``limit`` where a cluster begins, to look for clusters from there on."""
    return max(start, text.rfind(" ", start, limit))


def _cluster_ends(text: str, start: int, limit: int) -> list[int]:
    """The ends up to ``limit`` of the grapheme clusters (Unicode Standard Annex 29) from ``start`` on."""
    ends = [start + found.end() for found in _CLUSTER.finditer(text[start : limit + 1])]
    return [end for end in ends if end <= limit]


def _shrunk(text: str, start: int, end: int, size: int, count: Count) -> int:
    """``end``, moved back while the text up to it does not fit: a shorter text can have more tokens."""
    while end - start > 1 and count(text[start:end].strip()) > size:
        end -= 1
    return end


def _largest(limit: int, allowed: int, cost: Callable[[int], int]) -> int:
    """Nearly the largest length from 1 to ``limit`` of allowed cost, by interpolation, then bisection."""
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
