"""The lexical index over a workspace's text units: PostgreSQL's full text search (GIN) finds them,
and BM25 ranks them.

BM25 is Okapi BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework", section
3.4), computed here over the texts that were found.

PostgreSQL's own ranks do not consider how rare a word is. So a search has three stages. The index
gives the text units that have each word. An estimate of BM25 selects the candidates. BM25 sorts
them. A word that very many text units have is too expensive to look up, and says little: it counts
in the last stage only. Each load estimates the frequencies of frequent words from a sample. The
sample is the first text units by id: ids are digests, so this is as good as a random sample.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, LiteralString

import numpy as np
from psycopg import sql
from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Connection,
    Select,
    Text,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, TSQUERY

from pipeline.stores.postgres import schema
from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.lexical_dates import date_query
from pipeline.stores.postgres.lexical_endings import (
    ENDINGS_COLUMN,
    ENDINGS_VERSION,
    IS_GERMAN,
    build_endings_index,
    look_up_ending,
)
from pipeline.stores.postgres.maintenance import build_or_settle
from pipeline.stores.postgres.schema import CHUNKS, LIVE, name_partition
from pipeline.stores.reads import Lexical
from pipeline.text.compounds import find_heads, join_nouns
from pipeline.text.ids import SHORTEST_STEM, is_syllabic, stem, words
from pipeline.text.written_dates import find_dates

K1, B = 0.9, 0.4
"""Saturation and the weight of length, as in Anserini's runs on passages."""


@dataclass(frozen=True)
class TextStatistics:
    """The statistics of a corpus that BM25 needs.

    ``texts``: the number of texts. ``length``: the average number of words in a text. ``shares``:
    for frequent words, the share of texts that have the word. ``has_endings``: whether the index of
    the endings of German words is there; earlier versions of the software built none or another.
    """

    texts: int
    length: float
    shares: Mapping[str, float]
    has_endings: bool = False


def word_weight(texts: int, frequency: float) -> float:
    """Return the inverse document frequency of a word that ``frequency`` of the texts have."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


def bm25_scores(
    texts: Sequence[str],
    weights: Mapping[str, float],
    length: float,
    patterns: Mapping[str, float] = MappingProxyType({}),
) -> np.ndarray:
    """Return the BM25 score of each text for words with these weights.

    ``length``: the average number of words in a text of the corpus. ``patterns``: the weights of
    regular expressions, which count as words too.
    """
    scores = np.zeros(len(texts))
    compiled = {pattern: re.compile(pattern, re.IGNORECASE) for pattern in patterns}
    weights = {**weights, **patterns}
    for place, content in enumerate(texts):
        found = words(content)
        counts = Counter(word for word in found if word in weights)
        for pattern, expression in compiled.items():
            counts[pattern] = sum(1 for _ in expression.finditer(content))
        weighed_length = B * len(found) / max(length, 1.0)
        base = K1 * (1 - B + weighed_length)
        score = 0.0
        for word, count in counts.items():
            score += weights[word] * count * (K1 + 1) / (count + base)
        scores[place] = score
    return scores


def text_statistics(sample: Iterable[str], texts: int, least_share: float) -> TextStatistics:
    """Return the statistics of a corpus of ``texts`` texts, estimated from a sample.

    Words that less than ``least_share`` of the sample have are left out.
    """
    frequencies: Counter[str] = Counter()
    lengths: list[int] = []
    for content in sample:
        found = words(content)
        lengths.append(len(found))
        frequencies.update(set(found))
    frequent: dict[str, float] = {}
    for word, count in sorted(frequencies.items()):
        share = count / len(lengths)
        if share >= least_share:
            frequent[word] = share
    average_length = sum(lengths) / max(len(lengths), 1)
    return TextStatistics(texts, average_length, frequent)


SAMPLE, LEAST_SHARE = 1000, 0.01
FOLLOWED = 3000
"""The largest number of text units that may have a word for it to be looked up in the index."""
LIKELY, CANDIDATES = 500, 100
"""The least numbers of text units in which words are counted, and for which BM25 is computed."""
LONGEST_WORD = 2000
"""Bytes of the longest word that is searched for. PostgreSQL refuses a question with a longer word,
and has none in its index."""

SEARCHED_TEXT: LiteralString = schema.SEARCHED_TEXT
# Han and kana are separated one by one: PostgreSQL takes a run of them for one word. The text is
# cut at what an entry of the index can hold. An index is used only where a query has
# its expression.
LEXEMES: LiteralString = (
    r"to_tsvector('simple'::regconfig, CASE"
    rf" WHEN octet_length({SEARCHED_TEXT})"
    rf" = char_length({SEARCHED_TEXT})"
    rf" THEN left({SEARCHED_TEXT}, 200000)"
    rf" ELSE left(regexp_replace({SEARCHED_TEXT},"
    r" '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])', ' \1 ', 'g'), 200000) END)"
)
SEARCHED_COLUMN = literal_column(SEARCHED_TEXT)
LEXEMES_COLUMN = literal_column(LEXEMES)
INDEX = sql.SQL("CREATE INDEX {} ON {} USING gin ({lexemes})")
# BM25 is estimated twice, so that few texts are read. The first estimate assumes that each word
# occurs once; it needs the size of a text, but not the text. The second one, for the likely text
# units of the first, counts how often a pattern matches. Sums of floats are rounded: their last
# digits depend on the order of the plan, which rows hidden from the caller may change.
RANKED = text(r"""
    SELECT id, content, texts FROM (
        WITH frequencies AS (
            SELECT place, count(*) AS texts FROM found GROUP BY place
        ), weighed AS (
            SELECT id, pattern, ln(1 + (greatest(:texts - texts, 0) + 0.5) / (texts + 0.5))
                AS weight,
                :k1 * (1 - :b + :b * size / avg(size) OVER ()) AS base
            FROM found JOIN frequencies USING (place) WHERE shown
        ), likely AS (
            SELECT id FROM weighed GROUP BY id
            ORDER BY round(sum(weight / (1 + base))::numeric, 9) DESC, id COLLATE "C" LIMIT :likely
        ), opened AS MATERIALIZED (
            SELECT unit.id, coalesce(nullif(header, '') || E'\n\n', '') || content AS content
            FROM likely JOIN lightrag_chunks AS unit ON unit.workspace = :workspace
                AND unit.id = likely.id
        ), counted AS MATERIALIZED (
            SELECT id, weight, base, greatest(1, (SELECT count(*) FROM regexp_matches(content,
                pattern, 'gi'))) AS times
            FROM weighed JOIN opened USING (id)
        ), best AS (
            SELECT id FROM counted GROUP BY id
            ORDER BY round(sum(weight * times / (times + base))::numeric, 9) DESC,
                id COLLATE "C" LIMIT :candidates
        )
        SELECT id, content, (SELECT jsonb_object_agg(place, texts) FROM frequencies) AS texts
        FROM best JOIN opened USING (id) ORDER BY id COLLATE "C"
    ) AS ranked
    """)
SAMPLE_QUERY = sql.SQL("SELECT {} FROM {} WHERE workspace = %s ORDER BY id LIMIT %s")
MOST_REMEMBERED = 100
"""The number of sets of visible documents whose word statistics are remembered. It is more than the
API keys that a server has for different sets."""


def index_name(workspace: str) -> str:
    """Return the name of the lexical index of a workspace."""
    return f"{name_partition(CHUNKS, workspace)}_words"


def build_lexical_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Build the lexical indexes in ``build_mb`` MB of memory; in one that exists, merge pending
    entries."""
    partition = sql.Identifier(name_partition(CHUNKS, workspace))
    name = index_name(workspace)
    # An earlier version of the software indexed texts without their headers.
    earlier = sql.Identifier(f"{name_partition(CHUNKS, workspace)}_lexemes")
    cursor(connection).execute(sql.SQL("DROP INDEX IF EXISTS {}").format(earlier))
    statement = INDEX.format(sql.Identifier(name), partition, lexemes=sql.SQL(LEXEMES))
    build_or_settle(connection, name, statement, build_mb)
    build_endings_index(connection, workspace, build_mb)


def read_statistics(connection: Connection, workspace: str, texts: int) -> dict[str, Any]:
    """Return the statistics of the workspace's ``texts`` text units, as JSON."""
    query = SAMPLE_QUERY.format(sql.SQL(SEARCHED_TEXT), sql.Identifier(CHUNKS.name))
    sample = cursor(connection).execute(query, [workspace, SAMPLE])
    statistics = text_statistics((content or "" for (content,) in sample), texts, LEAST_SHARE)
    return {
        "texts": texts,
        "length": statistics.length,
        "shares": dict(statistics.shares),
        "endings": ENDINGS_VERSION,
    }


@dataclass
class RememberedStatistics:
    """A cache of word statistics: they are large, and the same for all questions after a load.

    ``known``: a version, and the statistics of all its text units. ``of_visible``: a version, and
    the statistics for each set of visible documents.
    """

    known: tuple[str, TextStatistics | None] = ("", None)
    of_visible: tuple[str, dict[str, TextStatistics]] = field(default_factory=lambda: ("", {}))

    def of(
        self, connection: Connection, workspace: str, version: str, visible: Allowed
    ) -> TextStatistics | None:
        """Return the statistics of the text units of the visible documents, which may be all.

        Return None where an earlier version of the software has loaded the workspace.
        """
        shown, statistics = self.known
        if shown != version or statistics is None:
            statistics = _read_stored_statistics(connection, workspace)
            self.known = version, statistics
        if statistics is None or not visible.within:
            return statistics
        return self._find_of_visible(
            connection, workspace, version, visible, statistics.has_endings
        )

    def _find_of_visible(
        self,
        connection: Connection,
        workspace: str,
        version: str,
        visible: Allowed,
        has_endings: bool,
    ) -> TextStatistics:
        """Return the statistics of the visible documents; compute them if they are unknown."""
        shown, remembered = self.of_visible
        if shown != version:
            remembered = {}
            self.of_visible = version, remembered
        key = repr(visible.within)
        if key not in remembered:
            if len(remembered) >= MOST_REMEMBERED:
                remembered.clear()
            computed = _compute_statistics(connection, workspace, visible)
            remembered[key] = replace(computed, has_endings=has_endings)
        return remembered[key]


def lexical_search(
    connection: Connection,
    workspace: str,
    question: str,
    limit: int,
    allowed: Allowed,
    visible: Allowed,
    statistics: TextStatistics | None,
) -> Lexical:
    """Search text units by the words of a question, see ``VectorReads.lexical``; one statement.

    ``allowed``: the documents that may be found. ``visible``: the documents in which words are
    counted; ``statistics`` are theirs.
    """
    # A dict keeps each word once, in the order of the question.
    own_words = dict.fromkeys(words(question))
    compounds = [word for word in _compound_words(question) if word not in own_words]
    all_words = [*own_words, *compounds]
    asked = [word for word in all_words if len(word.encode()) <= LONGEST_WORD]
    if statistics is None or not asked:
        return Lexical([], {})
    followed = _select_followed(asked, compounds, statistics)
    # A date counts as one more word, in all the forms in which texts write it.
    dates = find_dates(question)
    looked_up = [(lexical_query(word), lexical_pattern(word)) for word in followed]
    looked_up += [(date_query(date), date.pattern) for date in dates]
    heads = find_heads(question) if statistics.has_endings else []
    by_endings = [look_up_ending(head) for head in heads]
    candidates = max(CANDIDATES, 2 * limit)
    query = RANKED.columns(column("id"), column("content"), column("texts", JSONB))
    query = query.add_cte(_select_found(workspace, looked_up, by_endings, allowed, visible))
    parameters = {
        "workspace": workspace,
        "texts": statistics.texts,
        "likely": max(LIKELY, candidates),
        "candidates": candidates,
        "k1": K1,
        "b": B,
    }
    found = connection.execute(query, parameters).all()
    # The third column is the same in every row: place of a word -> text units that have it.
    counted = found[0][2] if found else {}
    frequencies: dict[str, int] = {}
    for place, word in enumerate(followed, start=1):
        frequencies[word] = counted.get(str(place), 0)
    there: list[str] = []
    for word in asked:
        # A compound is a guess. One that no text has must not count as a word of the question.
        is_guess = word in compounds
        is_in_texts = word in statistics.shares or frequencies.get(word)
        if is_in_texts or not is_guess:
            there.append(word)
    weights = _weigh_words(there, frequencies, statistics)
    # Places of dates follow those of words, and places of endings follow those of dates.
    patterns = [date.pattern for date in dates]
    patterns += [pattern for _, pattern in by_endings]
    pattern_weights: dict[str, float] = {}
    for place, pattern in enumerate(patterns, start=len(followed) + 1):
        frequency = min(counted.get(str(place), 0), statistics.texts)
        pattern_weights[pattern] = word_weight(statistics.texts, frequency)
    for head, (_, pattern) in zip(heads, by_endings, strict=True):
        # Compounds of a frequent noun say no more than the noun, however rare they are.
        noun = stem(head)
        if noun in weights:
            pattern_weights[pattern] = min(pattern_weights[pattern], weights[noun])
    texts = [content for _, content, _ in found]
    scores = bm25_scores(texts, weights, statistics.length, pattern_weights)
    hits: list[tuple[str, float]] = []
    for (id, _, _), score in zip(found, scores.tolist(), strict=True):
        if score > 0:
            hits.append((id, score))
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return Lexical(hits[:limit], weights)


def _compound_words(question: str) -> list[str]:
    """Return the words that the German compounds of the question's nouns may be, each once."""
    spellings: list[str] = []
    for compound in join_nouns(question):
        for spelling in compound.spellings:
            spellings += words(spelling)
    return list(dict.fromkeys(spellings))


def _select_found(
    workspace: str,
    looked_up: Sequence[tuple[str, str]],
    by_endings: Sequence[tuple[str, str]],
    allowed: Allowed,
    visible: Allowed,
) -> CTE:
    """Return the CTE (place, pattern, id, size, shown) of text units that have one of the words.

    ``looked_up``: the tsquery and the pattern of each word. ``by_endings``: those of the words that
    the index of endings has. ``place``: the place of the word in both, from 1. ``size``: bytes of
    the text unit. ``shown``: whether its document is one of those that may be found. Only text
    units of visible documents are listed, for each word up to 2 * FOLLOWED of them.
    """
    found = _select_units(
        workspace, looked_up, 0, LEXEMES_COLUMN.bool_op("@@"), (), allowed, visible
    )
    if not by_endings:
        return found.cte("found")
    has_ending = ENDINGS_COLUMN.bool_op("@@")
    before = len(looked_up)
    with_endings = _select_units(
        workspace, by_endings, before, has_ending, (IS_GERMAN,), allowed, visible
    )
    return union_all(found, with_endings).cte("found")


def _select_units(
    workspace: str,
    looked_up: Sequence[tuple[str, str]],
    before: int,
    matches: Callable[[ColumnElement], ColumnElement],
    conditions: Sequence[ColumnElement],
    allowed: Allowed,
    visible: Allowed,
) -> Select:
    """Return the query of ``_select_found`` for the words of one index.

    ``before``: how many words have a place before these. ``matches`` compares an entry of the index
    with a tsquery. ``conditions``: what else holds for the text units in the index.
    """
    queries = [tsquery for tsquery, _ in looked_up]
    patterns = [pattern for _, pattern in looked_up]
    words = func.unnest(cast(queries, ARRAY(Text)), cast(patterns, ARRAY(Text)))
    asked = words.table_valued(
        "query", "pattern", with_ordinality="place", name="asked"
    ).render_derived()
    size = func.octet_length(SEARCHED_COLUMN).label("size")
    is_allowed = allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    is_visible = visible.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    shown = func.coalesce(is_allowed, False).label("shown")
    unit = (
        select(CHUNKS.c.id, size, shown)
        .where(
            CHUNKS.c.workspace == workspace,
            matches(cast(asked.c.query, TSQUERY)),
            *conditions,
            is_visible,
        )
        .order_by(shown.desc(), size, CHUNKS.c.id.collate("C"))
        .limit(2 * FOLLOWED)
        .lateral("unit")
    )
    place = (asked.c.place + before).label("place")
    return select(place, asked.c.pattern, unit.c.id, unit.c.size, unit.c.shown)


def lexical_query(word: str) -> str:
    """Return the tsquery of a word of ``pipeline.text.ids``, which has letters and digits only.

    A word of SHORTEST_STEM characters or more matches as a prefix, a shorter one exactly or in the
    plural. A syllabic word matches where all of its characters occur.
    """
    if is_syllabic(word):
        return " & ".join(f"'{character}'" for character in word)
    plural = f" | '{word[:-1]}ies'" if word.endswith("y") else ""
    if len(word) >= SHORTEST_STEM:
        return f"'{word}':*{plural}"
    return f"'{word}' | '{word}s'{plural}"


def lexical_pattern(word: str) -> str:
    """Return the regular expression that matches the words of a text that ``lexical_query``
    finds."""
    if is_syllabic(word):
        return word
    plural = rf"|\m{word[:-1]}ies\M" if word.endswith("y") else ""
    if len(word) >= SHORTEST_STEM:
        return rf"\m{word}{plural}"
    return rf"\m{word}s?\M{plural}"


def _select_followed(
    asked: Sequence[str], compounds: Sequence[str], statistics: TextStatistics
) -> list[str]:
    """Return the words that at most FOLLOWED text units have.

    If the question's own words have none of these, its rarest one is added: ``compounds`` are
    guesses, which no text may have.
    """
    # Words that are not in the statistics are rare.
    share_of = {word: statistics.shares.get(word, 0) for word in asked}
    rare = [word for word in asked if share_of[word] * statistics.texts <= FOLLOWED]
    own_words = [word for word in asked if word not in compounds]
    if own_words and set(own_words).isdisjoint(rare):
        rarest = min(own_words, key=lambda word: share_of[word])
        rare.append(rarest)
    return rare


def _weigh_words(
    asked: Sequence[str], counted: Mapping[str, int], statistics: TextStatistics
) -> dict[str, float]:
    """Return the weight of each word.

    Its frequency is known from the statistics if it is a frequent word. Otherwise it is ``counted``
    by the search.
    """
    weights: dict[str, float] = {}
    for word in asked:
        if word in statistics.shares:
            frequency = statistics.shares[word] * statistics.texts
        else:
            frequency = counted.get(word, 0)
        weights[word] = word_weight(statistics.texts, min(frequency, statistics.texts))
    return weights


def _read_stored_statistics(connection: Connection, workspace: str) -> TextStatistics | None:
    """Read the statistics that the load stored; None if an earlier version of the software loaded
    the workspace."""
    query = select(literal_column("*")).select_from(LIVE).where(LIVE.c.workspace == workspace)
    row = connection.execute(query).mappings().first()
    stored = row and row.get("lexical")
    if not stored:
        return None
    has_endings = stored.get("endings") == ENDINGS_VERSION
    return TextStatistics(stored["texts"], stored["length"], stored["shares"], has_endings)


def _compute_statistics(connection: Connection, workspace: str, visible: Allowed) -> TextStatistics:
    """Compute the statistics of the visible documents, as if there were no others."""
    in_workspace = CHUNKS.c.workspace == workspace
    is_visible = visible.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    counting = select(func.count()).select_from(CHUNKS).where(in_workspace, is_visible)
    texts = connection.execute(counting).scalar_one()
    # Ids are digests, so the first ones are as good as a random sample.
    first = select(SEARCHED_COLUMN).where(in_workspace, is_visible)
    first = first.order_by(CHUNKS.c.id).limit(SAMPLE)
    contents = connection.execute(first).scalars()
    sample = (content or "" for content in contents)
    return text_statistics(sample, texts, LEAST_SHARE)
