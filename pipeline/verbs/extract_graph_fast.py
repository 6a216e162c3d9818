"""extract_graph_fast: a knowledge graph with no model, from names, titles and key phrases."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
from pipeline.contract.schemas import CO_OCCURS, EXTRACTIONS, TEXT_UNITS, TITLES
from pipeline.phrases.keyphrases import rake_scores
from pipeline.phrases.mentions import OwnTitle, Referent, Sentence, read_sentences, resolve_names
from pipeline.phrases.titles import Gazetteer, TitleSearch, naming_titles, title_forms
from pipeline.text.ids import match_key

ALIAS_KEYWORD = "also known as"
MAX_DESCRIPTION = 300
MAX_KEYWORDS = 5
MAX_PHRASES_PER_SENTENCE = 12
UNITS_AT_ONCE = 1_000
"""Text units whose extractions are rows of Python together."""
LONG_ENUMERATION = 20
"""Names of a sentence above which it is a list, whose entries have no more in common than that they
are in it."""


class FastParams(Params):
    """``min_phrase_count``: how often a text unit must use a key phrase to make it an entity.
    ``max_links_per_name``: with how many of the names after it a name is linked, in a sentence of a
    text without a title of its own, or a row of a table; with the next one alone where there are
    more than 20, which makes it a list.
    """

    min_phrase_count: int = Field(default=2, ge=1)
    max_links_per_name: int = Field(default=3, ge=0)


class _Mention(NamedTuple):
    start: int
    end: int
    referent: Referent


@dataclass
class _Entity:
    referent: Referent
    sentence: int
    mentions: int = 0


class _Shared(NamedTuple):
    """A sentence that two entities share, by its place, and where in it one ends and the other
    starts."""

    sentence: int
    start: int
    end: int


class _Keyword(NamedTuple):
    start: int
    text: str
    key: str


@dataclass
class _Link:
    """``stated``: what the text says of the two, but that both stand in a sentence, and the place
    of the sentence that says so first; None for what no sentence says."""

    shared: list[_Shared] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    sentence: int | None = None


def _may_differ(text_units: pd.DataFrame, before: pd.DataFrame, now: pd.DataFrame) -> pd.Series:
    """Which text units may give other rows with the titles of now: those of a document whose title
    is another one, or none any more, and those that may hold a title that has come or gone."""
    differing = _titles(before).items() ^ _titles(now).items()
    search = TitleSearch(
        frozenset(chain.from_iterable(title_forms(title) for _, title in differing))
    )
    of_documents = text_units["document_id"].isin([document for document, _ in differing])
    return (
        of_documents | text_units["text"].map(search.may_find).astype(bool)
        if differing
        else of_documents
    )


def _titles(documents: pd.DataFrame) -> dict[str, str]:
    return naming_titles(_titled(documents))


def _titled(documents: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    return documents[["id", "title", "title_from"]].itertuples(index=False, name=None)


@lru_cache(
    maxsize=1
)  # text units come bucket by bucket, with the titles of all documents each time
def _title_names(documents: tuple[tuple[str, str, str], ...]) -> tuple[dict[str, str], Gazetteer]:
    """By document the title that names what it is about, and how to find these in a text."""
    titles = naming_titles(documents)
    return titles, Gazetteer.of_titles(titles.values())


@verb(
    inputs={"text_units": TEXT_UNITS, "documents": TITLES},
    outputs={"extractions": EXTRACTIONS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id"},
    lookup={"documents": _may_differ},
    libraries=("budoux", "regex", "rjieba", "stopwordsiso"),
)
def extract_graph_fast(
    text_units: pd.DataFrame,
    documents: pd.DataFrame,
    params: FastParams = FastParams(),
    tracker: Tracker = UNTRACKED,
) -> pd.DataFrame:
    """Names, document titles and repeated key phrases as entities; those that share a sentence,
    linked.

    An entity's description is the first sentence of the text unit that mentions it, its weight the
    number of mentions. A relationship's description is the first sentence both ends share, its
    weight the number of such sentences. Its keywords are what a sentence states of the two
    ("directed by"; the source is then the subject), and, after CO_OCCURS, the sentences' key
    phrases; where nothing is stated CO_OCCURS is the first, and the source is the end that comes
    first. The title of a text unit's document counts as present in each of its sentences. The
    titles of all documents are looked for in every text unit. Titles are those that were given or
    are headings, and that no two documents share: a letterhead is nobody's name. What is read from
    a text stands in it: all is ``grounded``.
    """
    titles, gazetteer = _title_names(
        tuple(_titled(TITLES.filled(TITLES.seen(documents), "documents")))
    )
    texts = text_units[["id", "text", "document_id"]].fillna({"text": ""}).sort_values("id")
    tracker.expect(len(texts))
    found = [EXTRACTIONS.frame()]
    for start in range(0, len(texts), UNITS_AT_ONCE):
        rows: list[tuple[object, ...]] = []
        for unit_id, text, document in texts.iloc[start : start + UNITS_AT_ONCE].itertuples(
            index=False
        ):
            sentences = read_sentences(text, gazetteer)
            records = _records(sentences, OwnTitle(titles.get(document, "")), gazetteer, params)
            rows.extend((unit_id, order, *record, True) for order, record in enumerate(records))
            tracker.finished(1)
        found.append(EXTRACTIONS.frame(rows))
    return pd.concat(found, ignore_index=True)


def _records(
    sentences: list[Sentence], title: OwnTitle, gazetteer: Gazetteer, params: FastParams
) -> Iterator[tuple[object, ...]]:
    """A text unit's extractions, entities first, without text_unit_id and order."""
    names = [name for sentence in sentences for name in sentence.names]
    title.learn_type(names)
    referents = resolve_names(names, title, gazetteer)
    mentions = _mentions(sentences, referents, title, params.min_phrase_count)
    entities = _entities(mentions, title)
    links = _stated_links(sentences, referents, title)
    windows = [
        params.max_links_per_name if sentence.row or not title.referent else 0
        for sentence in sentences
    ]
    _add_shared(links, mentions, title, windows)
    descriptions = [_clip(sentence.text) for sentence in sentences] or [""]
    phrases = _best_phrases(sentences)
    for entity in entities.values():
        description = descriptions[entity.sentence]
        weight = float(max(1, entity.mentions))
        yield "entity", entity.referent.name, entity.referent.type, "", "", description, [], weight
    for (source, target), link in links.items():
        names_of_ends = entities[source].referent.name, entities[target].referent.name
        description = descriptions[_told_in(link, entities[source])]
        keywords = _keywords(link, phrases, (source, target))
        weight = float(max(1, len(link.shared)))
        yield "relationship", "", "", *names_of_ends, description, keywords, weight


def _mentions(
    sentences: list[Sentence],
    referents: dict[str, Referent],
    title: OwnTitle,
    min_phrase_count: int,
) -> list[list[_Mention]]:
    """What each sentence mentions, in order of place: names, and key phrases used often enough."""
    counts = Counter(
        phrase.text for sentence in sentences for phrase in sentence.phrases if phrase.noun
    )
    named = {referent.key: referent for referent in referents.values()} | title.by_key()
    concepts = {}
    for text, count in counts.items():
        key = match_key(text)
        if key in named or count >= min_phrase_count:
            concepts[text] = named.get(key) or Referent(key, text, "concept")
    return [
        sorted(
            _Mention(part.start, part.end, found[part.text])
            for parts, found in ((sentence.names, referents), (sentence.phrases, concepts))
            for part in parts
            if part.text in found
        )
        for sentence in sentences
    ]


def _entities(mentions: list[list[_Mention]], title: OwnTitle) -> dict[str, _Entity]:
    """By match key: the title first, the rest as the text unit comes to them."""
    entities: dict[str, _Entity] = {}
    for place, found in enumerate(mentions):
        for mention in found:
            entity = entities.setdefault(mention.referent.key, _Entity(mention.referent, place))
            entity.mentions += 1
    if title.referent is None:
        return entities
    own = entities.get(title.referent.key, _Entity(title.referent, 0))
    aliases = {alias.key: _Entity(alias, own.sentence) for alias in title.aliases}
    return {title.referent.key: own} | aliases | entities


def _stated_links(
    sentences: list[Sentence], referents: dict[str, Referent], title: OwnTitle
) -> dict[tuple[str, str], _Link]:
    """By the match keys of (source, target), in the direction of what is stated first."""
    links: dict[tuple[str, str], _Link] = {}
    for place, sentence in enumerate(sentences):
        aliases = [(one, other, ALIAS_KEYWORD) for one, other in sentence.aliases]
        for one, other, said in [*aliases, *sentence.stated]:
            subject, what = (referents.get(sentence.names[end].text) for end in (one, other))
            if (
                subject
                and what
                and subject.key != what.key
                and (what.key, subject.key) not in links
            ):
                link = _link(links, subject.key, what.key)
                link.stated.append(said)
                link.sentence = place if link.sentence is None else link.sentence
    for alias in title.aliases:
        if title.referent:
            _link(links, title.referent.key, alias.key).stated.append(ALIAS_KEYWORD)
    return links


def _told_in(link: _Link, source: _Entity) -> int:
    """The place of the sentence that describes the link."""
    if link.sentence is not None:
        return link.sentence
    return link.shared[0].sentence if link.shared else source.sentence


def _add_shared(
    links: dict[tuple[str, str], _Link],
    mentions: list[list[_Mention]],
    title: OwnTitle,
    windows: list[int],
) -> None:
    """The sentences that two entities share: one link for the two, whichever comes first elsewhere.
    A title is linked with all that its text names, a name with as many of those after it as the
    sentence's window lets it, and with those that something is stated of."""
    own = title.referent.key if title.referent else None
    for place, (found, widest) in enumerate(zip(mentions, windows, strict=True)):
        first: dict[str, _Mention] = {}
        for mention in found:
            first.setdefault(mention.referent.key, mention)
        first.pop(own or "", None)
        present = list(first.items())
        window = widest if len(present) <= LONG_ENUMERATION else min(1, widest)
        for rank, (key, mention) in enumerate(present):
            if own is not None:
                _link(links, own, key).shared.append(_Shared(place, 0, mention.start))
            for after, (other_key, other) in enumerate(present[rank + 1 :]):
                if after < window or (key, other_key) in links or (other_key, key) in links:
                    _link(links, key, other_key).shared.append(
                        _Shared(place, mention.end, other.start)
                    )


def _link(links: dict[tuple[str, str], _Link], key: str, other: str) -> _Link:
    """The link of the two, made from ``key`` to ``other`` where there is none."""
    return links.get((other, key)) or links.setdefault((key, other), _Link())


def _best_phrases(sentences: list[Sentence]) -> list[list[_Keyword]]:
    """Each sentence's key phrases with the best RAKE scores, the best first."""
    scores = rake_scores(phrase.text for sentence in sentences for phrase in sentence.phrases)
    best = (
        sorted(sentence.phrases, key=lambda phrase: (-scores[phrase.text], phrase.start))[
            :MAX_PHRASES_PER_SENTENCE
        ]
        for sentence in sentences
    )
    return [
        [_Keyword(phrase.start, phrase.text, match_key(phrase.text)) for phrase in phrases]
        for phrases in best
    ]


def _keywords(link: _Link, phrases: list[list[_Keyword]], ends: tuple[str, str]) -> list[str]:
    """What is stated, then CO_OCCURS and the shared sentences' key phrases: the most frequent
    first, then those that stand between the names, then those with the better score."""
    counts: Counter[str] = Counter()
    between: Counter[str] = Counter()
    for sentence, start, end in link.shared:
        for phrase in phrases[sentence]:
            if phrase.key not in ends:
                counts[phrase.text] += 1
                between[phrase.text] += start <= phrase.start < end
    stated = [said for said, _ in Counter(link.stated).most_common()]
    ranked = sorted(counts, key=lambda text: (-counts[text], -between[text]))
    return list(dict.fromkeys([*stated, CO_OCCURS, *ranked]))[: MAX_KEYWORDS + 1]


def _clip(sentence: str) -> str:
    """On one line, cut at the end of a word."""
    text = " ".join(sentence[: 2 * MAX_DESCRIPTION].split())
    if len(text) <= MAX_DESCRIPTION:
        return text
    cut = text.rfind(" ", MAX_DESCRIPTION // 2, MAX_DESCRIPTION)
    return text[: cut if cut > 0 else MAX_DESCRIPTION - 1].rstrip(" ,;:") + "…"
