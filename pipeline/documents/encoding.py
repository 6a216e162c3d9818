"""Bytes to text: byte order marks, UTF-8, UTF-16, then the likeliest of a few legacy encodings."""

import codecs
import re
from collections.abc import Sequence

from pipeline.documents.plausibility import plausibility

_MARKS = [
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_SAMPLE = 65536
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROL = 0.02
_LEAST_ZEROS, _MOST_ZEROS = 0.3, 0.02


class UndecodableError(ValueError):
    pass


def decode(data: bytes, encoding: str, fallbacks: Sequence[str]) -> str:
    """The text of ``data``: in ``encoding``, or if that is "" in the one it seems to be in.

    Raises UndecodableError for binary data, or text in none of the encodings tried.
    """
    if encoding:
        return _strict(data, encoding)
    for mark, marked in _MARKS:
        if data.startswith(mark):
            return _strict(data, marked)
    found = _utf16_without_mark(data) or _first_of(data, ["utf-8"]) or _likeliest(data, fallbacks)
    if found is None:
        tried = ", ".join(["utf-8", "utf-16", *fallbacks])
        raise UndecodableError(f"is in none of {tried}; convert it to UTF-8 or set input.encoding")
    text = _strict(data, found)
    if _is_binary(text):
        raise UndecodableError("holds binary data, not text; remove it or set input.file_pattern")
    return text


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise UndecodableError(f"is not {encoding}: {error}; convert it to UTF-8") from error


def _utf16_without_mark(data: bytes) -> str | None:
    """By the zero bytes of Latin letters, digits, spaces and line ends."""
    sample = data[:_SAMPLE]
    even, odd = sample[0::2], sample[1::2]
    if len(data) % 2 or not odd:
        return None
    even_zeros, odd_zeros = even.count(0) / len(even), odd.count(0) / len(odd)
    if odd_zeros >= _LEAST_ZEROS and even_zeros <= _MOST_ZEROS:
        return _first_of(data, ["utf-16-le"])
    if even_zeros >= _LEAST_ZEROS and odd_zeros <= _MOST_ZEROS:
        return _first_of(data, ["utf-16-be"])
    return None


def _first_of(data: bytes, encodings: Sequence[str]) -> str | None:
    return next(iter(_possible(data, encodings)), None)


def _possible(data: bytes, encodings: Sequence[str]) -> list[str]:
    possible = []
    for encoding in encodings:
        try:
            data.decode(encoding)
        except UnicodeError:
            continue
        possible.append(encoding)
    return possible


def _likeliest(data: bytes, fallbacks: Sequence[str]) -> str | None:
    """Of the encodings that can be, the one that reads most like writing; of equals the first."""
    possible = _possible(data, fallbacks)
    return max(possible, key=lambda encoding: plausibility(data.decode(encoding)), default=None)


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE]
    return len(_CONTROL.findall(sample)) > len(sample) * _MOST_CONTROL + 8
