"""The lexical index over a workspace's text units: PostgreSQL's full text (GIN) finds them, BM25
ranks them.

Okapi BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework", section 3.4) over
texts at hand.

PostgreSQL's own ranks know nothing of how rare a word is. So the index gives for each word the text
units that have it, a guess at BM25 the candidates, and BM25 their order. A word that very many text
units have costs too much to follow and tells too little: it only counts in the order. How frequent
the frequent ones are is read off a sample at each load (ids are digests: the first ones are as good
as drawn).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from psycopg import sql
from sqlalchemy import (
    ARRAY,
    CTE,
    Connection,
    Text,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSQUERY

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.maintenance import build_or_settle
from pipeline.stores.postgres.schema import CHUNKS, LIVE, partition_of
from pipeline.stores.reads import Lexical
from pipeline.text.ids import SHORTEST_STEM, is_syllabic, words

K1, B = 0.9, 0.4
"""Saturation and the weight of length, as in Anserini's runs on passages."""


@dataclass(frozen=True)
class TextStatistics:
    """Of a corpus: how many texts, words in a text on average, and in which share of the texts a
    frequent word is."""

    texts: int
    length: float
    shares: Mapping[str, float]


def word_weight(texts: int, frequency: float) -> float:
    """The inverse document frequency of a word that so many of the texts have."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


def bm25_scores(texts: Sequence[str], weights: Mapping[str, float], length: float) -> np.ndarray:
    """Each text's score for words of these weights, in a corpus of texts of so many words on
    average."""
    scores = np.zeros(len(texts))
    for place, content in enumerate(texts):
        found = words(content)
        counts = Counter(filter(weights.__contains__, found))
        base = K1 * (1 - B + B * len(found) / max(length, 1.0))
        scores[place] = sum(
            weights[word] * count * (K1 + 1) / (count + base) for word, count in counts.items()
        )
    return scores


def text_statistics(sample: Iterable[str], texts: int, least_share: float) -> TextStatistics:
    """Of a sample of so many texts: words in less than ``least_share`` of it are left out."""
    frequencies: Counter[str] = Counter()
    lengths = []
    for content in sample:
        found = words(content)
        lengths.append(len(found))
        frequencies.update(set(found))
    shares = {word: count / len(lengths) for word, count in sorted(frequencies.items())}
    frequent = {word: share for word, share in shares.items() if share >= least_share}
    return TextStatistics(texts, sum(lengths) / max(len(lengths), 1), frequent)


SAMPLE, LEAST_SHARE = 1000, 0.01
FOLLOWED = 3000
"""Text units that a word may be in to be followed."""
LIKELY, CANDIDATES = 500, 100
"""Text units that words are counted in, and those that BM25 is worked out for, at the least."""
LONGEST_WORD = 2000
"""Bytes: PostgreSQL refuses a question with a longer one, and has none in its index."""

# Han and kana one by one: PostgreSQL takes a run of them for one word. No more of a text than any
# index entry may hold.
LEXEMES = (
    r"to_tsvector('simple'::regconfig, CASE WHEN octet_length(content) = char_length(content) "
    r"THEN left(content, 200000) ELSE left(regexp_replace(content, "
    r"'([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])', ' \1 ', 'g'), 200000) END)"
)
INDEX = sql.SQL("CREATE INDEX {} ON {} USING gin ({lexemes})")
# Two rounds of BM25 by guess, so that texts with the same words are told apart before they are
# read: as if each word came up once, by size alone, which needs no text; then of the likely ones by
# how often a pattern matches. A sum of floats is rounded, for its last digits depend on the order
# of the plan, which hidden rows may change.
RANKED = text("""
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
            SELECT unit.id, unit.content
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
SAMPLE_QUERY = sql.SQL("SELECT content FROM {} WHERE workspace = %s ORDER BY id LIMIT %s")
MOST_REMEMBERED = 100
"""Sets of visible documents whose word statistics are remembered: more than a server has keys of
that kind."""


def index_name(workspace: str) -> str:
    return f"{partition_of(CHUNKS, workspace)}_lexemes"


def build_lexical_index(connection: Connection, workspace: str, build_mb: int) -> None:
    partition = sql.Identifier(partition_of(CHUNKS, workspace))
    name = index_name(workspace)
    build_or_settle(
        connection,
        name,
        INDEX.format(sql.Identifier(name), partition, lexemes=sql.SQL(LEXEMES)),
        build_mb,
    )


def read_statistics(connection: Connection, workspace: str, texts: int) -> dict[str, Any]:
    """What ``lexical_search`` needs to know of the workspace's text units, as JSON."""
    sample = cursor(connection).execute(
        SAMPLE_QUERY.format(sql.Identifier(CHUNKS.name)), [workspace, SAMPLE]
    )
    statistics = text_statistics((content or "" for (content,) in sample), texts, LEAST_SHARE)
    return {"texts": texts, "length": statistics.length, "shares": dict(statistics.shares)}


@dataclass
class RememberedStatistics:
    """Those of the load that a workspace shows: they are large, and the same for each of its
    questions."""

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
            statistics = _statistics(connection, workspace)
            self.known = version, statistics
        if statistics is None or not visible.within:
            return statistics
        return self._of_visible(connection, workspace, version, visible)

    def _of_visible(
        self, connection: Connection, workspace: str, version: str, visible: Allowed
    ) -> TextStatistics:
        shown, remembered = self.of_visible
        if shown != version:
            remembered = {}
            self.of_visible = version, remembered
        key = repr(visible.within)
        if key not in remembered:
            if len(remembered) >= MOST_REMEMBERED:
                remembered.clear()
            remembered[key] = _visible_statistics(connection, workspace, visible)
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
    """See VectorReads.lexical. One statement.

    ``allowed``: the documents that may be found. ``visible``: those that words are counted in, by
    default all; ``statistics`` are of these.
    """
    asked = [word for word in dict.fromkeys(words(question)) if len(word.encode()) <= LONGEST_WORD]
    if statistics is None or not asked:
        return Lexical([], {})
    followed = _followed(asked, statistics)
    candidates = max(CANDIDATES, 2 * limit)
    query = RANKED.columns(column("id"), column("content"), column("texts", JSONB))
    query = query.add_cte(_found(workspace, followed, allowed, visible))
    found = connection.execute(
        query,
        {
            "workspace": workspace,
            "texts": statistics.texts,
            "likely": max(LIKELY, candidates),
            "candidates": candidates,
            "k1": K1,
            "b": B,
        },
    ).all()
    counted = found[0][2] if found else {}
    frequencies = {word: counted.get(str(place), 0) for place, word in enumerate(followed, start=1)}
    weights = _weights(asked, frequencies, statistics)
    scores = bm25_scores([content for _, content, _ in found], weights, statistics.length)
    ranked = sorted(
        zip((id for id, *_ in found), map(float, scores), strict=True),
        key=lambda hit: (-hit[1], hit[0]),
    )
    return Lexical([hit for hit in ranked if hit[1] > 0][:limit], weights)


def _found(workspace: str, followed: Sequence[str], allowed: Allowed, visible: Allowed) -> CTE:
    """(place, pattern, id, size, shown): of each word, by its place among them, the text units of
    visible documents that have it, and whether their documents are among those that may be
    found."""
    queries, patterns = (
        [lexical_query(word) for word in followed],
        [lexical_pattern(word) for word in followed],
    )
    words = func.unnest(cast(queries, ARRAY(Text)), cast(patterns, ARRAY(Text)))
    asked = words.table_valued(
        "query", "pattern", with_ordinality="place", name="asked"
    ).render_derived()
    size = func.octet_length(CHUNKS.c.content).label("size")
    shown = func.coalesce(allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace), False).label(
        "shown"
    )
    unit = (
        select(CHUNKS.c.id, size, shown)
        .where(
            CHUNKS.c.workspace == workspace,
            literal_column(LEXEMES).bool_op("@@")(cast(asked.c.query, TSQUERY)),
            visible.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
        )
        .order_by(shown.desc(), size, CHUNKS.c.id.collate("C"))
        .limit(2 * FOLLOWED)
        .lateral("unit")
    )
    return select(asked.c.place, asked.c.pattern, unit.c.id, unit.c.size, unit.c.shown).cte("found")


def lexical_query(word: str) -> str:
    """The tsquery of a word as ``pipeline.text.ids`` gives it, which holds letters and digits
    alone."""
    if is_syllabic(word):
        return " & ".join(f"'{character}'" for character in word)
    plural = f" | '{word[:-1]}ies'" if word.endswith("y") else ""
    return f"'{word}':*{plural}" if len(word) >= SHORTEST_STEM else f"'{word}' | '{word}s'{plural}"


def lexical_pattern(word: str) -> str:
    """A regular expression that matches where a text has the word, or begins with it where
    ``lexical_query`` does."""
    if is_syllabic(word):
        return word
    plural = rf"|\m{word[:-1]}ies\M" if word.endswith("y") else ""
    return (rf"\m{word}" if len(word) >= SHORTEST_STEM else rf"\m{word}s?\M") + plural


def _followed(asked: Sequence[str], statistics: TextStatistics) -> list[str]:
    """The words that few text units have; where there are none, the rarest."""
    rare = [word for word in asked if statistics.shares.get(word, 0) * statistics.texts <= FOLLOWED]
    return rare or [min(asked, key=lambda word: statistics.shares.get(word, 0))]


def _weights(
    asked: Sequence[str], counted: Mapping[str, int], statistics: TextStatistics
) -> dict[str, float]:
    texts, shares = statistics.texts, statistics.shares
    frequencies = {
        word: shares[word] * texts if word in shares else counted.get(word, 0) for word in asked
    }
    return {
        word: word_weight(texts, min(frequency, texts)) for word, frequency in frequencies.items()
    }


def _statistics(connection: Connection, workspace: str) -> TextStatistics | None:
    """None where an earlier version of the software has loaded the workspace."""
    query = select(literal_column("*")).select_from(LIVE).where(LIVE.c.workspace == workspace)
    row = connection.execute(query).mappings().first()
    stored = row and row.get("lexical")
    if not stored:
        return None
    return TextStatistics(stored["texts"], stored["length"], stored["shares"])


def _visible_statistics(connection: Connection, workspace: str, visible: Allowed) -> TextStatistics:
    """Return what ``read_statistics`` would give if there were no other documents."""
    there = CHUNKS.c.workspace == workspace, visible.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    texts = connection.execute(select(func.count()).select_from(CHUNKS).where(*there)).scalar_one()
    sample = connection.execute(
        select(CHUNKS.c.content).where(*there).order_by(CHUNKS.c.id).limit(SAMPLE)
    )
    return text_statistics((content or "" for (content,) in sample), texts, LEAST_SHARE)
