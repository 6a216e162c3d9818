"""Cut a text into pieces within a limit of tokens: sentences, and parts of long sentences.

An edit of the text should move few cuts. So where several places for a cut are equally good, a hash
of the text before them decides.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import regex

from pipeline.text.sentences import CLUSTER, ends_paragraph, find_sentences, is_cluster_end

Count = Callable[[str], int]
"""Function that counts the tokens of a text."""
Rank = bytes
"""Sort key of a cut; the cut with the greatest key is preferred."""

_BREAKS = [regex.compile(pattern) for pattern in (r"\n\s*", r"[,;:]\s+|[，、：]\s*", r"\s+")]
"""Places where a long sentence is cut, best first: line ends, clause ends, word ends."""
_BAD_END, _SENTENCE_END, _PARAGRAPH_END = b"0", b"1", b"2"
"""Kinds of ends, in the order of their quality for a cut."""
_HEADING = "#"
"""The mark with which a heading begins in Markdown."""
_CONTEXT = 16
"""Characters before a cut inside a sentence that decide between equal places."""
_LONGEST_CHOICE = 4096
"""Characters before the limit in which a place for a cut is searched."""
_CHARACTERS_A_TOKEN = 4
"""First estimate of the length of a token."""
_MOST_GROWTH = 4.0
"""A length that was tried grows at most by this factor: a short one says little of the rest."""
_MOST_INTERPOLATED = 8
"""Lengths that are tried by interpolation. After so many, halving the range is surer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text between two possible cuts.

    ``n_tokens`` does not count the white space around it. ``rank`` says how good its end is for a
    cut. The kind of end decides first. Among ends of one kind a hash of the piece's content
    decides, then one of the previous piece's as well. So an edit moves few cuts.
    """

    start: int
    end: int
    n_tokens: int
    rank: Rank


def cut_into_pieces(text: str, size: int, count: Count) -> list[Piece]:
    """Split the text into sentences, and long sentences into pieces of at most ``size`` tokens.

    The pieces are in order and without gaps. Only a single character may have more tokens.
    """
    pieces: list[Piece] = []
    before = b""
    for start, end in find_sentences(text):
        for piece_start, piece_end in _split_sentence(text, start, end, size, count):
            content = text[piece_start:piece_end].strip()
            key = _hash(content.encode("utf-8", "surrogatepass"))
            rank = _judge_end(text, piece_end, end, content) + key + _hash(before + key)
            pieces.append(Piece(piece_start, piece_end, count(content), rank))
            before = key
    return pieces


def find_fitting_end(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return an offset up to ``end``, so that the text from ``start`` has at most ``size`` tokens.

    It is nearly the greatest such offset: the search is not exact. A grapheme cluster is split only
    if it has more tokens by itself.
    """

    def tokens_of(length: int) -> int:
        return count(text[start : start + length].strip())

    limit = start + _search_length(end - start, size, tokens_of)
    if limit == end:
        return end
    ends = _find_cluster_ends(text, _find_word_start(text, start, limit), limit)
    last_end = ends[-1] if ends else limit
    return _shrink(text, start, last_end, size, count)


def find_fitting_start(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return an offset after ``start``, so that the text up to ``end`` has about ``size`` tokens.

    It is nearly the least offset with at most so many, but a beginning between clusters may add a
    token or two. Grapheme clusters are not split.
    """
    if size == 0 or end - start < 2:
        return end

    def tokens_of(length: int) -> int:
        return count(text[end - length : end].strip())

    earliest = end - _search_length(end - start - 1, size, tokens_of)
    ends = _find_cluster_ends(text, _find_word_start(text, start, earliest), end)
    return next((position for position in ends if position >= earliest), end)


def _split_sentence(
    text: str, start: int, end: int, size: int, count: Count
) -> Iterator[tuple[int, int]]:
    """Yield the offsets of pieces of the sentence that have at most ``size`` tokens.

    It is cut at the end of a line, a clause or a word, or else between grapheme clusters.
    """
    limit = find_fitting_end(text, start, end, size, count)
    while limit < end:
        cut = _shrink(text, start, _choose_break(text, start, limit), size, count)
        yield start, cut
        start = cut
        limit = find_fitting_end(text, start, end, size, count)
    yield start, end


def _choose_break(text: str, start: int, limit: int) -> int:
    """Return the best offset before ``limit`` to cut a sentence.

    Among equally good places, a hash of the text right before them decides. Most cuts therefore
    stay where they were after an edit.
    """

    def preference(end: int) -> tuple[bytes, int]:
        context = text[max(0, end - _CONTEXT) : end]
        return _hash(context.encode("utf-8", "surrogatepass")), end

    return max(_find_break_ends(text, start, limit), key=preference)


def _find_break_ends(text: str, start: int, limit: int) -> list[int]:
    """Return the ends of the best kind of place for a cut that is there: at least one."""
    # A cut in the first fifth would leave a tiny piece.
    lowest = max(start + (limit - start) // 5, limit - _LONGEST_CHOICE)
    for pattern in _BREAKS:
        found_ends = [found.end() for found in pattern.finditer(text, lowest, limit)]
        ends = [end for end in found_ends if is_cluster_end(text, end)]
        if ends:
            return ends
    cluster_ends = [end for end in _find_cluster_ends(text, start, limit) if end > lowest]
    return cluster_ends or [limit]


def _find_word_start(text: str, start: int, limit: int) -> int:
    """Return an offset before ``limit`` where a grapheme cluster begins, to search clusters from
    there on.

    Searching from ``start`` would be slow in a long text.
    """
    return max(start, text.rfind(" ", start, limit))


def _find_cluster_ends(text: str, start: int, limit: int) -> list[int]:
    """Return the ends up to ``limit`` of the grapheme clusters that begin at ``start`` or later.

    Grapheme clusters are those of Unicode Standard Annex 29.
    """
    # One character more shows whether the cluster at the limit goes on.
    ends = [start + found.end() for found in CLUSTER.finditer(text[start : limit + 1])]
    return [end for end in ends if end <= limit]


def _shrink(text: str, start: int, end: int, size: int, count: Count) -> int:
    """Return ``end``, moved back by characters until the text up to it has at most ``size`` tokens.

    That is needed because a shorter text may have more tokens than a longer one, and because a
    single grapheme cluster may have too many.
    """
    while end - start > 1 and count(text[start:end].strip()) > size:
        end -= 1
    return end


def _search_length(limit: int, allowed: int, cost: Callable[[int], int]) -> int:
    """Return nearly the largest length from 1 to ``limit`` whose cost is allowed.

    ``allowed`` is at least 1. The search interpolates at first, then bisects. It stops at 98 % of
    the allowed cost.
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
            # As long as no length was refused, the whole text may still fit.
            was_refused = high <= limit
            if is_close and was_refused:
                break
        tries += 1
        interpolated = length * min(_MOST_GROWTH, allowed / max(1, spent))
        guess = interpolated if tries < _MOST_INTERPOLATED else (low + high) / 2
        length = min(max(int(guess), low + 1), high - 1)
    return low


def _judge_end(text: str, end: int, sentence_end: int, content: str) -> bytes:
    """Return the kind of end of a piece. Inside a sentence and after a heading, no cut is good."""
    if end < sentence_end or content.startswith(_HEADING):
        return _BAD_END
    return _PARAGRAPH_END if ends_paragraph(text, end) else _SENTENCE_END


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()
