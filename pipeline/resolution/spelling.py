"""Normalise the spelling of names: letters, numbers, dates, and words such as titles and forms.

The word lists name the titles, legal forms, ranks and types that the rules know.
"""

import re
import unicodedata
from collections.abc import Sequence

import regex

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
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
_SIMPLIFIED_DIGITS = str.maketrans("萬億", "万亿")
ORDINAL = "°"
"""The mark behind the digits of an ordinal."""

_NAMES = (
    "january february march april may june july august september october november december".split()
)
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_MONTHS |= {name[:3]: number for number, name in enumerate(_NAMES, 1)}
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
        "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i",
        "ё": "е", "ς": "σ",
    }
)  # fmt: skip
"""Letters that stay after accents are removed, with the letters they are compared as."""
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_ACCENTED = regex.compile(r"(?<=[\p{Latin}\p{Greek}])\p{Mn}+")
_KATAKANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
_LONG_END = regex.compile(r"(?<=[ぁ-ゖー]{3})ー(?![ぁ-ゖー])")
_JOINED = regex.compile(r"(?<=\p{L})['’‘ʼ´`](?=\p{L})")
_KATAKANA_EQUALS = re.compile("(?<=[ァ-ヺー])[=゠](?=[ァ-ヺ])")
"""The sign with which Japanese may join the parts of a foreign name, as it does with ・."""
_THOUSANDS = regex.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d.,])")
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+[+#]*|[\p{S}@/%*#]")
"""A word, or a sign that has a meaning: $100 is not €100, and A* is not A."""
LEGAL_FORMS = {
    "inc": "inc", "incorporated": "inc", "corp": "corp", "corporation": "corp", "co": "co", "company": "co",  # noqa: E501
    "ltd": "ltd", "limited": "ltd", "llc": "llc", "llp": "llp", "lp": "lp", "plc": "plc", "gmbh": "gmbh", "ag": "ag",  # noqa: E501
    "kg": "kg", "ug": "ug", "ev": "ev", "sa": "sa", "sas": "sas", "sarl": "sarl", "srl": "srl", "spa": "spa",  # noqa: E501
    "nv": "nv", "bv": "bv", "ab": "ab", "asa": "asa", "oy": "oy", "oyj": "oyj", "aps": "aps", "kk": "kk",  # noqa: E501
    "株": "株式会社", "pty": "pty", "pte": "pte", "ooo": "ooo", "ооо": "ооо", "зао": "зао", "оао": "оао", "пао": "пао",  # noqa: E501
}  # fmt: skip
"""The words for legal forms behind a company's name, each with one spelling of the form."""
LEGAL_FORMS_IN_FRONT = frozenset({"ооо", "зао", "оао", "пао", "株"})
JOINED_LEGAL_FORMS = {
    "股份有限公司": "股份有限公司", "有限责任公司": "有限责任公司", "有限責任公司": "有限责任公司",
    "有限公司": "有限公司", "株式会社": "株式会社", "株式會社": "株式会社", "有限会社": "有限会社",
    "有限會社": "有限会社", "合同会社": "合同会社",
}  # fmt: skip
"""The legal forms that are written without a space before or behind a name, each with one spelling
of the form. A longer form comes before its end."""
TITLES = {
    "mr": "m", "mister": "m", "sir": "m", "herr": "m", "monsieur": "m", "señor": "m", "senor": "m", "sr": "m",  # noqa: E501
    "mrs": "f", "ms": "f", "miss": "f", "dame": "f", "frau": "f", "madame": "f", "mme": "f", "mlle": "f",  # noqa: E501
    "señora": "f", "senora": "f", "sra": "f", "dr": "", "doctor": "", "prof": "", "professor": "", "rev": "",  # noqa: E501
    "reverend": "", "mx": "", "hon": "",
}  # fmt: skip
"""The titles before a person's name, with "m" or "f" if the title tells the sex, else ""."""
DEGREES = frozenset("phd esq msc mba dphil frs cbe obe mbe kbe dbe".split())
"""The words behind a person's name that are no part of it, as junior and senior are."""
VAGUE_TYPES = frozenset({"", "NAME", "TITLE", "UNKNOWN"})
"""Types that do not say whether an entity is a person."""
DOCUMENT = "TITLE"
"""The type of the titles of documents."""
RANKS = """
    archbishop archduchess archduke bishop abbot abbess baron baroness caliph count countess duke duchess earl elector
    electress emir emperor empress graf gräfin infante infanta khan king landgrave landgravine lady lord margrave
    margravine marquess marquis marchioness patriarch pope prince princess queen shah sultan tsar tsarina viscount
    viscountess voivode
""".split()  # noqa: E501
"""The words before "of" and a place in a person's epithet, as in "Duke of York"."""
JOINED_TITLES = (
    "さん", "ちゃん", "くん", "先生", "老师", "老師", "教授", "博士", "女士", "小姐", "氏", "様"
)  # fmt: skip
ARTICLES = frozenset({"the", "a", "an"})
PLURAL_ONLY = frozenset(
    """
    arms customs glasses goods means works securities damages grounds minutes savings spirits manners premises quarters
    remains scales spectacles stocks airs brains clothes colours colors forces heavens letters looks odds pains papers
    proceeds regards terms thanks times woods news series species headquarters politics windows contents effects
    communications humanities
    """.split()  # noqa: E501
)
"""Plurals that differ from their singular in meaning."""
PROPER_TYPES = frozenset(
    """
    PERSON PEOPLE ORGANIZATION ORGANISATION COMPANY LOCATION PLACE GEO CITY COUNTRY EVENT BRAND TEAM BAND WORK BOOK FILM
    SONG NAME TITLE UNKNOWN
    """.split()  # noqa: E501
)
"""The types of entities with proper names, which have no plural."""


def with_iso_dates(low: str) -> str:
    """Write dates in a text in lower case as year-month-day, or year-month if they have no day.

    Numeric dates are changed only if they are the whole text and the year comes first. In other
    orders, day and month can be mistaken for each other.
    """
    whole = _WHOLE_DATE.fullmatch(low)
    if whole:
        return _iso(whole[1], whole[3], whole[4])
    if not any(sign.isdigit() for sign in low):
        # Most names have no digit; this saves the four searches.
        return low
    low = _DAY_FIRST.sub(lambda at: _iso(at[3], _MONTHS[at[2]], at[1]), low)
    low = _MONTH_FIRST.sub(lambda at: _iso(at[3], _MONTHS[at[1]], at[2]), low)
    low = _MONTH_ONLY.sub(lambda at: _iso(at[2], _MONTHS[at[1]]), low)
    return _HAN_DATE.sub(lambda at: _iso(at[1], at[2], at[3]), low)


def _iso(year: str, month: int | str, day: str | None = None) -> str:
    """Return a date as year-month-day with two digits each, or as year-month."""
    year_and_month = f"{year}-{int(month):02}"
    return f"{year_and_month}-{int(day):02}" if day else year_and_month


def roman(word: str) -> int | None:
    """Return the value of a Roman numeral in capitals, up to 399, or None if it is none."""
    if not _ROMAN.fullmatch(word):
        return None
    values = [_ROMAN_VALUES[letter] for letter in word]
    total = 0
    for value, next_value in zip(values, [*values[1:], 0], strict=True):
        # A smaller value before a larger one is subtracted: IX is 9.
        total += -value if value < next_value else value
    return total


def counted(tokens: Sequence[str], cased: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens with number words, ordinals and Roman numerals as digits.

    Ordinals end with the mark `ORDINAL`. "Twenty one" becomes one token. ``cased`` holds the same
    tokens as they were written, which Roman numerals need; it is empty if they do not correspond.
    """
    numbers: list[str] = []
    for place, token in enumerate(tokens):
        written = cased[place] if place < len(cased) else ""
        number = _as_digits(token, written, place, len(tokens))
        if numbers and _continues_tens(tokens, place):
            tens = int(numbers.pop())
            mark = ORDINAL if number.endswith(ORDINAL) else ""
            ones = int(number.removesuffix(ORDINAL))
            number = f"{tens + ones}{mark}"
        numbers.append(number)
    return tuple(numbers)


def _continues_tens(tokens: Sequence[str], place: int) -> bool:
    """Return whether a token is a number word below ten behind one of tens: "twenty" "one"."""
    token = tokens[place]
    is_below_ten = CARDINALS.get(token, ORDINALS.get(token, 99)) < 10
    return is_below_ten and tokens[place - 1] in _TENS


def _as_digits(token: str, written: str, place: int, length: int) -> str:
    """Return the token at ``place`` of ``length`` with its number as digits.

    ``written`` is the token in its original case. A Roman numeral is never the first token; one of
    a single letter must be the last token and one of I, V and X.
    """
    if token in ORDINALS:
        return f"{ORDINALS[token]}{ORDINAL}"
    if token in CARDINALS:
        return str(CARDINALS[token])
    ordinal = _COUNTED.fullmatch(token)
    if ordinal:
        return f"{ordinal[1]}{ORDINAL}"
    is_last = place == length - 1
    may_be_roman = place > 0 and (len(written) > 1 or (written in "IVX" and is_last))
    value = roman(written) if may_be_roman else None
    if value:
        return str(value)
    return _HAN_ORDINAL.sub(lambda match: f"第{_HAN_DIGITS[match[1]]}", token)


def signature(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return all numbers in the tokens as written, in order; each Chinese numeral is one."""
    numbers: list[str] = []
    for token in tokens:
        numbers += _DIGITS.findall(token.translate(_SIMPLIFIED_DIGITS))
    return tuple(numbers)


def plain_width(name: str) -> str:
    """Return the name in one form of characters (NFKC); its case does not change.

    Runs of white space become a space, decimal digits of any script become 0 to 9, and thousands
    lose their commas.
    """
    text = " ".join(unicodedata.normalize("NFKC", name).split())
    signs = [str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text]
    text = _KATAKANA_EQUALS.sub("・", "".join(signs))
    return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)


def folded(text: str) -> str:
    """Return the text in the form in which spellings are compared.

    It is in lower case and without accents; only Latin and Greek letters lose them, as in other
    scripts they tell letters apart. Katakana becomes hiragana without the long mark at the end of
    a word. Dates with a named month become dates such as 2023-05-01, and "&" becomes "and".
    """
    low = _JOINED.sub("", text.casefold().replace("&", " and "))
    low = _ACCENTED.sub("", unicodedata.normalize("NFD", low))
    low = unicodedata.normalize("NFKC", low).translate(_LETTERS)
    return with_iso_dates(_LONG_END.sub("", low.translate(_KATAKANA)))


def expanded(text: str) -> str:
    """Return the `folded` text with German and Nordic letters written out: Müller as mueller."""
    return folded(unicodedata.normalize("NFC", text.casefold()).translate(_EXPANDED))


def words(text: str) -> list[str]:
    return TOKEN.findall(text)


def singular(word: str) -> str:
    """Return the English singular of a regular plural; other words are returned as they are."""
    if len(word) < 5 or word in PLURAL_ONLY or word.endswith(("ss", "us", "is", "ics", "as", "os")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 6 else word
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word.removesuffix("s")


def is_person(type: str) -> bool:
    return "PERSON" in type.upper()
