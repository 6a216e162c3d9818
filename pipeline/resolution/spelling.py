"""A name as it is compared: what is folded, what it counts, what it carries beside itself."""

import re
import unicodedata
from collections.abc import Sequence

import regex

_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "  # noqa: E501
_ONES += "eighteen nineteen twenty"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "  # noqa: E501
_ORDINALS += "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
_TENS = {
    word: 10 * ten
    for ten, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
CARDINALS = {word: number for number, word in enumerate(_ONES.split(), 1)} | _TENS
ORDINALS = {word: number for number, word in enumerate(_ORDINALS.split(), 1)} | {
    "thirtieth": 30, "fortieth": 40, "fiftieth": 50, "sixtieth": 60, "hundredth": 100
}  # fmt: skip
_ROMAN = re.compile(
    r"(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})|C{1,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
)
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_COUNTED = re.compile(r"(\d+)(?:st|nd|rd|th)")
_DIGITS = re.compile(r"\d+|[零〇一二三四五六七八九十百千萬万億亿]")
_HAN_ORDINAL = re.compile(r"第([一二三四五六七八九十])(?![一二三四五六七八九十百千])")
_HAN_DIGITS = {digit: str(number) for number, digit in enumerate("一二三四五六七八九十", 1)}
ORDINAL = "°"

_NAMES = (
    "january february march april may june july august september october november december".split()
)
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)} | {
    n[:3]: i for i, n in enumerate(_NAMES, 1)
}
_MONTHS["sept"] = 9
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_DAY, _YEAR = r"(\d{1,2})(?:st|nd|rd|th)?", r"(\d{4})"
_DAY_FIRST = re.compile(rf"\b{_DAY} (?:of )?{_MONTH},? {_YEAR}\b")
_MONTH_FIRST = re.compile(rf"\b{_MONTH} {_DAY},? {_YEAR}\b")
_MONTH_ONLY = re.compile(rf"\b{_MONTH},? {_YEAR}\b")
_HAN_DATE = re.compile(r"(\d{4})年(\d{1,2})月(?:(\d{1,2})[日号])?")
_WHOLE_DATE = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "ё": "е",
        "ς": "σ",
    }
)
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_ACCENTED = regex.compile(r"(?<=[\p{Latin}\p{Greek}])\p{Mn}+")
_KATAKANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
_LONG_END = regex.compile(r"(?<=[ぁ-ゖー]{3})ー(?![ぁ-ゖー])")
_JOINED = regex.compile(r"(?<=\p{L})['’‘ʼ´`](?=\p{L})")
_THOUSANDS = regex.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d.,])")
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+[+#]*|[\p{S}@/%*#]")
"""Words, and signs that mean something: $100 is not €100, A* not A."""
LEGAL_FORMS = {
    "inc": "inc", "incorporated": "inc", "corp": "corp", "corporation": "corp", "co": "co", "company": "co",  # noqa: E501
    "ltd": "ltd", "limited": "ltd", "llc": "llc", "llp": "llp", "lp": "lp", "plc": "plc", "gmbh": "gmbh", "ag": "ag",  # noqa: E501
    "kg": "kg", "ug": "ug", "ev": "ev", "sa": "sa", "sas": "sas", "sarl": "sarl", "srl": "srl", "spa": "spa",  # noqa: E501
    "nv": "nv", "bv": "bv", "ab": "ab", "asa": "asa", "oy": "oy", "oyj": "oyj", "aps": "aps", "kk": "kk",  # noqa: E501
    "pty": "pty", "pte": "pte", "ooo": "ooo", "ооо": "ооо", "зао": "зао", "оао": "оао", "пао": "пао",  # noqa: E501
}  # fmt: skip
"""What stands behind a company's name -> which form it is."""
LEGAL_FORMS_IN_FRONT = frozenset({"ооо", "зао", "оао", "пао"})
JOINED_LEGAL_FORMS = ("股份有限公司", "有限责任公司", "有限公司", "株式会社", "有限会社")
TITLES = {
    "mr": "m", "mister": "m", "sir": "m", "herr": "m", "monsieur": "m", "señor": "m", "senor": "m", "sr": "m",  # noqa: E501
    "mrs": "f", "ms": "f", "miss": "f", "dame": "f", "frau": "f", "madame": "f", "mme": "f", "mlle": "f",  # noqa: E501
    "señora": "f", "senora": "f", "sra": "f", "dr": "", "doctor": "", "prof": "", "professor": "", "rev": "",  # noqa: E501
    "reverend": "", "mx": "", "hon": "",
}  # fmt: skip
"""What stands before a person's name -> m or f, where it says so."""
DEGREES = frozenset("phd esq msc mba dphil frs cbe obe mbe kbe dbe".split())
"""What stands behind a person's name and is no part of it. Junior and senior are."""
VAGUE_TYPES = frozenset({"", "NAME", "TITLE", "UNKNOWN"})
"""Types that leave open whether it is a person."""
DOCUMENT = "TITLE"
"""Type of what a document is called."""
RANKS = """
    archbishop archduchess archduke bishop abbot abbess baron baroness caliph count countess duke duchess earl elector
    electress emir emperor empress graf gräfin infante infanta khan king landgrave landgravine lady lord margrave
    margravine marquess marquis marchioness patriarch pope prince princess queen shah sultan tsar tsarina viscount
    viscountess voivode
""".split()  # noqa: E501
"""What stands before "of" and a place in a person's epithet."""
JOINED_TITLES = ("さん", "先生", "女士", "氏", "様")
ARTICLES = frozenset({"the", "a", "an"})
PLURAL_ONLY = frozenset(
    """
    arms customs glasses goods means works securities damages grounds minutes savings spirits manners premises quarters
    remains scales spectacles stocks airs brains clothes colours colors forces heavens letters looks odds pains papers
    proceeds regards terms thanks times woods news series species headquarters politics windows contents effects
    communications humanities
    """.split()  # noqa: E501
)
"""Plurals that mean something else than their singular."""
PROPER_TYPES = frozenset(
    """
    PERSON PEOPLE ORGANIZATION ORGANISATION COMPANY LOCATION PLACE GEO CITY COUNTRY EVENT BRAND TEAM BAND WORK BOOK FILM
    SONG NAME TITLE UNKNOWN
    """.split()  # noqa: E501
)
"""Types of what has a name of its own, which has no plural."""


def with_iso_dates(low: str) -> str:
    """Dates whose parts cannot be mistaken as year-month-day; ``low`` is in lower case."""
    whole = _WHOLE_DATE.fullmatch(low)
    if whole:
        return _iso(whole[1], whole[3], whole[4])
    if not any(one.isdigit() for one in low):
        return low
    low = _DAY_FIRST.sub(lambda at: _iso(at[3], _MONTHS[at[2]], at[1]), low)
    low = _MONTH_FIRST.sub(lambda at: _iso(at[3], _MONTHS[at[1]], at[2]), low)
    low = _MONTH_ONLY.sub(lambda at: _iso(at[2], _MONTHS[at[1]]), low)
    return _HAN_DATE.sub(lambda at: _iso(at[1], at[2], at[3]), low)


def _iso(year: str, month: int | str, day: str | None = None) -> str:
    return f"{year}-{int(month):02}" + (f"-{int(day):02}" if day else "")


def roman(word: str) -> int | None:
    """The value of a Roman numeral in capitals, up to 399."""
    if not _ROMAN.fullmatch(word):
        return None
    values = [_ROMAN_VALUES[letter] for letter in word]
    return sum(
        -one if one < next_ else one for one, next_ in zip(values, [*values[1:], 0], strict=True)
    )


def counted(tokens: Sequence[str], cased: Sequence[str]) -> tuple[str, ...]:
    """The tokens with number words, ordinals and Roman numerals as digits; ordinals keep a mark.
    ``cased``: the same tokens as they were written, or none where they do not correspond."""
    numbers: list[str] = []
    for place, token in enumerate(tokens):
        written = cased[place] if place < len(cased) else ""
        if numbers and _joins_tens(tokens, place, token):
            ten, one = int(numbers.pop()), _number(token, written, place, len(tokens))
            mark = ORDINAL if one.endswith(ORDINAL) else ""
            numbers.append(f"{ten + int(one.removesuffix(ORDINAL))}{mark}")
        else:
            numbers.append(_number(token, written, place, len(tokens)))
    return tuple(numbers)


def _joins_tens(tokens: Sequence[str], place: int, token: str) -> bool:
    one = CARDINALS.get(token, ORDINALS.get(token, 99))
    return tokens[place - 1] in _TENS and one < 10


def _number(token: str, written: str, place: int, length: int) -> str:
    if token in ORDINALS:
        return f"{ORDINALS[token]}{ORDINAL}"
    if token in CARDINALS:
        return str(CARDINALS[token])
    if ordinal := _COUNTED.fullmatch(token):
        return f"{ordinal[1]}{ORDINAL}"
    value = (
        roman(written)
        if place and (len(written) > 1 or (written in "IVX" and place == length - 1))
        else None
    )
    return str(value) if value else _HAN_ORDINAL.sub(lambda at: f"第{_HAN_DIGITS[at[1]]}", token)


def signature(tokens: Sequence[str]) -> tuple[str, ...]:
    """Every number in the tokens, in order, as it is written; Chinese numerals one by one."""
    return tuple(number for token in tokens for number in _DIGITS.findall(token))


def plain_width(name: str) -> str:
    """NFKC, one kind of space, thousands without commas, decimal digits of any script as ours; case
    stays."""
    text = " ".join(unicodedata.normalize("NFKC", name).split())
    text = "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)
    return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)


def folded(text: str) -> str:
    """Lower case without accents (of Latin and Greek letters: elsewhere they tell letters apart);
    katakana as hiragana, without the long mark at a word's end; dates with a named month as
    2023-05-01; & as "and"."""
    low = _JOINED.sub("", text.casefold().replace("&", " and "))
    low = _ACCENTED.sub("", unicodedata.normalize("NFD", low))
    low = unicodedata.normalize("NFKC", low).translate(_LETTERS)
    return with_iso_dates(_LONG_END.sub("", low.translate(_KATAKANA)))


def expanded(text: str) -> str:
    """``folded``, with German and Nordic letters written out: Müller as mueller."""
    return folded(unicodedata.normalize("NFC", text.casefold()).translate(_EXPANDED))


def words(text: str) -> list[str]:
    return TOKEN.findall(text)


def singular(word: str) -> str:
    """The English singular of a regular plural; the word itself where it is none."""
    if len(word) < 5 or word in PLURAL_ONLY or word.endswith(("ss", "us", "is", "ics", "as", "os")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 6 else word
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word.removesuffix("s")


def is_person(type: str) -> bool:
    return "PERSON" in type.upper()
