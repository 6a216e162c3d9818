"""Identity of texts and names: cleaning, match keys, deterministic ids, and words for comparison.

An id depends on its content alone; there is no uuid and no clock.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_QUOTES = "\"'`´‘’‚‛“”„‟«»‹›「」『』〝〞＂＇"
_DASHES = "-‐‑‒–—―−﹘﹣－~〜"
_STOPS = ".．。｡"
NOTHING = frozenset(
    {"", "-", "none", "null", "n/a", "na", "nil", "unknown", "not stated", "not specified"}
)
"""Words, in lower case, that stand for a value that is not given."""
_RELATIONSHIP_ID = re.compile("rel-([0-9a-f]{32})-([0-9a-f]{32})")
_OPENING = "\"'`´‘‚‛“„«‹「『〝＂＇"
_CLOSED_BY = dict(
    zip("‘‚‛“„«‹「『〝", ("’", "‘’", "’", "”", "“”", "»", "›", "」", "』", "〞"), strict=True)
)
"""Closing quotes of the opening quotes that end in another character. One opening quote may have
several closing ones."""
_QUOTE_OF_A_PART = re.compile(
    rf"(?<![^\s(\[])([{_OPENING}])(?=\w)|(?<=[^\s(\[])([{_QUOTES}])(?!\w)"
)
"""A quote within a name: group 1 opens before a word, group 2 closes after one."""
_AS_SPACE = str.maketrans(dict.fromkeys(_QUOTES + _DASHES + _STOPS, " "))


def clean(text: str) -> str:
    """Return the text without control characters and lone surrogates; lines end in line feeds.

    No store accepts those characters.
    """
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def clean_name(name: str) -> str:
    """Return the name on one line: cleaned, with white space collapsed and without quotes around
    it.

    Quotes around a word of the name stay, as in Fog bell 'Old Margit'.
    """
    collapsed = " ".join(clean(name).split())
    inner = collapsed.strip(_QUOTES + " ")
    if not inner:
        return collapsed
    # Stripping may have removed the partner of a quote within the name: put it back.
    before, _, after = collapsed.partition(inner)
    missing_opening, missing_closing = _quotes_without_partner(inner)
    if missing_opening and before.rstrip().endswith(tuple(missing_opening)):
        inner = f"{before.rstrip()[-1]}{inner}"
    if missing_closing and after.lstrip().startswith(tuple(missing_closing)):
        inner = f"{inner}{after.lstrip()[0]}"
    return inner


def _quotes_without_partner(name: str) -> tuple[str, str]:
    """Return the quotes that may be missing before and after the name.

    The first text has every opening quote that fits a quote which only closes within the name. The
    second has every closing quote that fits one which only opens there.
    """
    missing_opening = ""
    closing_quotes: list[str] = []
    for quote in _QUOTE_OF_A_PART.finditer(name):
        opening, closing = quote[1], quote[2]
        if opening:
            closing_quotes.append(_CLOSED_BY.get(opening, opening))
        elif closing_quotes and closing in closing_quotes[-1]:
            closing_quotes.pop()
        elif not closing_quotes and not missing_opening:
            fitting = [one for one in _OPENING if closing in _CLOSED_BY.get(one, one)]
            missing_opening = "".join(fitting)
    return missing_opening, closing_quotes[-1] if closing_quotes else ""


def match_key(name: str) -> str:
    """Return the key that is equal for all spellings of one entity's name.

    The name is normalized (NFKC) and case-folded. Quotes, dashes and full stops become spaces. ``+
    # & @ /`` and digits keep their meaning, so that C and C++ stay two entities.
    """
    normalized = unicodedata.normalize("NFKC", name)
    # Case folding may undo the normalization, so it is applied twice.
    folded = unicodedata.normalize("NFKC", normalized.casefold())
    key = " ".join(folded.translate(_AS_SPACE).split())
    # A name of punctuation alone is its own key.
    return key or " ".join(folded.split())


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits of a hash of the parts.

    Each part is preceded by its length, so different lists of parts have different encodings.
    """
    state = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(len(encoded).to_bytes(8, "big") + encoded)
    return state.hexdigest()[:32]


def document_id(key: str) -> str:
    """Return the id of a document.

    ``key`` is the value of the key column, or else the relative POSIX path of the file.
    """
    return f"doc-{digest(key)}"


def text_unit_id(document: str, text: str, ordinal: int) -> str:
    """Return the id of a text unit.

    ``ordinal`` (0, 1, ...) distinguishes text units of a document with the same text.
    """
    return f"chunk-{digest(document, text, str(ordinal))}"


def entity_id(name: str) -> str:
    """Return the id of the entity with this name. All spellings with the same match key have one
    id."""
    return f"ent-{digest(match_key(name))}"


def community_id(level: int, members: Iterable[str]) -> str:
    """Return the id of a community. ``members`` are the ids of its entities."""
    return f"com-{digest(str(level), *sorted(members))}"


def claim_id(text_unit: str, *words: str) -> str:
    """Return the id of a claim. ``words`` are all of its fields."""
    return f"claim-{digest(text_unit, *words)}"


def statement_id(
    relationship: str, text_unit: str, type: str, description: str, ordinal: int
) -> str:
    """Return the id of a statement.

    ``ordinal`` (0, 1, ...) distinguishes statements that are equal in everything else.
    """
    return f"fact-{digest(relationship, text_unit, type, description, str(ordinal))}"


def attribute_id(entity: str, name: str, value: str, text_unit: str) -> str:
    """Return the id of a value that a text unit gives for a property of an entity."""
    return f"attr-{digest(entity, name, value, text_unit)}"


def relationship_id(source_entity_id: str, target_entity_id: str) -> str:
    """Return the id of a directed relationship, which contains the ids of both ends in order."""
    return f"rel-{source_entity_id.removeprefix('ent-')}-{target_entity_id.removeprefix('ent-')}"


def relationship_ends(id: str) -> tuple[str, str]:
    """Return the entity ids of source and target of a relationship.

    Raises ValueError if ``id`` is no relationship id.
    """
    digests = _RELATIONSHIP_ID.fullmatch(id)
    if not digests:
        raise ValueError(f"'{id}' is no relationship id: rel-, and 32 hex digits of each end")
    return f"ent-{digests[1]}", f"ent-{digests[2]}"


_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Han and kana, which are written without spaces between words."""
_WORD = re.compile(rf"[{_SYLLABIC}]+|[^\W_{_SYLLABIC}]+")
_SYLLABLE = re.compile(f"[{_SYLLABIC}]")
SHORTEST_STEM = 4
"""Length in characters of the shortest word that may be left when an ending is removed."""


def words(text: str) -> list[str]:
    """Return the words of the text in lower case, without the most common English endings.

    Chinese and Japanese text gives all pairs of adjacent characters instead, which work nearly as
    well as words (Nie, Gao, Zhang and Zhou 2000, "On the use of words and n-grams for Chinese
    information retrieval").
    """
    runs = _WORD.findall(text.lower())
    if text.isascii() or not _SYLLABLE.search(text):
        return list(map(stem, runs))
    found: list[str] = []
    for run in runs:
        if is_syllabic(run):
            pairs = [run[start : start + 2] for start in range(len(run) - 1)]
            found += pairs or [run]
        else:
            found.append(stem(run))
    return found


def is_syllabic(word: str) -> bool:
    """Return whether the word is written in Han or kana."""
    return _SYLLABLE.match(word) is not None


@lru_cache(100_000)
def stem(word: str) -> str:
    """Return the word without the ending of a plural or a participle, if enough of it is left.

    This is the S-stemmer of Harman (1991, "How effective is suffixing?"), extended by -ed and -ing.
    """
    if word.endswith("ies") and len(word) > SHORTEST_STEM:
        return f"{word[:-3]}y"
    if word.endswith("ss"):
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    if word.endswith("s") and len(word) > 3:
        return word[:-1]
    return word
