"""Which entity each name in a text refers to."""

from collections import defaultdict
from typing import NamedTuple

from pipeline.phrases.gazetteer import Gazetteer, title_aliases, title_name
from pipeline.phrases.kinds import short_forms
from pipeline.phrases.name import Name
from pipeline.text import match_key

TITLE = "title"


class Referent(NamedTuple):
    """An entity as one text knows it; ``key`` is its match key."""

    key: str
    name: str
    type: str


class OwnTitle:
    """The title of the document that a text is from: its entity, and the other names it goes by."""

    def __init__(self, title: str) -> None:
        name = title_name(title)
        self.referent = Referent(match_key(name), name, TITLE) if name.strip() else None
        aliases = [Referent(match_key(alias), alias, "name") for alias in title_aliases(title)]
        self.aliases = [alias for alias in aliases if self.referent and alias.key != self.referent.key]

    def by_key(self) -> dict[str, Referent]:
        """The title's referent by its match key and those of its aliases."""
        return {known.key: self.referent for known in [*self.aliases, self.referent] if known and self.referent}


def resolve_names(names: list[Name], title: OwnTitle, gazetteer: Gazetteer) -> dict[str, Referent]:
    """The referent of each name by the text of the name; a doubtful one that nothing confirms has none.

    A lone word is short for the one longer name of the text that begins or ends with it, before all for the
    document's title, unless it is a title of the gazetteer. A name that has more or fewer words between the
    title's first and last ("Ann B. Moor" where the title is "Ann Moor") is the title's.
    """
    keys = {text: match_key(text) for text in dict.fromkeys(name.text for name in names)}
    known = _known(names, keys, title)
    owners = _owners_of_short_forms(known)
    resolved = {}
    for text, key in keys.items():
        possible = owners.get(key, []) if key not in gazetteer.keys else []
        if title.referent in possible or (key not in gazetteer.keys and _is_variant(text, title)):
            resolved[text] = title.referent
        elif len(possible) == 1:
            resolved[text] = possible[0]
        elif key in known:
            resolved[text] = known[key]
    return resolved


def _known(names: list[Name], keys: dict[str, str], title: OwnTitle) -> dict[str, Referent]:
    """Match keys of names that are beyond doubt; the first spelling is the name, the first type that says
    more than "name" the type."""
    known: dict[str, Referent] = {}
    for name in names:
        key = keys[name.text]
        if name.doubtful:
            continue
        first = known.setdefault(key, Referent(key, name.text, name.type))
        if first.type == "name" != name.type:
            known[key] = first._replace(type=name.type)
    return known | title.by_key()


def _owners_of_short_forms(known: dict[str, Referent]) -> dict[str, list[Referent]]:
    owners: dict[str, list[Referent]] = defaultdict(list)
    for referent in dict.fromkeys(known.values()):
        for short in short_forms(referent.name, referent.type):
            owners[match_key(short)].append(referent)
    return owners


def _is_variant(name: str, title: OwnTitle) -> bool:
    ends = _ends_of_person(name)
    forms = [form.name for form in [*title.aliases, title.referent] if form]
    return ends is not None and any(ends == _ends_of_person(form) for form in forms)


def _ends_of_person(name: str) -> tuple[str, str] | None:
    """First and last word of a name of two to four capitalised words."""
    words = name.split()
    personal = len(words) in range(2, 5) and all(word[0].isupper() and word[-1] != "," for word in words)
    return (words[0], words[-1]) if personal else None
