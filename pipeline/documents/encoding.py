"""Bytes to text: by byte order mark, as UTF-8, as UTF-16 without a mark, else by detection among candidates."""

import codecs
from collections.abc import Sequence

from charset_normalizer import from_bytes

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CANDIDATES = ("gb18030", "cp932", "cp1252")
"""GB18030, Shift_JIS as Windows writes it, and Western European."""

SAMPLE = 200_000
BINARY = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b\x00")


def decode(data: bytes, encoding: str = "", candidates: Sequence[str] = CANDIDATES) -> str:
    """The text. ``encoding``, where given, is the only one tried.

    Raises ValueError when the bytes are no text in any of them.
    """
    if encoding:
        return _strictly(data, [encoding])
    for mark, name in MARKS:
        if data.startswith(mark):
            return _strictly(data, [name])
    if _looks_binary(data[:SAMPLE]):
        raise ValueError("binary, not text")
    wide = _wide(data[:SAMPLE])
    if wide:
        return _strictly(data, [wide])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _strictly(data, _likeliest_first(data[:SAMPLE], candidates))


def _strictly(data: bytes, encodings: Sequence[str]) -> str:
    for encoding in encodings:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
        except LookupError:
            raise ValueError(f"no encoding is called '{encoding}'") from None
    raise ValueError(f"not {', '.join(encodings)}")


def _looks_binary(sample: bytes) -> bool:
    """Many control bytes that no text has; NULs alone may be UTF-16."""
    return sum(byte in BINARY for byte in sample) > len(sample) // 100


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark: where every other byte of mostly Latin text is zero."""
    pairs = len(sample) // 2
    if pairs == 0 or sample.count(0) < pairs * 0.4:
        return None
    return "utf-16-le" if sample[1::2].count(0) > sample[0::2].count(0) else "utf-16-be"


def _likeliest_first(sample: bytes, candidates: Sequence[str]) -> list[str]:
    best = from_bytes(sample, cp_isolation=list(candidates)).best()
    return sorted(candidates, key=lambda name: best is None or name != best.encoding)
