"""extract_graph_fast: extract a graph from names, titles and key phrases, without a model."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
from pipeline.contract.schemas import CO_OCCURS, EXTRACTIONS, TITLES, UNIT_TEXTS
from pipeline.phrases.keyphrases import rake_scores
from pipeline.phrases.known_names import KnownNames, find_known_names, texts_may_differ, title_rows
from pipeline.phrases.links import LINK_KEYWORD, find_links
from pipeline.phrases.mentions import OwnTitle, Referent, Sentence, read_sentences, resolve_names
from pipeline.phrases.titles import Names
from pipeline.text.clip import clip
from pipeline.text.ids import match_key

NO_NAMES = Names("")
ALIAS_KEYWORD = "also known as"
MAX_KEYWORDS = 5
MAX_PHRASES_PER_SENTENCE = 12
UNITS_AT_ONCE = 1_000
"""The number of text units whose extractions are held as Python rows at the same time."""
LONG_ENUMERATION = 20
"""A sentence with more names is a mere list; its entries need have nothing else in common."""


class FastParams(Params):
    """Limits for entities from key phrases, and for relationships.

    A key phrase becomes an entity if the text unit uses it ``min_phrase_count`` times. In a row of
    a table, and in a sentence of a text without a title of its own, a name is linked with at most
    ``max_links_per_name`` of the names after it. If a sentence has more than 20 names, it counts as
    a list, and each name is linked with the next one only.
    """

    min_phrase_count: int = Field(default=2, ge=1)
    max_links_per_name: int = Field(default=3, ge=0)


class _Mention(NamedTuple):
    """A mention of an entity in a sentence, with its offsets there."""

    start: int
    end: int
    referent: Referent


@dataclass
class _Entity:
    """An entity, the number of the first sentence that mentions it, and of its mentions."""

    referent: Referent
    sentence: int
    mentions: int = 0


class _Shared(NamedTuple):
    """A sentence that two entities share, by its number.

    ``start`` is the offset at which the first name ends, ``end`` that at which the second starts.
    """

    sentence: int
    start: int
    end: int


class _Keyword(NamedTuple):
    """A key phrase in a sentence, with its offset there and its match key."""

    start: int
    text: str
    key: str


@dataclass
class _Link:
    """A relationship of two entities.

    ``shared`` are the sentences in which both occur. ``stated`` is what the text says about the
    two, and ``sentence`` the number of the first sentence that says something. It is None if no
    sentence does. ``is_link`` is true if the document of the source has a link to the target.
    """

    shared: list[_Shared] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    sentence: int | None = None
    is_link: bool = False


@verb(
    inputs={"text_units": UNIT_TEXTS, "documents": TITLES},
    outputs={"extractions": EXTRACTIONS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id"},
    lookup={"documents": texts_may_differ},
    libraries=("budoux", "regex", "rjieba", "stopwordsiso"),
)
def extract_graph_fast(
    text_units: pd.DataFrame,
    documents: pd.DataFrame,
    params: FastParams = FastParams(),
    tracker: Tracker = UNTRACKED,
) -> pd.DataFrame:
    """Return the extractions of each text unit: entities, and links between them.

    Entities are names, document titles and repeated key phrases. Those that share a sentence are
    linked. The description of an entity is the first sentence of the text unit that mentions it,
    its weight the number of mentions. The description of a relationship is the first sentence that
    both ends share, its weight the number of such sentences.

    The keywords of a relationship are what a sentence states about the two ("directed by"), then
    CO_OCCURS, then key phrases of the shared sentences. If something is stated, the source is its
    subject; otherwise the source is the end that comes first.

    The title of a document counts as present in each sentence of its text units. The titles of all
    documents are looked for in every text unit. A title counts if it was given, is a heading or is
    a file's name that looks like a name, and if no other document has it: a letterhead names
    nobody. So do the aliases of such a document, which are "also known as" its title. Files that
    differ in the version at the end of their names, as in "travel-v2.md", may share a title.

    A link to another document, as ``[[A]]``, ``[[A|B]]`` or a Markdown link, mentions the entity of
    that document, and the entity of its own document "links to" it. All records are ``grounded``,
    because they are read from the text.
    """
    known = find_known_names(title_rows(documents))
    texts = text_units[["id", "text", "document_id"]].fillna({"text": ""}).sort_values("id")
    tracker.expect(len(texts))
    found = [EXTRACTIONS.frame()]
    for start in range(0, len(texts), UNITS_AT_ONCE):
        rows: list[tuple[object, ...]] = []
        units = texts.iloc[start : start + UNITS_AT_ONCE]
        for unit_id, text, document in units.itertuples(index=False):
            sentences = read_sentences(text, known.gazetteer)
            title = OwnTitle(*known.named.get(document, NO_NAMES))
            records = _extract_records(sentences, title, known, params)
            rows.extend((unit_id, order, *record, True) for order, record in enumerate(records))
            tracker.finished(1)
        found.append(EXTRACTIONS.frame(rows))
    return pd.concat(found, ignore_index=True)


def _extract_records(
    sentences: list[Sentence], title: OwnTitle, known: KnownNames, params: FastParams
) -> Iterator[tuple[object, ...]]:
    """Yield the extractions of a text unit, entities first.

    The columns are those of EXTRACTIONS from ``kind`` to ``weight``.
    """
    names = [name for sentence in sentences for name in sentence.names]
    title.learn_type(names)
    referents = resolve_names(names, title, known.gazetteer)
    mentions = _find_mentions(sentences, referents, title, params.min_phrase_count)
    linked = _add_linked(mentions, sentences, known.targets)
    entities = _collect_entities(mentions, title)
    links = _collect_stated_links(sentences, referents, title)
    _state_links(links, linked, title)
    # In prose with a title, names are linked with the title and by statements only.
    windows = []
    for sentence in sentences:
        links_names = sentence.row or not title.referent
        windows.append(params.max_links_per_name if links_names else 0)
    _add_shared_sentences(links, mentions, title, windows)
    descriptions = [clip(sentence.text) for sentence in sentences] or [""]
    phrases = _rank_phrases(sentences)
    for entity in entities.values():
        description = descriptions[entity.sentence]
        weight = float(max(1, entity.mentions))
        yield "entity", entity.referent.name, entity.referent.type, "", "", description, [], weight
    for (source, target), link in links.items():
        names_of_ends = entities[source].referent.name, entities[target].referent.name
        description = descriptions[_describing_sentence(link, entities[source])]
        keywords = _choose_keywords(link, phrases, (source, target))
        weight = float(max(1, len(link.shared)))
        yield "relationship", "", "", *names_of_ends, description, keywords, weight


def _find_mentions(
    sentences: list[Sentence],
    referents: dict[str, Referent],
    title: OwnTitle,
    min_phrase_count: int,
) -> list[list[_Mention]]:
    """Return the mentions of each sentence, in the order of their offsets.

    Mentions are names, and key phrases that are names elsewhere or used often enough.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(phrase.text for phrase in sentence.phrases if phrase.noun)
    named = {referent.key: referent for referent in referents.values()} | title.by_key()
    concepts: dict[str, Referent] = {}
    for text, count in counts.items():
        key = match_key(text)
        if key in named:
            concepts[text] = named[key]
        elif count >= min_phrase_count:
            concepts[text] = Referent(key, text, "concept")
    mentions: list[list[_Mention]] = []
    for sentence in sentences:
        mentions_of_sentence: list[_Mention] = []
        for name in sentence.names:
            referent = referents.get(name.text)
            if referent:
                mentions_of_sentence.append(_Mention(name.start, name.end, referent))
        for phrase in sentence.phrases:
            concept = concepts.get(phrase.text)
            if concept:
                mentions_of_sentence.append(_Mention(phrase.start, phrase.end, concept))
        mentions.append(sorted(mentions_of_sentence))
    return mentions


def _collect_entities(mentions: list[list[_Mention]], title: OwnTitle) -> dict[str, _Entity]:
    """Return the entities by match key: title and aliases first, then in order of appearance."""
    entities: dict[str, _Entity] = {}
    for sentence, mentions_of_sentence in enumerate(mentions):
        for mention in mentions_of_sentence:
            key = mention.referent.key
            entity = entities.setdefault(key, _Entity(mention.referent, sentence))
            entity.mentions += 1
    if title.referent is None:
        return entities
    own = entities.get(title.referent.key, _Entity(title.referent, 0))
    aliases = {alias.key: _Entity(alias, own.sentence) for alias in title.aliases}
    # In a union of dictionaries, a key keeps its first position and takes its last value.
    return {title.referent.key: own} | aliases | entities


def _collect_stated_links(
    sentences: list[Sentence], referents: dict[str, Referent], title: OwnTitle
) -> dict[tuple[str, str], _Link]:
    """Return the links about which something is stated, by the match keys of source and target.

    The direction of a link is that of the first statement; statements in the other direction are
    left out.
    """
    links: dict[tuple[str, str], _Link] = {}
    for number, sentence in enumerate(sentences):
        aliases = [(one, other, ALIAS_KEYWORD) for one, other in sentence.aliases]
        for one, other, statement in [*aliases, *sentence.stated]:
            subject = referents.get(sentence.names[one].text)
            object = referents.get(sentence.names[other].text)
            if subject is None or object is None or subject.key == object.key:
                continue
            if (object.key, subject.key) in links:
                continue
            link = _get_link(links, subject.key, object.key)
            link.stated.append(statement)
            if link.sentence is None:
                link.sentence = number
    if title.referent:
        for alias in title.aliases:
            _get_link(links, title.referent.key, alias.key).stated.append(ALIAS_KEYWORD)
    return links


def _add_linked(
    mentions: list[list[_Mention]], sentences: list[Sentence], targets: dict[str, str]
) -> list[str]:
    """Return the match keys of entities to whose documents the text has links, each once.

    A link that its sentence shows by another name is added to ``mentions``.
    """
    known: dict[str, Referent] = {}
    for mentions_of_sentence in mentions:
        known |= {mention.referent.key: mention.referent for mention in mentions_of_sentence}
    linked: dict[str, None] = {}
    for mentions_of_sentence, sentence in zip(mentions, sentences, strict=True):
        for link in find_links(sentence.text):
            name = link.follow(targets)
            if name is None:
                continue
            key = match_key(name)
            linked.setdefault(key)
            if all(mention.referent.key != key for mention in mentions_of_sentence):
                referent = known.setdefault(key, Referent(key, name, "name"))
                mentions_of_sentence.append(_Mention(link.start, link.end, referent))
        mentions_of_sentence.sort()
    return list(linked)


def _state_links(links: dict[tuple[str, str], _Link], linked: list[str], title: OwnTitle) -> None:
    """Note in ``links`` that the document links to these entities, given by their match keys.

    A relationship that is stated in the other direction stays as it is.
    """
    if title.referent is None:
        return
    own_keys = title.by_key()
    for key in linked:
        if key not in own_keys and (key, title.referent.key) not in links:
            _get_link(links, title.referent.key, key).is_link = True


def _describing_sentence(link: _Link, source: _Entity) -> int:
    """Return the number of the sentence that describes the link."""
    if link.sentence is not None:
        return link.sentence
    return link.shared[0].sentence if link.shared else source.sentence


def _add_shared_sentences(
    links: dict[tuple[str, str], _Link],
    mentions: list[list[_Mention]],
    title: OwnTitle,
    windows: list[int],
) -> None:
    """Add to ``links`` the sentences that two entities share; new links are made where needed.

    The title is linked with all names in its text. A name is linked with the next ones in its
    sentence, as many as the window of the sentence allows, and with those that are linked already.
    Two entities have one link, whichever comes first in a sentence.
    """
    own_key = title.referent.key if title.referent else None
    for number, (mentions_of_sentence, widest) in enumerate(zip(mentions, windows, strict=True)):
        first_mentions: dict[str, _Mention] = {}
        for mention in mentions_of_sentence:
            first_mentions.setdefault(mention.referent.key, mention)
        first_mentions.pop(own_key or "", None)
        present = list(first_mentions.items())
        window = widest if len(present) <= LONG_ENUMERATION else min(1, widest)
        for position, (key, mention) in enumerate(present):
            if own_key is not None:
                link = _get_link(links, own_key, key)
                link.shared.append(_Shared(number, 0, mention.start))
            later_mentions = present[position + 1 :]
            for distance, (later_key, later) in enumerate(later_mentions):
                is_linked = (key, later_key) in links or (later_key, key) in links
                if distance < window or is_linked:
                    link = _get_link(links, key, later_key)
                    link.shared.append(_Shared(number, mention.end, later.start))


def _get_link(links: dict[tuple[str, str], _Link], key: str, other: str) -> _Link:
    """Return the link of the two in any direction; if there is none, add one from ``key``."""
    return links.get((other, key)) or links.setdefault((key, other), _Link())


def _rank_phrases(sentences: list[Sentence]) -> list[list[_Keyword]]:
    """Return the key phrases of each sentence with the best RAKE scores, the best first."""
    scores = rake_scores(phrase.text for sentence in sentences for phrase in sentence.phrases)
    ranked = []
    for sentence in sentences:
        phrases = sorted(sentence.phrases, key=lambda phrase: (-scores[phrase.text], phrase.start))
        best = phrases[:MAX_PHRASES_PER_SENTENCE]
        keywords = [_Keyword(phrase.start, phrase.text, match_key(phrase.text)) for phrase in best]
        ranked.append(keywords)
    return ranked


def _choose_keywords(
    link: _Link, phrases: list[list[_Keyword]], ends: tuple[str, str]
) -> list[str]:
    """Return the keywords of a link: statements, CO_OCCURS, key phrases of the shared sentences.

    The most frequent key phrases come first, then those between the names, then those with the
    better score.
    """
    counts: Counter[str] = Counter()
    between: Counter[str] = Counter()
    for sentence, start, end in link.shared:
        for phrase in phrases[sentence]:
            if phrase.key not in ends:
                counts[phrase.text] += 1
                if start <= phrase.start < end:
                    between[phrase.text] += 1
    stated = [statement for statement, _ in Counter(link.stated).most_common()]
    if link.is_link:
        stated.append(LINK_KEYWORD)
    # Sorting is stable: phrases of one rank keep the order of their scores.
    ranked = sorted(counts, key=lambda text: (-counts[text], -between[text]))
    keywords = dict.fromkeys([*stated, CO_OCCURS, *ranked])
    return list(keywords)[: MAX_KEYWORDS + 1]
