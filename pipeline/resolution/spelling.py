"""A name as it is compared: case, width, accents, punctuation and kana folded, what it counts kept."""

import unicodedata

import regex

from pipeline.resolution.numerals import with_iso_dates

_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ё": "е", "ς": "σ"}
)
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_ACCENTED = regex.compile(r"(?<=[\p{Latin}\p{Greek}])\p{Mn}+")
_KATAKANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
_LONG_END = regex.compile(r"(?<=[ぁ-ゖー]{3})ー(?![ぁ-ゖー])")
_JOINED = regex.compile(r"(?<=\p{L})['’‘ʼ´`](?=\p{L})")
_THOUSANDS = regex.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d.,])")
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+[+#]*|[\p{S}@/%*#]")
"""Words, and signs that mean something: $100 is not €100, A* not A."""


def plain_width(name: str) -> str:
    """NFKC, one kind of space, thousands without commas, decimal digits of any script as ours; case stays."""
    text = " ".join(unicodedata.normalize("NFKC", name).split())
    text = "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)
    return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)


def folded(text: str) -> str:
    """Lower case without accents (of Latin and Greek letters: elsewhere they tell letters apart); katakana as
    hiragana, without the long mark at a word's end; dates with a named month as 2023-05-01; & as "and"."""
    low = _JOINED.sub("", text.casefold().replace("&", " and "))
    low = _ACCENTED.sub("", unicodedata.normalize("NFD", low))
    low = unicodedata.normalize("NFKC", low).translate(_LETTERS)
    return with_iso_dates(_LONG_END.sub("", low.translate(_KATAKANA)))


def expanded(text: str) -> str:
    """``folded``, with German and Nordic letters written out: Müller as mueller."""
    return folded(unicodedata.normalize("NFC", text.casefold()).translate(_EXPANDED))


def words(text: str) -> list[str]:
    return TOKEN.findall(text)
