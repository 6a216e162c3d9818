"""Decode bytes to text: byte order marks, UTF-8, UTF-16, then the likeliest legacy encoding.

Some characters outside ASCII show that bytes were read in a wrong encoding: rare ideographs beside
Latin letters, or accented letters beside each other. The plausibility of a text counts how far its
characters go together as in writing.

The likeliest legacy encoding is found by the measures of disorder and of language of
charset-normalizer, and by plausibility. If these do not suffice, the text counts as undecodable.
"""

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unicodedata import combining

if TYPE_CHECKING:
    from charset_normalizer import CharsetMatch

_MOST = 2000
"""The number of characters outside ASCII by which a text is judged."""
_TYPOGRAPHY = frozenset("“”‘’„‚–—…•«»‹›€£§·°©®™¿¡½¼¾")
_ALPHABETS = tuple(
    map(
        frozenset,
        "àâæçèéêëîïôùûüÿœ äöüßé áéíñóúü ãáâàçéêíóôõúü àèéìíòóùúî åäöæøéü áéíóúýþæöð çëâ éëïóöüá"
        " ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű ăâîșțşţ čćđšž çğıİöşüâîû ąčęėįšųūž"
        " āčēģīķļņšūž äõöüšž àáâãèéêìíòóôõùúýăđĩũơư".split(),
    )
)
"""The letters outside ASCII of languages that are written in Latin letters, by language."""
_LATIN_END = "\u0250"
"""The first character behind the Latin letters with accents."""
_ORDINAL_SIGNS = frozenset("ªº")
_MARKS = [
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
]
_SAMPLE = 65536
"""The number of bytes or characters by which a file is judged."""
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROL = 0.02
"""The largest share of control characters in a text that is not binary."""
_LEAST_ZEROS, _MOST_ZEROS = 0.3, 0.02
"""The shares of zeros among the high and the low bytes of text in UTF-16."""
MET = (
    "gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "cp1252", "cp1251",
    "cp1250", "cp1254", "cp1253", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "koi8_r",
    "koi8_u", "iso8859_2", "iso8859_5", "iso8859_7", "iso8859_6", "iso8859_8", "iso8859_15",
    "cp850", "cp852", "cp437", "mac_roman", "mac_cyrillic", "cp866",
)  # fmt: skip
"""The encodings that occur in documents; a text in one of these could be taken for a rarer one."""
_PAIRS = {"cp1250": "iso8859_2", "cp1253": "iso8859_7", "cp1252": "iso8859_15"}
TWINS = _PAIRS | {iso: windows for windows, iso in _PAIRS.items()}
"""Pairs of encodings so alike that charset-normalizer may report only one of the two."""
_LEAST_PLAUSIBLE = 0.5
"""The lowest plausibility of a text that is accepted."""
_OUTSIDE_ASCII, _WORD = re.compile(b"[\x80-\xff]"), re.compile(b"[A-Za-z]{2}")
_LEAST_IN_WORDS, _LEAST_BYTES = 2, 8
"""The fewest bytes outside ASCII that are measured: beside words in ASCII, and without such words.

Texts with fewer are decoded by the fallbacks.
"""
_LEAST_KINDS = 8
"""The fewest different characters outside ASCII for which the measures tell anything."""
_LEAST_LETTERS = 60
"""The fewest characters outside ASCII for which a guess is sure."""
_LEAST_LANGUAGE = 0.42
"""The lowest measure of language at which an encoding of one byte a character is sure.

In such an encoding, any bytes are some text.
"""
_MOST_DISORDER = 0.03
"""The highest measure of disorder at which a guess is sure."""
_NEAR_DISORDER, _NEAR_LANGUAGE, _CLEARLY_PLAUSIBLE = 0.12, 0.15, 0.02
"""Differences of measures below which plausibility decides between two texts.

The third is the difference in plausibility below which this decision is not sure.
"""


def plausibility(text: str) -> float:
    """Return how far a text looks like writing, from 0 (noise) to 1; plain ASCII has 1."""
    places = _outside_ascii(text)
    if not places:
        return 1.0
    fits: list[float] = []
    for place in places:
        before, after = text[max(0, place - 1) : place], text[place + 1 : place + 2]
        fits.append(_fit(text[place], before + after))
    return sum(fits) / len(places) * _share_of_one_language([text[place] for place in places])


def _share_of_one_language(characters: list[str]) -> float:
    """Return the share of the Latin letters that belongs to the likeliest language, or 1 for none.

    One ª and one º are not counted: a text in any language may have them.
    """
    letters = Counter(
        character.lower()
        for character in characters
        if character.isalpha() and character < _LATIN_END
    )
    letters -= Counter(_ORDINAL_SIGNS)
    if not letters:
        return 1.0
    shares = [sum(letters[letter] for letter in alphabet) for alphabet in _ALPHABETS]
    return max(shares) / letters.total()


def _outside_ascii(text: str) -> list[int]:
    """Return the positions of the first characters outside ASCII, at most `_MOST`."""
    places: list[int] = []
    for place, character in enumerate(text):
        if character > "\x7f":
            places.append(place)
            if len(places) == _MOST:
                break
    return places


def _fit(character: str, around: str) -> float:
    """Return from 0 to 1 how well a character goes with its neighbours, the text ``around`` it."""
    if "\u3000" <= character <= "\u30ff" or "\uff01" <= character <= "\uff60":
        # Kana and punctuation of East Asia.
        return 1.0
    if "\uac00" <= character <= "\ud7a3":
        return 1.0 if _encode(character, "euc_kr") else 0.2
    if combining(character):
        return 1.0 if any(other.isalpha() for other in around) else 0.1
    beside_ascii_letter = any(other.isascii() and other.isalpha() for other in around)
    if "\u4e00" <= character <= "\u9fff":
        commonness = 1.0 if _is_common_ideograph(character) else 0.2
        return commonness * (0.4 if beside_ascii_letter else 1.0)
    beside_others = [other for other in around if other > "\x7f"]
    if character in _TYPOGRAPHY:
        return 0.2 if any(other not in _TYPOGRAPHY for other in beside_others) else 0.8
    if not character.isalpha() or character in _ORDINAL_SIGNS:
        return 0.1
    if character < _LATIN_END:
        if beside_ascii_letter:
            return 1.0
        return 0.1 if beside_others else 0.6
    # Letters of one script are in one block of 256 code points.
    beside_same_script = any(ord(other) >> 8 == ord(character) >> 8 for other in around)
    return 1.0 if beside_same_script else 0.1


def _is_common_ideograph(character: str) -> bool:
    """Return whether an ideograph is in GB 2312 or in level 1 of JIS X 0208.

    The latter has first bytes 0x88 to 0x97 in Shift_JIS.
    """
    if _encode(character, "gb2312"):
        return True
    in_shift_jis = _encode(character, "shift_jis")
    return bool(in_shift_jis) and 0x88 <= in_shift_jis[0] <= 0x97


def _encode(character: str, encoding: str) -> bytes:
    """Return the character in the encoding, or no bytes if it does not have it."""
    try:
        return character.encode(encoding)
    except UnicodeEncodeError:
        return b""


class UndecodableError(ValueError):
    """An error for bytes that are no text, or text in no known encoding."""


@dataclass(frozen=True)
class DecodedText:
    """A text with its encoding. ``sure`` is false for a guess, which should be reported."""

    text: str
    encoding: str
    sure: bool = True


def decode(data: bytes, encoding: str, fallbacks: Sequence[str]) -> str:
    """Return the text of `decoded` with the same arguments and errors."""
    return decoded(data, encoding, fallbacks).text


def decoded(data: bytes, encoding: str, fallbacks: Sequence[str]) -> DecodedText:
    """Decode ``data``; if ``encoding`` is empty, find out the encoding.

    If several encodings are equally likely, the first of the ``fallbacks`` is taken. Raises
    UndecodableError for binary data, and for text that looks like writing in no encoding.
    """
    if encoding:
        return DecodedText(_strict(data, encoding), encoding)
    for mark, marked in _MARKS:
        if data.startswith(mark):
            return DecodedText(_strict(data, marked), marked)
    found = _utf16_without_mark(data) or _first_of(data, ["utf-8"])
    text = DecodedText(_strict(data, found), found) if found else _guess(data, fallbacks)
    if _is_binary(text.text):
        raise UndecodableError("holds binary data, not text; remove it or set input.file_pattern")
    return text


def _strict(data: bytes, encoding: str) -> str:
    """Decode without replacing anything. Raises UndecodableError."""
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise UndecodableError(f"is not {encoding}: {error}; convert it to UTF-8") from error


def _utf16_without_mark(data: bytes) -> str | None:
    """Return the encoding of UTF-16 without a byte order mark, or None if the data is none.

    Latin letters, digits, spaces and line ends have a zero as their high byte.
    """
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
    """Return the first encoding that can decode the data, or None."""
    return next(iter(_possible(data, encodings)), None)


def _possible(data: bytes, encodings: Sequence[str]) -> list[str]:
    """Return the encodings that can decode the data."""
    possible: list[str] = []
    for encoding in encodings:
        try:
            data.decode(encoding)
        except UnicodeError:
            continue
        possible.append(encoding)
    return possible


@dataclass(frozen=True)
class _Reading:
    """A text that the bytes may stand for, with its measures.

    ``disorder`` and ``language`` are those of charset-normalizer; without them, they are 1 and 0,
    the worst values. ``is_fallback`` tells whether the encoding is one of the fallbacks.
    """

    text: str
    encoding: str
    plausibility: float
    disorder: float
    language: float
    is_fallback: bool


def _guess(data: bytes, fallbacks: Sequence[str]) -> DecodedText:
    """Decode by the likeliest legacy encoding. Raises UndecodableError if none is plausible."""
    sample = _lines_outside_ascii(data)
    readings = [
        reading
        for reading in _readings(sample, fallbacks)
        if reading.plausibility >= _LEAST_PLAUSIBLE
    ]
    while readings:
        chosen = _likeliest(readings)
        # What decodes the sample need not decode the rest.
        if _possible(data, [chosen.encoding]):
            sure = _is_sure(chosen, readings, sample)
            return DecodedText(data.decode(chosen.encoding), chosen.encoding, sure)
        readings.remove(chosen)
    raise UndecodableError(
        "looks like writing in no encoding; convert it to UTF-8 or set input.encoding"
    )


def _likeliest(readings: Sequence[_Reading]) -> _Reading:
    """Return the most plausible of the readings with near measures.

    Of equals, fallbacks are preferred, then the higher measure of language, then the first.
    """
    return max(
        _near_best(readings),
        key=lambda reading: (
            round(reading.plausibility, 3),
            reading.is_fallback,
            reading.language,
        ),
    )


def _is_sure(chosen: _Reading, readings: Sequence[_Reading], sample: bytes) -> bool:
    """Return whether the chosen reading of the sample is certain enough to need no report."""
    least_plausible = chosen.plausibility - _CLEARLY_PLAUSIBLE
    has_rivals = any(
        other is not chosen and other.plausibility > least_plausible
        for other in _near_best(readings)
    )
    is_long = sum(1 for character in chosen.text if character > "\x7f") >= _LEAST_LETTERS
    has_wide_characters = len(chosen.text) < len(sample)
    is_language = has_wide_characters or chosen.language >= _LEAST_LANGUAGE
    is_orderly = chosen.disorder <= _MOST_DISORDER
    return is_long and is_language and is_orderly and not has_rivals


def _near_best(readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """Return the readings whose measures are about as good as the best.

    All are returned if there is too little to measure.
    """
    best = min(readings, key=lambda reading: (reading.disorder, -reading.language))
    kinds = {character for character in best.text if character > "\x7f"}
    if len(kinds) < _LEAST_KINDS:
        return readings
    most_disorder = best.disorder + _NEAR_DISORDER
    least_language = best.language - _NEAR_LANGUAGE
    return [
        reading
        for reading in readings
        if reading.disorder <= most_disorder and reading.language >= least_language
    ]


def _readings(sample: bytes, fallbacks: Sequence[str]) -> list[_Reading]:
    """Return the texts that the sample may stand for, each once, those by fallbacks first."""
    from charset_normalizer import from_bytes

    least_bytes = _LEAST_IN_WORDS if _WORD.search(sample) else _LEAST_BYTES
    measured: dict[str, CharsetMatch] = {}
    if len(_OUTSIDE_ASCII.findall(sample)) >= least_bytes:
        measured = {match.encoding: match for match in from_bytes(sample, cp_isolation=list(MET))}
    twins = [TWINS[encoding] for encoding in measured if encoding in TWINS]
    encodings = list(dict.fromkeys([*fallbacks, *measured, *twins]))
    known: dict[str, _Reading] = {}
    for encoding in _possible(sample, encodings):
        text = sample.decode(encoding)
        match = measured.get(encoding) or measured.get(TWINS.get(encoding, ""))
        disorder, language = (match.chaos, match.coherence) if match else (1.0, 0.0)
        before = known.get(text)
        if before is None:
            known[text] = _Reading(
                text=text,
                encoding=encoding,
                plausibility=plausibility(text),
                disorder=disorder,
                language=language,
                is_fallback=encoding in fallbacks,
            )
        elif disorder < before.disorder:
            known[text] = replace(before, disorder=disorder, language=language)
    return list(known.values())


def _lines_outside_ascii(data: bytes) -> bytes:
    """Return the lines that are not plain ASCII, in which alone the encodings differ.

    The result has at most `_SAMPLE` bytes if it can be cut at a space or a line end, where no
    character is cut in two.
    """
    lines = b"\n".join(line for line in data.splitlines() if not line.isascii())
    if len(lines) <= _SAMPLE:
        return lines
    end = max(lines.rfind(b" ", 0, _SAMPLE), lines.rfind(b"\n", 0, _SAMPLE))
    return lines[:end] if end > 0 else lines


def _is_binary(text: str) -> bool:
    """Return whether the text has too many control characters; eight are always accepted."""
    sample = text[:_SAMPLE]
    return len(_CONTROL.findall(sample)) > len(sample) * _MOST_CONTROL + 8
