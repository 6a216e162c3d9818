"""extract_graph_fast: a knowledge graph with no model, from names, titles and key phrases."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
from pydantic import Field

from pipeline.phrases.gazetteer import Gazetteer, title_aliases, title_name
from pipeline.phrases.keyphrases import rake_scores
from pipeline.phrases.kinds import short_forms
from pipeline.phrases.name import Name
from pipeline.phrases.reading import Sentence, read_sentences
from pipeline.registry import Params, verb
from pipeline.schemas import DOCUMENTS, EXTRACTIONS, TEXT_UNITS
from pipeline.text import match_key

ALIAS_KEYWORD = "also known as"
MAX_DESCRIPTION = 300
MAX_KEYWORDS = 5
MAX_PHRASES_PER_SENTENCE = 12


class FastParams(Params):
    """``min_phrase_count``: how often a text unit must use a key phrase to make it an entity.
    ``max_links_per_name``: with how many of the names after it in a sentence a name is linked."""

    min_phrase_count: int = Field(2, ge=1)
    max_links_per_name: int = Field(12, ge=0)


@verb(
    inputs={"text_units": TEXT_UNITS, "documents": DOCUMENTS},
    outputs={"extractions": EXTRACTIONS},
    rowwise="text_units",
    libraries=("rjieba", "stopwordsiso"),
)
def extract_graph_fast(
    text_units: pd.DataFrame, documents: pd.DataFrame, params: FastParams = FastParams()
) -> pd.DataFrame:
    """Names, document titles and repeated key phrases as entities; those that share a sentence, linked.

    An entity's description is the first sentence of the text unit that mentions it, its weight the number
    of mentions. A relationship's description is the first sentence both ends share, its keywords the
    sentences' key phrases, its weight the number of sentences; its source is the end that comes first.
    The title of a text unit's document counts as present in each of its sentences. Titles of all
    documents are looked for in every text unit.
    """
    titles = dict(zip(documents["id"], documents["title"].fillna(""), strict=True))
    gazetteer = Gazetteer.of_titles(title for title in titles.values() if title.strip())
    rows: list[tuple[object, ...]] = []
    for unit_id, text, document in text_units[["id", "text", "document_id"]].itertuples(index=False):
        sentences = read_sentences(text, gazetteer)
        title = _OwnTitle(titles.get(document, ""))
        rows.extend((unit_id, order, *row) for order, row in enumerate(_records(sentences, title, gazetteer, params)))
    return EXTRACTIONS.frame(rows)


class _OwnTitle:
    """The title of a text unit's document: as an entity's name, its match key, and what else it goes by."""

    def __init__(self, title: str) -> None:
        self.name = title_name(title)
        self.key = match_key(self.name)
        self.aliases = {match_key(alias): alias for alias in title_aliases(title)}
        self.aliases.pop(self.key, None)


@dataclass
class _Entity:
    name: str
    type: str
    description: str
    mentions: int = 0


class _Mention(NamedTuple):
    start: int
    end: int
    key: str
    name: str
    type: str


@dataclass
class _Link:
    """``shared``: each sentence's place in the text unit, and the offsets between which the two names have it."""

    shared: list[tuple[int, int, int]] = field(default_factory=list)
    alias: bool = False


def _records(
    sentences: list[Sentence], title: _OwnTitle, gazetteer: Gazetteer, params: FastParams
) -> Iterator[tuple[object, ...]]:
    """A text unit's extractions, entities first, without text_unit_id and order."""
    mentions = _mentions(sentences, title, gazetteer, params)
    entities = _entities(sentences, mentions, title)
    links = _links(sentences, mentions, title, params)
    phrases = _best_phrases(sentences)
    for entity in entities.values():
        yield "entity", entity.name, entity.type, "", "", entity.description, [], float(max(1, entity.mentions))
    for (source, target), link in links.items():
        ends = entities[source], entities[target]
        description = _description(sentences[link.shared[0][0]].text) if link.shared else ends[0].description
        keywords = _keywords(link, phrases, {source, target})
        weight = float(max(1, len(link.shared)))
        yield "relationship", "", "", ends[0].name, ends[1].name, description, keywords, weight


def _mentions(
    sentences: list[Sentence], title: _OwnTitle, gazetteer: Gazetteer, params: FastParams
) -> list[list[_Mention]]:
    """For each sentence what it mentions, in order of place: names, and key phrases used often enough."""
    referents = _referents(sentences, title, gazetteer)
    counts = Counter(_key(phrase.text) for sentence in sentences for phrase in sentence.phrases if phrase.noun)
    names = {name.key for name in referents.values()}
    found = []
    for sentence in sentences:
        named = [
            referents[_key(name.text)]._replace(start=name.start, end=name.end)
            for name in sentence.names
            if _key(name.text) in referents
        ]
        concepts = [
            referents.get(key) or _Mention(0, 0, key, phrase.text, "concept")
            for phrase in sentence.phrases
        ]
        found.append(sorted([*named, *concepts]))
    return found
