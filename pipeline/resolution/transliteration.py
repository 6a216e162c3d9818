"""Names in Cyrillic or Greek letters beside their Latin spellings: both become one skeleton, in which letters that the
usual romanisations (ISO 9, BGN/PCGN, scholarly, English habit) write differently are alike."""

import re

_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "ґ": "g", "д": "d", "е": "e", "є": "e", "ж": "zh", "з": "z", "и": "i",
    "і": "i", "ї": "i", "й": "i", "к": "k", "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s",
    "т": "t", "у": "u", "ф": "f", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "i",
    "ь": "", "э": "e", "ю": "iu", "я": "ia",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "τ": "t", "υ": "i", "φ": "f", "χ": "kh",
    "ψ": "ps", "ω": "o",
}  # fmt: skip
_LATIN = str.maketrans(_CYRILLIC | _GREEK)
_FOREIGN = re.compile(f"[{''.join(_CYRILLIC)}{''.join(_GREEK)}]")
_ALIKE = (
    (re.compile("shch|sch|sh"), "s"), (re.compile("tch|ch|cz"), "c"), (re.compile("zh"), "z"),
    (re.compile("kh|h"), "x"), (re.compile("ks"), "x"), (re.compile("ts|tz"), "t"), (re.compile("ph"), "f"),
    (re.compile("w"), "v"), (re.compile("ou"), "u"), (re.compile("[yj]"), "i"), (re.compile("ie|io"), "e"),
    (re.compile("i+"), "i"), (re.compile(r"i(?=[aeu])"), ""), (re.compile(r"(.)\1"), r"\1"),
)  # fmt: skip


def is_foreign(text: str) -> bool:
    """Whether letters of a folded name are Cyrillic or Greek."""
    return bool(_FOREIGN.search(text))


def skeleton(text: str) -> str:
    """What a folded name is in any of its romanisations; about the same for a name in Latin letters."""
    latin = text.translate(_LATIN)
    for pattern, letter in _ALIKE:
        latin = pattern.sub(letter, latin)
    return latin
