"""Identity of texts and names: cleaning, match keys, deterministic ids (no uuid, no clock); words,
compared."""

import hashlib
import re
import unicodedata
from functools import lru_cache

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_QUOTES = "\"'`´‘’‚‛“”„‟«»‹›「」『』〝〞＂＇"
_DASHES = "-‐‑‒–—―−﹘﹣－~〜"
_STOPS = ".．。｡"
_RELATIONSHIP_ID = re.compile("rel-([0-9a-f]{32})-([0-9a-f]{32})")
_OPENING = "\"'`´‘‚‛“„«‹「『〝＂＇"
_CLOSED_BY = dict(
    zip("‘‚‛“„«‹「『〝", ("’", "‘’", "’", "”", "“”", "»", "›", "」", "』", "〞"), strict=True)
)
"""Those that end otherwise than they begin."""
_QUOTE_OF_A_PART = re.compile(
    rf"(?<![^\s(\[])([{_OPENING}])(?=\w)|(?<=[^\s(\[])([{_QUOTES}])(?!\w)"
)
_AS_SPACE = str.maketrans(dict.fromkeys(_QUOTES + _DASHES + _STOPS, " "))


def clean(text: str) -> str:
    """The text without control characters and lone surrogates (no store takes them), line ends as
    \\n."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def clean_name(name: str) -> str:
    """A name on one line: cleaned, white space collapsed, quotes around it taken off; those around
    a part of it stay, as in Fog bell 'Old Margit'."""
    collapsed = " ".join(clean(name).split())
    inner = collapsed.strip(_QUOTES + " ")
    if not inner:
        return collapsed
    before, _, after = collapsed.partition(inner)
    front, behind = _half_quotes(inner)
    if front and before.rstrip().endswith(tuple(front)):
        inner = f"{before.rstrip()[-1]}{inner}"
    if behind and after.lstrip().startswith(tuple(behind)):
        inner = f"{inner}{after.lstrip()[0]}"
    return inner


def _half_quotes(name: str) -> tuple[str, str]:
    """Quotes any of which may belong in front of the name, to the one that only ends within it, and
    behind, to the one that only begins there."""
    front, open_quotes = "", []
    for quote in _QUOTE_OF_A_PART.finditer(name):
        if quote[1]:
            open_quotes.append(_CLOSED_BY.get(quote[1], quote[1]))
        elif open_quotes and quote[2] in open_quotes[-1]:
            open_quotes.pop()
        elif not open_quotes:
            front = front or "".join(
                one for one in _OPENING if quote[2] in _CLOSED_BY.get(one, one)
            )
    return front, open_quotes[-1] if open_quotes else ""


def match_key(name: str) -> str:
    """What makes two names one entity: NFKC, casefold; quotes, dashes and full stops as a space.

    ``+ # & @ /`` and digits keep their meaning, so that C and C++ stay two.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    key = " ".join(folded.translate(_AS_SPACE).split())
    return key or " ".join(folded.split())


def digest(*parts: str) -> str:
    """32 hex digits over the parts; no two lists of parts share an encoding."""
    state = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(len(encoded).to_bytes(8, "big") + encoded)
    return state.hexdigest()[:32]


def document_id(key: str) -> str:
    """``key``: the value of the key column, else the relative POSIX path."""
    return f"doc-{digest(key)}"


def text_unit_id(document: str, text: str, ordinal: int) -> str:
    """``ordinal``: which of the document's text units with this very text (0, 1, ...)."""
    return f"chunk-{digest(document, text, str(ordinal))}"


def entity_id(name: str) -> str:
    return f"ent-{digest(match_key(name))}"


def claim_id(text_unit: str, *words: str) -> str:
    """``words``: all that is claimed."""
    return f"claim-{digest(text_unit, *words)}"


def relationship_id(source_entity_id: str, target_entity_id: str) -> str:
    """Directed: the two ends in their order, so that the id alone says where the relationship
    is."""
    return f"rel-{source_entity_id.removeprefix('ent-')}-{target_entity_id.removeprefix('ent-')}"


def relationship_ends(id: str) -> tuple[str, str]:
    """The entity ids of source and target. Raises ValueError on what is no relationship id."""
    digests = _RELATIONSHIP_ID.fullmatch(id)
    if not digests:
        raise ValueError(f"'{id}' is no relationship id: rel-, and 32 hex digits of each end")
    return f"ent-{digests[1]}", f"ent-{digests[2]}"


_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Han and kana: written without spaces between words."""
_WORD = re.compile(rf"[{_SYLLABIC}]+|[^\W_{_SYLLABIC}]+")
_SYLLABLE = re.compile(f"[{_SYLLABIC}]")
SHORTEST_STEM = 4


def words(text: str) -> list[str]:
    """Lower-case words without their commonest English endings; of Chinese and Japanese every two
    characters next to each other, which do nearly as well as words (Nie, Gao, Zhang and Zhou 2000,
    "On the use of words and n-grams for Chinese information retrieval")."""
    runs = _WORD.findall(text.lower())
    if text.isascii() or not _SYLLABLE.search(text):
        return list(map(stem, runs))
    return [word for run in runs for word in _parts(run)]


def is_syllabic(word: str) -> bool:
    return _SYLLABLE.match(word) is not None


@lru_cache(100_000)
def stem(word: str) -> str:
    """The word without a plural's or a participle's ending, where enough is left of it: the
    S-stemmer of Harman (1991, "How effective is suffixing?"), and -ed and -ing."""
    if word.endswith("ies") and len(word) > SHORTEST_STEM:
        return f"{word[:-3]}y"
    if word.endswith("ss"):
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _parts(run: str) -> list[str]:
    if not is_syllabic(run):
        return [stem(run)]
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]
