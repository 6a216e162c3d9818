"""A name of an entity, taken apart once for all comparisons.

Names in Cyrillic or Greek letters beside their Latin spellings: both become one skeleton, in which
letters that the usual romanisations (ISO 9, BGN/PCGN, scholarly, English habit) write differently
are alike.
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
    "з": "z", "и": "i",
    "і": "i", "ї": "i", "й": "i", "к": "k", "л": "l", "м": "m", "н": "n", "о": "o", "п": "p",
    "р": "r", "с": "s",
    "т": "t", "у": "u", "ф": "f", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "",
    "ы": "i",
    "ь": "", "э": "e", "ю": "iu", "я": "ia",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i",
    "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "τ": "t", "υ": "i",
    "φ": "f", "χ": "kh",
    "ψ": "ps", "ω": "o",
}  # fmt: skip
_LATIN = str.maketrans(_CYRILLIC | _GREEK)
_FOREIGN = re.compile(f"[{''.join(_CYRILLIC)}{''.join(_GREEK)}]")
_ALIKE = (
    (re.compile("shch|sch|sh"), "s"), (re.compile("tch|ch|cz"), "c"), (re.compile("zh"), "z"),
    (re.compile("kh|h"), "x"), (re.compile("ks"), "x"), (re.compile("ts|tz"), "t"),
    (re.compile("ph"), "f"),
    (re.compile("w"), "v"), (re.compile("ou"), "u"), (re.compile("[yj]"), "i"),
    (re.compile("ie|io"), "e"),
    (re.compile("i+"), "i"), (re.compile(r"i(?=[aeu])"), ""), (re.compile(r"(.)\1"), r"\1"),
)  # fmt: skip
_BRACKETED = re.compile(r"(.+?)\s*[(\[]([^()\[\]]+)[)\]]")
_RANKED = re.compile(rf"([^,]+), (?i:{'|'.join(RANKS)})(?: Palatine)? of ([^,]+)")
_DOTTED = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_SMALL_WORDS = frozenset("of the and for in on de la le du des der die das und et y e".split())
_SHORTEST_ACRONYM = 2


def is_foreign(text: str) -> bool:
    """Whether letters of a folded name are Cyrillic or Greek."""
    return bool(_FOREIGN.search(text))


def skeleton(text: str) -> str:
    """What a folded name is in any of its romanisations; about the same for a name in Latin
    letters."""
    latin = text.translate(_LATIN)
    for pattern, letter in _ALIKE:
        latin = pattern.sub(letter, latin)
    return latin


@dataclass(frozen=True)
class Name:
    """``tokens`` of the whole name, numbers as digits; ``core``: without article, title, degree and
    legal form, which ``article, title, legal`` keep; ``inverted``: the name was "Surname, Given".
    ``spellings``: the whole name without spaces, also with umlauts written out. ``long, short``: of
    a name "Long Name (LN)" the joined core of the first part, and the second in lower case."""

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
        return "".join((*self.core[:-1], singular(self.core[-1]))) if self.core else ""

    @cached_property
    def text(self) -> str:
        return " ".join(self.core)

    @cached_property
    def foreign(self) -> bool:
        return is_foreign(self.text)

    @cached_property
    def skeleton(self) -> str:
        return " ".join(map(skeleton, self.core))

    @cached_property
    def acronym(self) -> str:
        """The name itself where it is written in capitals only, in lower case; else empty."""
        plain = plain_width(self.name).replace(".", "").replace(" ", "")
        fits = plain.isalpha() and plain.isupper() and _SHORTEST_ACRONYM <= len(plain) <= 8
        return plain.lower() if fits else ""

    @cached_property
    def initials(self) -> str:
        """The first letters of its words but the small ones; empty for fewer than two."""
        first = [
            token[0] for token in self.core if token not in _SMALL_WORDS and token[0].isalpha()
        ]
        return "".join(first) if len(first) >= _SHORTEST_ACRONYM else ""

    @cached_property
    def is_person(self) -> bool:
        return is_person(self.type)

    @property
    def is_vague(self) -> bool:
        """Whether its type leaves open what it is."""
        return self.type in VAGUE_TYPES

    @cached_property
    def may_be_person(self) -> bool:
        parts = self.name.split()
        personal = len(parts) <= 3 and all(part.isalpha() and part[0].isupper() for part in parts)
        return self.is_person or (self.is_vague and personal)

    @cached_property
    def marks(self) -> str:
        """What a title may be told from another by."""
        return "".join(letter for letter in plain_width(self.name) if letter in "!?")

    @cached_property
    def unqualified(self) -> str:
        """Of "Name (qualifier)" the joined words of the name; else empty."""
        found = _BRACKETED.fullmatch(plain_width(self.name))
        return "".join(counted(words(folded(found[1])), words(found[1]))) if found else ""

    @cached_property
    def of_place(self) -> str:
        """Of "Name, Rank of Place" the joined words of "Name of Place"; else empty."""
        found = _RANKED.fullmatch(plain_width(self.name))
        whole = f"{found[1]} of {found[2]}" if found else ""
        return "".join(counted(words(folded(whole)), words(whole)))


def read_name(name: str, type: str) -> Name:
    """Take a name apart; the entity's ``type``, whose case says nothing, decides whether titles and
    commas are read as a person's."""
    text, type = plain_width(name), type.upper()
    if not is_person(type):
        text = _DOTTED.sub(lambda letters: letters[0].replace(".", ""), text)
    long, short = _bracketed(text)
    long = read_name(long, type).joined if long else ""
    cased = words(text)
    low = words(folded(text))
    tokens = counted(low, cased if len(cased) == len(low) else [])
    spellings = frozenset({"".join(tokens), "".join(counted(words(expanded(text)), cased))})
    parts = _turned(text) if is_person(type) else None
    inverted = parts is not None
    core: Sequence[str] = counted(words(folded(parts)), words(parts)) if parts else tokens
    article = len(core) > 1 and core[0] in ARTICLES
    core = core[1:] if article else core
    title, core = _without_title(core) if is_person(type) else (None, core)
    legal, core = (None, core) if is_person(type) else _without_legal_form(core)
    return Name(
        name,
        type,
        tokens,
        tuple(core),
        signature(tokens),
        spellings,
        article,
        title,
        legal,
        inverted,
        long,
        short.lower(),
    )


def _bracketed(text: str) -> tuple[str, str]:
    """Of "Long Name (LN)", where LN are the initials, both; empty texts else."""
    found = _BRACKETED.fullmatch(text)
    if not found:
        return "", ""
    outer, inner = found[1], found[2].replace(".", "")
    for long, short in ((outer, inner), (found[2], outer.replace(".", ""))):
        whole = Name(long, "", (), tuple(words(folded(long))), (), frozenset())
        every = "".join(token[0] for token in whole.core)
        if sum(map(str.isupper, short)) >= _SHORTEST_ACRONYM and short.lower() in (
            whole.initials,
            every,
        ):
            return long, short
    return "", ""


def _turned(text: str) -> str | None:
    """ "Given Surname" of "Surname, Given"; None where the comma means something else."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        return None
    behind = folded(parts[1]).replace(".", "")
    if (
        behind in DEGREES
        or behind in LEGAL_FORMS
        or behind in {"jr", "sr", "junior", "senior", "md", "ii", "iii", "iv"}
    ):
        return None
    return f"{parts[1]} {parts[0]}"


def _without_title(core: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Titles in front and degrees behind; what is left has two words or more, else nothing is
    taken. The title is m, f or empty, by what it says."""
    rest, sex, found = list(core), "", False
    while rest and rest[0] in TITLES:
        sex, found = sex or TITLES[rest.pop(0)], True
    while rest and rest[-1] in DEGREES:
        found = bool(rest.pop())
    if rest and rest[-1].endswith(JOINED_TITLES) and not rest[-1].isascii():
        bare = next(rest[-1].removesuffix(end) for end in JOINED_TITLES if rest[-1].endswith(end))
        if len(rest) > 1 or len(bare) >= 3:
            rest[-1], found = bare, bool(bare)
    enough = len(rest) >= 2 or (rest and not rest[0].isascii() and len(rest[0]) >= 3)
    return (sex, rest) if found and enough else (sex or None, core)


def _without_legal_form(core: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    if not core:
        return None, core
    rest, forms = list(core), []
    if front := next(
        (end for end in JOINED_LEGAL_FORMS if rest[0].startswith(end) and rest != [end]), None
    ):
        rest, forms = [rest[0].removeprefix(front), *rest[1:]], [front]
        rest = rest if rest[0] else rest[1:]
    if len(rest) > 1 and rest[0] in LEGAL_FORMS_IN_FRONT:
        forms.append(LEGAL_FORMS[rest.pop(0)])
    while len(rest) > 1 and rest[-1] in LEGAL_FORMS:
        forms.append(LEGAL_FORMS[rest.pop()])
    if rest and (end := next((end for end in JOINED_LEGAL_FORMS if rest[-1].endswith(end)), None)):
        bare = rest[-1].removesuffix(end)
        if bare:
            rest[-1], forms = bare, [*forms, end]
    if rest and forms and rest[-1] == "and":
        rest.pop()  # "& Co."
        forms.append("and")
    return ("+".join(sorted(forms)) if forms else None, rest) if rest else (None, core)
