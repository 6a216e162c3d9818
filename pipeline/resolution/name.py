"""Take a name of an entity apart once, so that many comparisons can use its parts.

Names in Cyrillic or Greek letters are compared with their Latin spellings by a skeleton. The usual
romanisations (ISO 9, BGN/PCGN, scholarly, English habit) write some letters differently; the
skeleton writes these letters alike.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.resolution.spelling import (
    ARTICLES,
    DEGREES,
    JOINED_LEGAL_FORMS,
    JOINED_TITLES,
    LEGAL_FORMS,
    LEGAL_FORMS_IN_FRONT,
    RANKS,
    TITLES,
    VAGUE_TYPES,
    counted,
    expanded,
    folded,
    is_person,
    plain_width,
    signature,
    singular,
    words,
)

_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "ґ": "g", "д": "d", "е": "e", "є": "e", "ж": "zh",
    "з": "z", "и": "i", "і": "i", "ї": "i", "й": "i", "к": "k", "л": "l", "м": "m", "н": "n",
    "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh", "ц": "ts",
    "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "i", "ь": "", "э": "e", "ю": "iu", "я": "ia",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i",
    "κ": "k", "λ": "l", "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s",
    "τ": "t", "υ": "i", "φ": "f", "χ": "kh", "ψ": "ps", "ω": "o",
}  # fmt: skip
_LATIN = str.maketrans(_CYRILLIC | _GREEK)
_FOREIGN = re.compile(f"[{''.join(_CYRILLIC)}{''.join(_GREEK)}]")
# The order counts: each pattern sees what the patterns before it have left.
_ALIKE = (
    (re.compile("shch|sch|sh"), "s"),
    (re.compile("tch|ch|cz"), "c"),
    (re.compile("zh"), "z"),
    (re.compile("kh|h"), "x"),
    (re.compile("ks"), "x"),
    (re.compile("ts|tz"), "t"),
    (re.compile("ph"), "f"),
    (re.compile("w"), "v"),
    (re.compile("ou"), "u"),
    (re.compile("[yj]"), "i"),
    (re.compile("ie|io"), "e"),
    (re.compile("i+"), "i"),
    (re.compile(r"i(?=[aeu])"), ""),
    (re.compile(r"(.)\1"), r"\1"),
)
_BRACKETED = re.compile(r"(.+?)\s*[(\[]([^()\[\]]+)[)\]]")
_RANKED = re.compile(rf"([^,]+), (?i:{'|'.join(RANKS)})(?: Palatine)? of ([^,]+)")
_DOTTED = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_SMALL_WORDS = frozenset("of the and for in on de la le du des der die das und et y e".split())
_SHORTEST_ACRONYM, _LONGEST_ACRONYM = 2, 8
_BEHIND_A_PERSON = frozenset({"jr", "sr", "junior", "senior", "md", "ii", "iii", "iv"})
"""Words that follow a comma behind a person's name and are no given name."""


def is_foreign(text: str) -> bool:
    """Return whether a folded name has Cyrillic or Greek letters."""
    return bool(_FOREIGN.search(text))


def skeleton(text: str) -> str:
    """Return what all romanisations of a folded name have in common.

    A name in Latin letters has about the same skeleton as its Cyrillic or Greek spelling.
    """
    latin = text.translate(_LATIN)
    for pattern, letter in _ALIKE:
        latin = pattern.sub(letter, latin)
    return latin


@dataclass(frozen=True)
class Name:
    """A name of an entity with the parts that the rules compare.

    ``tokens`` are the words of the whole name, with numbers as digits. ``core`` leaves out the
    article, title, degree and legal form, which ``article``, ``title`` and ``legal`` describe.
    ``numbers`` are the numbers in the tokens. ``spellings`` hold the whole name without spaces,
    also with umlauts written out. ``inverted`` is true for a name written as "Surname, Given". Of
    a name "Long Name (LN)", ``long`` is the joined core of the first part and ``short`` the second
    part in lower case; both are empty for other names.
    """

    name: str
    type: str
    tokens: tuple[str, ...]
    core: tuple[str, ...]
    numbers: tuple[str, ...]
    spellings: frozenset[str]
    article: bool = False
    title: str | None = None
    legal: str | None = None
    inverted: bool = False
    long: str = ""
    short: str = ""

    @cached_property
    def joined(self) -> str:
        """The core without spaces."""
        return "".join(self.core)

    @cached_property
    def singular(self) -> str:
        """The core without spaces, its last word in the singular."""
        if not self.core:
            return ""
        *first_words, last_word = self.core
        return "".join((*first_words, singular(last_word)))

    @cached_property
    def text(self) -> str:
        """The core with spaces."""
        return " ".join(self.core)

    @cached_property
    def foreign(self) -> bool:
        """True if the core has Cyrillic or Greek letters."""
        return is_foreign(self.text)

    @cached_property
    def skeleton(self) -> str:
        """The skeletons of the core's words, with spaces."""
        return " ".join(map(skeleton, self.core))

    @cached_property
    def acronym(self) -> str:
        """The name in lower case without dots and spaces if it is an acronym, else empty.

        An acronym is written in capitals only and has 2 to 8 letters.
        """
        plain = plain_width(self.name).replace(".", "").replace(" ", "")
        fits = _SHORTEST_ACRONYM <= len(plain) <= _LONGEST_ACRONYM
        is_acronym = fits and plain.isalpha() and plain.isupper()
        return plain.lower() if is_acronym else ""

    @cached_property
    def initials(self) -> str:
        """The first letters of the core's words without small words; empty for fewer than two."""
        return _initials(self.core)

    @cached_property
    def is_person(self) -> bool:
        """True if the type says that the entity is a person."""
        return is_person(self.type)

    @property
    def is_vague(self) -> bool:
        """True if the type does not say what kind of thing the entity is."""
        return self.type in VAGUE_TYPES

    @cached_property
    def may_be_person(self) -> bool:
        """True for a person, and for an entity of a vague type with a name like a person's.

        A name is like a person's if it has at most three words, all capitalised and of letters.
        """
        if self.is_person or not self.is_vague:
            return self.is_person
        parts = self.name.split()
        return len(parts) <= 3 and all(part.isalpha() and part[0].isupper() for part in parts)

    @cached_property
    def marks(self) -> str:
        """The exclamation and question marks of the name: two titles may differ in these alone."""
        return "".join(letter for letter in plain_width(self.name) if letter in "!?")

    @cached_property
    def unqualified(self) -> str:
        """The joined words before the bracket of "Name (qualifier)"; empty for other names."""
        found = _BRACKETED.fullmatch(plain_width(self.name))
        return _join_tokens(found[1]) if found else ""

    @cached_property
    def of_place(self) -> str:
        """The joined words of "Name of Place" for "Name, Rank of Place"; empty for other names."""
        found = _RANKED.fullmatch(plain_width(self.name))
        return _join_tokens(f"{found[1]} of {found[2]}") if found else ""


def read_name(name: str, type: str) -> Name:
    """Take a name apart.

    The entity's ``type`` decides whether titles and commas are read as those of a person; its case
    is ignored.
    """
    text, type = plain_width(name), type.upper()
    of_person = is_person(type)
    if not of_person:
        text = _DOTTED.sub(lambda letters: letters[0].replace(".", ""), text)
    long, short = _split_definition(text)
    cased = words(text)
    low = words(folded(text))
    tokens = counted(low, cased if len(cased) == len(low) else [])
    expanded_tokens = counted(words(expanded(text)), cased)
    turned = _turn_inverted(text) if of_person else None
    core: Sequence[str] = _read_tokens(turned) if turned else tokens
    article = len(core) > 1 and core[0] in ARTICLES
    if article:
        core = core[1:]
    title: str | None = None
    legal: str | None = None
    if of_person:
        title, core = _without_title(core)
    else:
        legal, core = _without_legal_form(core)
    return Name(
        name=name,
        type=type,
        tokens=tokens,
        core=tuple(core),
        numbers=signature(tokens),
        spellings=frozenset({"".join(tokens), "".join(expanded_tokens)}),
        article=article,
        title=title,
        legal=legal,
        inverted=turned is not None,
        long=read_name(long, type).joined if long else "",
        short=short.lower(),
    )


def _read_tokens(text: str) -> tuple[str, ...]:
    """Return the folded words of a text, with numbers as digits."""
    return counted(words(folded(text)), words(text))


def _join_tokens(text: str) -> str:
    return "".join(_read_tokens(text))


def _initials(core: Sequence[str]) -> str:
    """Return the first letters of the words that are not small; empty for fewer than two."""
    letters = [word[0] for word in core if word not in _SMALL_WORDS and word[0].isalpha()]
    return "".join(letters) if len(letters) >= _SHORTEST_ACRONYM else ""


def _split_definition(text: str) -> tuple[str, str]:
    """Return the long name and the initials of "Long Name (LN)" or "LN (Long Name)".

    Both are empty if the name has another form, or if LN are not the initials of the long name.
    """
    found = _BRACKETED.fullmatch(text)
    if not found:
        return "", ""
    outer, inner = found[1], found[2]
    for long, short in ((outer, inner.replace(".", "")), (inner, outer.replace(".", ""))):
        capitals = sum(map(str.isupper, short))
        long_words = words(folded(long))
        every_initial = "".join(word[0] for word in long_words)
        stands_for_it = short.lower() in (_initials(long_words), every_initial)
        if capitals >= _SHORTEST_ACRONYM and stands_for_it:
            return long, short
    return "", ""


def _turn_inverted(text: str) -> str | None:
    """Return "Given Surname" for "Surname, Given", or None if the comma means something else."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        return None
    surname, given = parts
    behind = folded(given).replace(".", "")
    if behind in DEGREES or behind in LEGAL_FORMS or behind in _BEHIND_A_PERSON:
        return None
    return f"{given} {surname}"


def _without_title(core: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the title of a person and the words without titles in front and degrees behind.

    The title is "m" or "f", "" if it does not tell the sex, and None if there is none. Titles stay
    in the words if too little would be left: a single word in ASCII or of fewer than three letters.
    A title that stays and does not tell the sex is returned as None.
    """
    rest = list(core)
    sex = ""
    found = False
    while rest and rest[0] in TITLES:
        sex_of_title = TITLES[rest.pop(0)]
        sex = sex or sex_of_title
        found = True
    while rest and rest[-1] in DEGREES:
        rest.pop()
        found = True
    if rest and not rest[-1].isascii():
        # Japanese and Chinese write the title behind the name, without a space.
        joined_title = _first_suffix(rest[-1], JOINED_TITLES)
        bare = rest[-1].removesuffix(joined_title)
        if joined_title and (len(rest) > 1 or len(bare) >= 3):
            rest[-1] = bare
            found = bool(bare)
    is_long_enough = len(rest) >= 2 or bool(rest and not rest[0].isascii() and len(rest[0]) >= 3)
    if found and is_long_enough:
        return sex, rest
    return sex or None, core


def _without_legal_form(core: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the legal form of a company and the words without it.

    Several forms are joined by "+" in sorted order. The form is None if there is none, or if
    nothing would be left of the name.
    """
    if not core:
        return None, core
    rest = list(core)
    forms: list[str] = []
    # Chinese and Japanese write the form in front of the name or behind it, without a space.
    front = _first_prefix(rest[0], tuple(JOINED_LEGAL_FORMS))
    if front and rest != [front]:
        forms.append(JOINED_LEGAL_FORMS[front])
        rest[0] = rest[0].removeprefix(front)
        if not rest[0]:
            rest.pop(0)
    if len(rest) > 1 and rest[0] in LEGAL_FORMS_IN_FRONT:
        forms.append(LEGAL_FORMS[rest.pop(0)])
    while len(rest) > 1 and rest[-1] in LEGAL_FORMS:
        forms.append(LEGAL_FORMS[rest.pop()])
    if rest:
        end = _first_suffix(rest[-1], tuple(JOINED_LEGAL_FORMS))
        bare = rest[-1].removesuffix(end)
        if end and bare:
            rest[-1] = bare
            forms.append(JOINED_LEGAL_FORMS[end])
    if rest and forms and rest[-1] == "and":
        # The name ended with "& Co.".
        rest.pop()
        forms.append("and")
    if not rest:
        return None, core
    return ("+".join(sorted(forms)) if forms else None), rest


def _first_prefix(word: str, prefixes: Sequence[str]) -> str:
    """Return the first of the prefixes that the word begins with, or an empty text."""
    return next((prefix for prefix in prefixes if word.startswith(prefix)), "")


def _first_suffix(word: str, suffixes: Sequence[str]) -> str:
    """Return the first of the suffixes that the word ends with, or an empty text."""
    return next((suffix for suffix in suffixes if word.endswith(suffix)), "")
