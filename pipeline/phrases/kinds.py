"""The type of an entity, told by the head word of its name."""

import re

from pipeline.phrases.lexicon import (
    CHINESE_HEADS,
    EVENT_HEADS,
    HEADS_IN_FRONT,
    LOCATION_HEADS,
    ORGANIZATION_HEADS,
)

_HEADS = {
    head: kind
    for kind, heads in (
        ("organization", ORGANIZATION_HEADS),
        ("location", LOCATION_HEADS),
        ("event", EVENT_HEADS),
    )
    for head in heads
}
_CHINESE_HEADS = sorted(
    ((head, kind) for kind, heads in CHINESE_HEADS.items() for head in heads.split()),
    key=lambda pair: (-len(pair[0]), pair[0]),
)
_KINDS_WITH_HEADS = frozenset(("organization", "location", "event"))
_SEPARATOR = re.compile(r"[ ·•‧]")
_HEAD_BEFORE = frozenset(("of", "for", "de", "von", "du", "del", "della", "di", "do", "da"))


def kind_of_words(words: list[str]) -> str:
    """organization, location, event, or "name" when the head word tells nothing.

    The head is the word before the first "of", or the last word; the first one in "Lake X" and the like.
    """
    folded = [word.lower().rstrip(".") for word in words if not word.isdigit()]
    if len(folded) < 2:
        return "name"
    stop = next((place for place, word in enumerate(folded) if word in _HEAD_BEFORE and place), len(folded))
    in_front = folded[0] if folded[0] in HEADS_IN_FRONT else ""
    return _HEADS.get(folded[stop - 1]) or _HEADS.get(in_front) or "name"


def short_forms(name: str, kind: str) -> list[str]:
    """The single words that a text may use for a name of several: of a person (or a name of unknown type) the
    first and the last one, of an organization, a place or an event its head ("the Guild")."""
    words = _SEPARATOR.split(name)
    stop = next((place for place, word in enumerate(words) if word in _HEAD_BEFORE and place), len(words))
    core = [word.rstrip(",;:") for word in words[:stop] if word]
    core = core[: next((place for place, word in enumerate(words[:stop], 1) if word.endswith(",")), None)]
    if len(words) < 2 or not core:
        return []
    if kind in _KINDS_WITH_HEADS:
        return [core[-1]] if core[-1].lower() in _HEADS else []
    return list(dict.fromkeys([core[0], core[-1]]))


def chinese_head(name: str) -> str | None:
    """The type that the last characters of a Chinese name tell, None when they tell nothing."""
    return next((kind for head, kind in _CHINESE_HEADS if name.endswith(head) and name != head), None)
