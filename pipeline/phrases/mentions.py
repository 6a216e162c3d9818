"""Read a text sentence by sentence: its names and key phrases, and the entities that names mean."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from pipeline.phrases.evidence import kind_of_qualifier
from pipeline.phrases.keyphrases import Phrase, candidate_phrases
from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.phrases.lines import cut_spans, read_layout
from pipeline.phrases.names import Name, is_chinese, short_forms
from pipeline.phrases.statements import statement
from pipeline.phrases.titles import Gazetteer, title_aliases, title_name
from pipeline.text.ids import match_key
from pipeline.text.sentences import find_sentences

_WORD = re.compile(r"[^\W\d_]+")
_LANGUAGE_SAMPLE = 1000
"""The number of words by which the language of a text is guessed."""
_BETWEEN_ALIASES = re.compile(r"[\"”»》」』]?\s?[(（]\s?[\"“«]?$")
_AFTER_ALIAS = re.compile(r"[\"”»]?\s?[)）,，;；]")
TITLE = "title"
"""The type of the entity of a document's title, if nothing tells more."""


class Sentence(NamedTuple):
    """A sentence of a text with what was found in it.

    Positions of names and phrases count characters of ``text``. ``aliases`` holds pairs of indexes
    into ``names`` that name one entity. ``stated`` holds the indexes of two neighbouring names and
    the relation that the sentence states. ``row`` is true for a row of a table.
    """

    text: str
    names: list[Name]
    phrases: list[Phrase]
    aliases: list[tuple[int, int]]
    stated: list[tuple[int, int, str]]
    row: bool


def read_sentences(text: str, gazetteer: Gazetteer) -> list[Sentence]:
    """Return the sentences of the text without white space around them; blank ones are left out.

    ``gazetteer`` finds the titles of documents.
    """
    from pipeline.phrases.caseless import is_caseless, read_caseless
    from pipeline.phrases.chinese import read_chinese

    # Its patterns take 0.1 s to compile, which commands that read no text need not spend.
    from pipeline.phrases.latin import find_names

    layout = read_layout(text)
    sentences: list[tuple[int, str]] = []
    chinese: dict[int, str] = {}
    caseless: dict[int, str] = {}
    for span_start, span_end in cut_spans(find_sentences(text), layout.cuts):
        start, end = _strip_span(text, span_start, span_end)
        if start == end:
            continue
        sentence = text[start:end]
        sentences.append((start, sentence))
        if is_chinese(sentence):
            chinese[start] = sentence
        elif is_caseless(sentence):
            caseless[start] = sentence
    # These two readers need all their sentences at once.
    names_and_phrases: dict[int, tuple[list[Name], list[Phrase]]] = {}
    for reader, by_start in ((read_chinese, chinese), (read_caseless, caseless)):
        readings = reader(list(by_start.values()), gazetteer)
        names_and_phrases.update(zip(by_start, readings, strict=True))
    language = _guess_language(text)
    result: list[Sentence] = []
    for start, sentence in sentences:
        # Of a row, commas stand between its cells: only `reading` divides its names.
        reading = layout.reading[start : start + len(sentence)]
        is_row = start in layout.cells
        if start in names_and_phrases:
            names, phrases = names_and_phrases[start]
        else:
            names = find_names(reading, gazetteer, language, is_row)
            phrases = candidate_phrases(reading, names, stop_words(language))
        # The rules for statements are for English.
        stated = _find_statements(reading, names) if language == "en" else []
        aliases = _find_aliases(sentence, names)
        result.append(Sentence(sentence, names, phrases, aliases, stated, is_row))
    return result


def _guess_language(text: str) -> str:
    """Return the language that the first words of a text tell."""
    first_words = islice(_WORD.finditer(text.lower()), _LANGUAGE_SAMPLE)
    return guess_language([word[0] for word in first_words])


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space around it; of blank text it is empty."""
    span = text[start:end]
    n_before = len(span) - len(span.lstrip())
    n_behind = len(span) - len(span.rstrip())
    stripped_start = start + n_before
    # In a blank span both count all of it, and the end would be before the start.
    stripped_end = max(stripped_start, end - n_behind)
    return stripped_start, stripped_end


def _find_statements(reading: str, names: list[Name]) -> list[tuple[int, int, str]]:
    """Return the indexes of neighbouring names and what the sentence states of them, if anything.

    Nothing is stated of names that overlap.
    """
    found: list[tuple[int, int, str]] = []
    for place, (name, other) in enumerate(pairwise(names)):
        if other.start <= name.end:
            continue
        relation = statement(reading, name.start, name.end, other.start, other.end)
        if relation:
            found.append((place, place + 1, relation))
    return found


def _find_aliases(sentence: str, names: list[Name]) -> list[tuple[int, int]]:
    """Return the indexes of neighbours written as "name (other name)" that are one entity.

    The two are in different scripts, or the second is an acronym of the first.
    """
    found: list[tuple[int, int]] = []
    for place, (name, other) in enumerate(pairwise(names)):
        gap = other.start - name.end
        # The pattern matches no more than five characters; the numbers are compared faster.
        if not 1 <= gap <= 5:
            continue
        between = sentence[name.end : other.start]
        if not _BETWEEN_ALIASES.match(between) or not _AFTER_ALIAS.match(sentence, other.end):
            continue
        of_two_scripts = is_chinese(name.text) != is_chinese(other.text)
        if of_two_scripts or _is_acronym(other.text, name.text):
            found.append((place, place + 1))
    return found


def _is_acronym(short: str, long: str) -> bool:
    """Return whether ``short`` has the initials of the capitalised words in ``long``."""
    if len(short) < 2:
        return False
    first_letters = [word[0] for word in _WORD.findall(long)]
    initials = "".join(letter for letter in first_letters if letter.isupper())
    return short.replace(".", "") == initials


class Referent(NamedTuple):
    """The entity that names of one text mean. ``key`` is the match key of ``name``."""

    key: str
    name: str
    type: str


class OwnTitle:
    """The title of the document that a text is from, as an entity with other names.

    ``aliases`` are names that the document gives besides those that the title tells. ``referent``
    is None if the title is blank.
    """

    def __init__(self, title: str, aliases: Sequence[str] = ()) -> None:
        name = title_name(title)
        self.referent: Referent | None = None
        self.aliases: list[Referent] = []
        if not name.strip():
            return
        key = match_key(name)
        self.referent = Referent(key, name, kind_of_qualifier(name) or TITLE)
        by_key: dict[str, Referent] = {}
        for alias in [*title_aliases(title), *aliases]:
            alias_key = match_key(alias)
            by_key.setdefault(alias_key, Referent(alias_key, alias, "name"))
        by_key.pop(key, None)
        self.aliases = list(by_key.values())

    def learn_type(self, names: list[Name]) -> None:
        """Take the type that names of the text have, if the title itself tells none."""
        if not self.referent or self.referent.type != TITLE:
            return
        own_names = {form.name for form in [self.referent, *self.aliases]}
        for name in names:
            if name.type != "name" and name.text in own_names:
                self.referent = self.referent._replace(type=name.type)
                return

    def by_key(self) -> dict[str, Referent]:
        """Map the match keys of the title and of its aliases to the title's referent."""
        if not self.referent:
            return {}
        keys = [alias.key for alias in self.aliases]
        return dict.fromkeys([*keys, self.referent.key], self.referent)


def resolve_names(names: list[Name], title: OwnTitle, gazetteer: Gazetteer) -> dict[str, Referent]:
    """Map the text of each name to the entity that it means in this text.

    A doubtful name that nothing confirms is left out. A lone word is short for the one longer name
    of the text that begins or ends with it, and for the document's title before all others. It is
    short for none if it is a title of the gazetteer itself. The document's title is also meant by
    a name with more or fewer words between the title's first and last: "Ann B. Moor" means "Ann
    Moor". A word that the text uses for a place is short for no person.
    """
    keys: dict[str, str] = {}
    for name in names:
        if name.text not in keys:
            keys[name.text] = match_key(name.text)
    known = _known_referents(names, keys, title)
    owners = _owners_of_short_forms(known)
    resolved: dict[str, Referent] = {}
    for text, key in keys.items():
        itself = known.get(key)
        # A title of another document is short for no longer name.
        is_title = key in gazetteer.keys
        longer = [] if is_title else owners.get(key, [])
        if itself and itself.type == "location":
            longer = [owner for owner in longer if owner.type == "location"]
        means_own_title = not is_title and _is_variant(text, title)
        if title.referent and (title.referent in longer or means_own_title):
            resolved[text] = title.referent
        elif len(longer) == 1:
            resolved[text] = longer[0]
        elif itself:
            resolved[text] = itself
    return resolved


def _known_referents(
    names: list[Name], keys: dict[str, str], title: OwnTitle
) -> dict[str, Referent]:
    """Map the match keys of names that are not doubtful to their referents.

    The first spelling of a key is the name; the first type other than "name" is the type. The
    document's title replaces names with its keys.
    """
    known: dict[str, Referent] = {}
    for name in names:
        if name.doubtful:
            continue
        key = keys[name.text]
        first = known.setdefault(key, Referent(key, name.text, name.type))
        if first.type == "name" and name.type != "name":
            known[key] = first._replace(type=name.type)
    return known | title.by_key()


def _owners_of_short_forms(known: dict[str, Referent]) -> dict[str, list[Referent]]:
    """Map the match key of each short form to the referents that it may be short for."""
    owners: dict[str, list[Referent]] = defaultdict(list)
    # Several keys may mean the document's title.
    distinct_referents = dict.fromkeys(known.values())
    for referent in distinct_referents:
        for short in short_forms(referent.name, referent.type):
            owners[match_key(short)].append(referent)
    return owners


def _is_variant(name: str, title: OwnTitle) -> bool:
    """Return whether the name has the first and last word of the title or of an alias."""
    ends = _ends_of_person(name)
    if ends is None:
        return False
    own_names = [form.name for form in [*title.aliases, title.referent] if form]
    return any(ends == _ends_of_person(own_name) for own_name in own_names)


def _ends_of_person(name: str) -> tuple[str, str] | None:
    """Return the first and last word of a name of two to four capitalised words, else None."""
    words = name.split()
    if not 2 <= len(words) <= 4:
        return None
    for word in words:
        if not word[0].isupper() or word.endswith(","):
            return None
    return words[0], words[-1]
