"""Bytes to text: byte order marks, UTF-8, UTF-16, then the likeliest legacy encoding that looks
like writing.

How much a text looks like writing, by its characters outside ASCII: bytes read in a wrong encoding
give rare ideographs beside Latin letters, or accented letters beside each other, where writing has
neither.

The likeliest legacy encoding is found by charset-normalizer's measures of disorder and of language,
by its look, or not at all.
"""

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from unicodedata import combining

_MOST = 2000
_TYPOGRAPHY = frozenset("“”‘’„‚–—…•«»‹›€£§·°©®™¿¡½¼¾")
_ALPHABETS = tuple(
    map(
        frozenset,
        "àâæçèéêëîïôùûüÿœ äöüßé áéíñóúü ãáâàçéêíóôõúü àèéìíòóùúî åäöæøéü áéíóúýþæöð çëâ éëïóöüá"
        " ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž áéíóöőúüű ăâîșțşţ čćđšž çğıİöşüâîû ąčęėįšųūž"
        " āčēģīķļņšūž äõöüšž àáâãèéêìíòóôõùúýăđĩũơư".split(),
    )
)
"""What languages that are written in Latin letters have beside those of ASCII."""
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
MET = (
    "gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "cp1252", "cp1251",
    "cp1250", "cp1254",
    "cp1253", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "koi8_r", "koi8_u", "iso8859_2",
    "iso8859_5",
    "iso8859_7", "iso8859_6", "iso8859_8", "iso8859_15", "cp850", "cp852", "cp437", "mac_roman",
    "mac_cyrillic", "cp866",
)  # fmt: skip
"""Encodings that documents are met in; rarer ones would be taken for them."""
_PAIRS = {"cp1250": "iso8859_2", "cp1253": "iso8859_7", "cp1252": "iso8859_15"}
TWINS = _PAIRS | {iso: windows for windows, iso in _PAIRS.items()}
"""So alike that charset-normalizer may keep one of the two."""
_LEAST_LOOK = 0.5
_OUTSIDE_ASCII, _WORD = re.compile(b"[\x80-\xff]"), re.compile(b"[A-Za-z]{2}")
_LEAST_IN_WORDS, _LEAST_BYTES = 2, 8
"""Outside ASCII, in or without words of it: fewer are what the fallbacks make of them."""
_LEAST_KINDS = 8
"""Of characters outside ASCII: of fewer the measures say nothing."""
_LEAST_LETTERS = 60
"""Outside ASCII: fewer say too little."""
_LEAST_LANGUAGE = 0.42
"""Of an encoding of one byte a character, in which any bytes are some text."""
_MOST_DISORDER = 0.03
_NEAR_DISORDER, _NEAR_LANGUAGE, _CLEAR_LOOK = 0.12, 0.15, 0.02
"""Readings whose measures differ by less are told apart by their look, and surely only where that
differs by more."""


def plausibility(text: str) -> float:
    """From 0 (noise) to 1 (writing); 1 for plain ASCII."""
    places = _outside_ascii(text)
    if not places:
        return 1.0
    fit = sum(
        _fit(text[place], text[max(0, place - 1) : place] + text[place + 1 : place + 2])
        for place in places
    )
    return fit / len(places) * _share_of_one_language([text[place] for place in places])


def _share_of_one_language(characters: list[str]) -> float:
    """Of the Latin letters among them, those that the likeliest language has."""
    letters = Counter(
        character.lower()
        for character in characters
        if character.isalpha() and character < "\u0250"
    ) - Counter("ªº")
    if not letters:
        return 1.0
    return (
        max(sum(letters[letter] for letter in alphabet) for alphabet in _ALPHABETS)
        / letters.total()
    )


def _outside_ascii(text: str) -> list[int]:
    places: list[int] = []
    for place, character in enumerate(text):
        if character > "\x7f":
            places.append(place)
            if len(places) == _MOST:
                break
    return places


def _fit(character: str, around: str) -> float:
    """How well the character goes with its neighbours."""
    if "\u3000" <= character <= "\u30ff" or "\uff01" <= character <= "\uff60":
        return 1.0
    if "\uac00" <= character <= "\ud7a3":
        return 1.0 if _encoded(character, "euc_kr") else 0.2
    if combining(character):
        return 1.0 if any(other.isalpha() for other in around) else 0.1
    beside_ascii_letter = any(other.isascii() and other.isalpha() for other in around)
    if "\u4e00" <= character <= "\u9fff":
        return (1.0 if _is_common_ideograph(character) else 0.2) * (
            0.4 if beside_ascii_letter else 1.0
        )
    if character in _TYPOGRAPHY:
        return 0.2 if any(other > "\x7f" and other not in _TYPOGRAPHY for other in around) else 0.8
    if not character.isalpha() or character in "ªº":
        return 0.1
    if character < "\u0250":
        return (
            1.0 if beside_ascii_letter else 0.1 if any(other > "\x7f" for other in around) else 0.6
        )
    return 1.0 if any(ord(other) >> 8 == ord(character) >> 8 for other in around) else 0.1


def _is_common_ideograph(character: str) -> bool:
    """Whether it is in GB 2312, or in level 1 of JIS X 0208 (first bytes 0x88 to 0x97 in
    Shift_JIS)."""
    if _encoded(character, "gb2312"):
        return True
    return 0x88 <= next(iter(_encoded(character, "shift_jis")), 0) <= 0x97


def _encoded(character: str, encoding: str) -> bytes:
    try:
        return character.encode(encoding)
    except UnicodeEncodeError:
        return b""


class UndecodableError(ValueError):
    pass


@dataclass(frozen=True)
class DecodedText:
    """``sure``: whether the text can be no other; else it is a guess that a reader should hear
    of."""

    text: str
    encoding: str
    sure: bool = True


def decode(data: bytes, encoding: str, fallbacks: Sequence[str]) -> str:
    """The text alone of what ``decoded`` tells."""
    return decoded(data, encoding, fallbacks).text


def decoded(data: bytes, encoding: str, fallbacks: Sequence[str]) -> DecodedText:
    """``data`` in ``encoding``, or if that is "" in the one it seems to be in, ``fallbacks`` being
    the first to be thought of where nothing tells several apart.

    Raises UndecodableError for binary data, or text that looks like writing in no encoding.
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


@dataclass(frozen=True)
class _Reading:
    """A text that the bytes may be, and how much speaks for it: ``disorder`` and ``language`` are
    charset-normalizer's, the worst and the least where it has none; ``thought_of``: whether it is
    one of the fallbacks."""

    text: str
    encoding: str
    look: float
    disorder: float
    language: float
    thought_of: bool


def _guess(data: bytes, fallbacks: Sequence[str]) -> DecodedText:
    telling = _telling(data)
    readings = [reading for reading in _readings(telling, fallbacks) if reading.look >= _LEAST_LOOK]
    while readings:
        chosen = _likeliest(readings)
        if _possible(data, [chosen.encoding]):
            return DecodedText(
                data.decode(chosen.encoding), chosen.encoding, _is_sure(chosen, readings, telling)
            )
        readings.remove(chosen)
    raise UndecodableError(
        "looks like writing in no encoding; convert it to UTF-8 or set input.encoding"
    )


def _likeliest(readings: Sequence[_Reading]) -> _Reading:
    """Of those that the measures do not tell apart the one that looks best; of equals the first."""
    near = _near(readings)
    return max(
        near, key=lambda reading: (round(reading.look, 3), reading.thought_of, reading.language)
    )


def _is_sure(chosen: _Reading, readings: Sequence[_Reading], telling: bytes) -> bool:
    rivals = [
        other
        for other in _near(readings)
        if other is not chosen and other.look > chosen.look - _CLEAR_LOOK
    ]
    long = sum(character > "\x7f" for character in chosen.text) >= _LEAST_LETTERS
    told = chosen.language >= _LEAST_LANGUAGE or len(chosen.text) < len(telling)
    return long and told and chosen.disorder <= _MOST_DISORDER and not rivals


def _near(readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """Those whose measures are about as good as the best; all where there is too little to
    measure."""
    best = min(readings, key=lambda reading: (reading.disorder, -reading.language))
    if len({character for character in best.text if character > "\x7f"}) < _LEAST_KINDS:
        return readings
    most, least = best.disorder + _NEAR_DISORDER, best.language - _NEAR_LANGUAGE
    return [
        reading for reading in readings if reading.disorder <= most and reading.language >= least
    ]


def _readings(telling: bytes, fallbacks: Sequence[str]) -> list[_Reading]:
    """Each text once, the fallbacks first."""
    from charset_normalizer import from_bytes

    enough = len(_OUTSIDE_ASCII.findall(telling)) >= (
        _LEAST_IN_WORDS if _WORD.search(telling) else _LEAST_BYTES
    )
    measured = (
        {match.encoding: match for match in from_bytes(telling, cp_isolation=list(MET))}
        if enough
        else {}
    )
    beside = [twin for encoding in measured if (twin := TWINS.get(encoding))]
    known: dict[str, _Reading] = {}
    for encoding in _possible(telling, list(dict.fromkeys([*fallbacks, *measured, *beside]))):
        text = telling.decode(encoding)
        match = measured.get(encoding) or measured.get(TWINS.get(encoding, ""))
        disorder, language = (match.chaos, match.coherence) if match else (1.0, 0.0)
        before = known.get(text)
        if before is None:
            known[text] = _Reading(
                text, encoding, plausibility(text), disorder, language, encoding in fallbacks
            )
        elif disorder < before.disorder:
            known[text] = replace(before, disorder=disorder, language=language)
    return list(known.values())


def _telling(data: bytes) -> bytes:
    """The lines that are not plain ASCII: elsewhere all encodings agree. Cut where no character can
    be."""
    lines = b"\n".join(line for line in data.splitlines() if not line.isascii())
    if len(lines) <= _SAMPLE:
        return lines
    end = max(lines.rfind(b" ", 0, _SAMPLE), lines.rfind(b"\n", 0, _SAMPLE))
    return lines[:end] if end > 0 else lines


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE]
    return len(_CONTROL.findall(sample)) > len(sample) * _MOST_CONTROL + 8
