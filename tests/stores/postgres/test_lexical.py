"""The lexical index of text units, on a real PostgreSQL."""

from collections.abc import Callable, Sequence
from uuid import uuid4

import numpy as np
import pandas as pd
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql.psycopg import dialect

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live
from pipeline.stores.postgres.lexical import (
    bm25_scores,
    index_name,
    lexical_pattern,
    lexical_query,
    word_weight,
)
from pipeline.stores.postgres.lexical_endings import ENDINGS_COLUMN, IS_GERMAN, endings_index
from pipeline.stores.postgres.schema import CHUNKS, name_partition
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import Lexical, VectorSearch
from pipeline.text.ids import words
from tests.query.memory_stores import of_documents

OpenStore = Callable[..., PostgresStore]
TEXTS = [
    "The tower of the lighthouse stands at the point.",
    "A lighthouse keeper kept the log of the lighthouse.",
    "The harbour was built by the sea.",
    (
        "The sea and the harbour and the mole, the quay, the slip, the dock and all that is beside"
        " the sea."
    ),
    "God's Gift, a 1927 film; O'Neil directed films & more.",
    "斯卡罗灯塔建于1871年，塔高30米。",
    "港口的博物馆收藏灯具。塔楼很高。",
    "とうだいは みさきに ある。",
    "Üble Straße, маяк, 등대",
]


def chunks(texts: Sequence[str], documents: Sequence[str] | None = None) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [f"chunk-{number:04}" for number in range(len(texts))],
            "full_doc_id": documents or "doc-1",
            "chunk_order_index": list(range(len(texts))),
            "tokens": 1,
            "content": list(texts),
            "char_start": 0,
            "char_end": 1,
            "heading": "",
            "header": "",
            "embedding": [np.ones(2, dtype=np.float32)] * len(texts),
        }
    )


def load(
    store: PostgresStore,
    texts: Sequence[str],
    version: str = "1",
    documents: Sequence[str] | None = None,
) -> None:
    with store.writing(Live("index", version, {"model": "m"}, 2)) as writer:
        ids = sorted(set(documents or ()))
        titled = pd.DataFrame(
            {"id": ids, "title": ids, "source": ids, "metadata": [{} for _ in ids], "date": ""}
        )
        for table, rows in (("chunks", chunks(texts, documents)), ("documents", titled)):
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()


def plain_bm25(texts: Sequence[str], question: str, limit: int) -> list[tuple[str, float]]:
    found = [words(text) for text in texts]
    asked = dict.fromkeys(words(question))
    weights = {word: word_weight(len(texts), sum(word in text for text in found)) for word in asked}
    scores = bm25_scores(texts, weights, float(np.mean([len(text) for text in found])))
    hits = [
        (f"chunk-{place:04}", score) for place, score in enumerate(scores.tolist()) if score > 0
    ]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]


@pytest.mark.parametrize(
    "question",
    ["Who built the lighthouse?", "the sea harbour", "God's Gift film", "O'Neil",
        "directors of a 1927 film", "маяк",
     "straße", "the", "灯塔", "斯卡罗灯塔有多高？", "灯", "とうだい", "nothing here is known", "?", ""],  # noqa: E501
)  # fmt: skip
def test_search_ranks_as_bm25_does(postgres: OpenStore, question: str):
    store = postgres()
    load(store, TEXTS)
    found, expected = store.lexical(question, 5).hits, plain_bm25(TEXTS, question, 5)
    assert [id for id, _ in found] == [id for id, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


def test_chinese_is_found_by_two_characters_next_to_each_other(postgres: OpenStore):
    store = postgres()
    load(store, TEXTS)
    assert [id for id, _ in store.lexical("灯塔", 5).hits] == ["chunk-0005"]


def test_plurals_are_found_by_their_singular(postgres: OpenStore):
    store = postgres()
    load(store, ["Two puppies and some skies.", "A puppy.", "Cities by the quay."])
    for question, found in (("puppy", {0, 1}), ("puppies", {0, 1}), ("sky", {0}), ("city", {2})):
        assert {id for id, _ in store.lexical(question, 5).hits} == {
            f"chunk-{place:04}" for place in found
        }


def test_two_german_nouns_find_their_compound_and_other_spellings_of_it_weigh_nothing(
    postgres: OpenStore,
):
    store = postgres()
    load(store, ["Wartungsplan Kühlwasserpumpe.", "Wartungsplan Heizölpumpe.", "Ein Ventil."])
    found = store.lexical("Wo steht die Pumpe für Kühlwasser?", 5)
    assert [id for id, _ in found.hits] == ["chunk-0000"]
    asked = ["wo", "steht", "die", "pumpe", "für", "kühlwasser"]
    assert list(found.weights) == [*asked, "kühlwasserpumpe"]


def test_frequent_nouns_are_found_though_no_text_has_their_compound(
    postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.lexical.FOLLOWED", 10)
    store = postgres()
    load(store, ["Pumpe für Kühlwasser."] * 20)
    assert store.lexical("Pumpe für Kühlwasser", 5).hits


def test_rarer_words_have_higher_weights(postgres: OpenStore):
    store = postgres()
    load(store, TEXTS)
    weights = store.lexical("the lighthouse of Tollen", 5).weights
    assert list(weights) == ["the", "lighthouse", "of", "tollen"]
    assert weights["the"] < weights["lighthouse"] < weights["tollen"]


def test_frequent_words_are_not_looked_up_but_count_in_the_ranking(
    postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.lexical.FOLLOWED", 10)
    texts = [f"common {'plain ' * (number % 3)}text{number}" for number in range(60)]
    store = postgres()
    load(store, texts)
    assert [id for id, _ in store.lexical("common text7", 5).hits] == ["chunk-0007"]
    assert len(store.lexical("common", 50).hits) == 20
    best = store.lexical("common plain", 3).hits
    assert [id for id, _ in best] == [
        id for id, _ in plain_bm25(texts, "common plain", 60) if id in dict(best)
    ]


MANY = [f"a lantern by the door of house number {number} in the street" for number in range(300)]
"""All tie by the words that they have: what tells them apart is how often and in how many words."""


def test_the_best_of_many_texts_with_the_same_words_is_found(postgres: OpenStore):
    texts = MANY.copy()
    texts[250] = (
        f"Lantern, lantern, lantern and lanterns: {texts[250]} and many more words than any other"
        " text has"
    )
    texts[260] = "a lantern"
    store = postgres()
    load(store, texts)
    found, expected = store.lexical("lantern", 5).hits, plain_bm25(texts, "lantern", 5)
    assert [id for id, _ in expected][:2] == ["chunk-0250", "chunk-0260"]
    assert [id for id, _ in found] == [id for id, _ in expected]


def test_short_texts_are_preferred_where_too_many_have_the_word(
    postgres: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.lexical.FOLLOWED", 10)
    texts = [*MANY[:299], "a lantern"]
    store = postgres()
    load(store, texts)
    assert [id for id, _ in store.lexical("lantern", 3).hits] == [
        "chunk-0299",
        "chunk-0000",
        "chunk-0001",
    ]


def test_only_text_units_of_allowed_documents_are_found(postgres: OpenStore):
    store = postgres()
    documents = ["doc-2" if number in (200, 250) else "doc-1" for number in range(300)]
    load(store, [*MANY[:250], "a lantern", *MANY[251:]], documents=documents)
    everywhere = store.lexical("lantern number 7", 300)
    of_one = store.lexical("lantern number 7", 5, of_documents("doc-2", "doc-9"))
    assert of_one.hits == [hit for hit in everywhere.hits if hit[0] in ("chunk-0200", "chunk-0250")]
    assert of_one.weights == everywhere.weights
    assert store.lexical("lantern", 5, of_documents("none")).hits == []


def of_documents_alone(store: PostgresStore, question: str, limit: int, *documents: str) -> Lexical:
    return store.lexical(question, limit, rights=of_documents(*documents))


@pytest.mark.parametrize("followed", [3, 3000])
def test_with_rights_words_are_counted_in_visible_documents_alone(
    postgres: OpenStore, followed: int, monkeypatch: pytest.MonkeyPatch
):
    """Words have the weights that they would have without the hidden texts. Hidden texts make one
    of the words frequent, and another one rare."""
    monkeypatch.setattr("pipeline.stores.postgres.lexical.FOLLOWED", followed)
    monkeypatch.setattr("pipeline.stores.postgres.lexical.SAMPLE", 10)
    visible = [
        f"{'lantern ' * (number % 4)}by the door {'of the harbour' * (number % 3)}"
        for number in range(30)
    ]
    hidden = [
        f"lantern {'harbour ' * (number % 2)}and a takeover of number{number}"
        for number in range(170)
    ]
    whole, alone = postgres("-whole"), postgres("-alone")
    load(whole, [*visible, *hidden], documents=["doc-1"] * 30 + ["doc-2"] * 170)
    load(alone, visible, documents=["doc-1"] * 30)
    for question in (
        "lantern",
        "a lantern by the harbour door",
        "takeover",
        "the takeover of number7",
    ):
        for limit in (3, 50):
            found = of_documents_alone(whole, question, limit, "doc-1")
            assert found == of_documents_alone(alone, question, limit, "doc-1"), question
            assert found.weights == alone.lexical(question, limit).weights
    assert of_documents_alone(whole, "lantern", 5, "doc-1") != whole.lexical(
        "lantern", 5, of_documents("doc-1")
    )
    narrowed = whole.lexical("takeover", 5, of_documents("doc-2"), of_documents("doc-1"))
    assert narrowed.hits == []
    load(whole, [*visible, "lantern"], "2", documents=["doc-1"] * 31)
    assert of_documents_alone(whole, "lantern", 50, "doc-1") == whole.lexical("lantern", 50)


def test_search_finds_what_the_last_load_wrote(postgres: OpenStore):
    store = postgres()
    load(store, TEXTS)
    load(store, [*TEXTS[1:], "The lighthouse again, lighthouse."], "2")
    assert [id for id, _ in store.lexical("lighthouse", 5).hits] == ["chunk-0008", "chunk-0000"]
    assert [id for id, _ in store.lexical("point", 5).hits] == []


def test_a_text_may_be_longer_than_an_index_entry(postgres: OpenStore):
    store = postgres()
    long = " ".join(f"w{number:07}x" for number in range(150_000))
    load(store, [long, "x" * 1_200_000, "灯" * 400_000, "w0000001x alone"])
    assert {id for id, _ in store.lexical("w0000001x", 5).hits} == {"chunk-0000", "chunk-0003"}


@pytest.mark.parametrize("word", ["x" * 5000, "ใครสร้างประภาคาร" * 100, "y" * 2044])
def test_a_question_may_have_a_word_longer_than_the_index_holds(postgres: OpenStore, word: str):
    store = postgres()
    load(store, TEXTS)
    assert store.lexical(f"lighthouse {word}", 5).hits == store.lexical("lighthouse", 5).hits
    assert store.lexical(word, 5).hits == []


def test_search_uses_the_index(postgres: OpenStore):
    store = postgres()
    load(store, [f"text number{number} of many" for number in range(3000)])
    with store.connection() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        scans = text("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = :name")
        before = connection.execute(scans, {"name": index_name(store.workspace)}).scalar_one()
    store.lexical("number77", 5)
    with store.connection() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    with store.connection() as connection:
        assert (
            connection.execute(scans, {"name": index_name(store.workspace)}).scalar_one() > before
        )


def test_search_does_not_find_texts_of_another_workspace(postgres: OpenStore):
    one, other = postgres("-one"), postgres("-other")
    load(one, TEXTS)
    load(other, ["the sea"])
    assert len(one.lexical("sea", 9).hits) == 2
    assert [id for id, _ in other.lexical("sea lighthouse", 9).hits] == ["chunk-0000"]


def test_what_an_earlier_version_has_loaded_has_no_lexical_index(postgres: OpenStore):
    store = postgres()
    load(store, TEXTS)
    with store.connection() as connection:
        connection.execute(
            text("UPDATE graphmill_live SET lexical = NULL WHERE workspace = :workspace"),
            {"workspace": store.workspace},
        )
    assert store.lexical("sea", 5).hits == []


def test_an_empty_workspace_finds_nothing(postgres: OpenStore):
    store = postgres()
    load(store, [])
    assert store.lexical("sea", 5).hits == []


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("灯塔", "灯塔"),
        ("sea", r"\mseas?\M"),
        ("harbour", r"\mharbour"),
        ("puppy", r"\mpuppy|\mpuppies\M"),
    ],
)
def test_the_pattern_of_a_word_matches_the_word_and_its_plurals(word: str, pattern: str):
    assert lexical_pattern(word) == pattern


@pytest.mark.parametrize(
    ("word", "query"),
    [
        ("灯塔", "'灯' & '塔'"),
        ("sea", "'sea' | 'seas'"),
        ("harbour", "'harbour':*"),
        ("puppy", "'puppy':* | 'puppies'"),
    ],
)
def test_the_query_of_a_word_finds_the_word_and_its_plurals(word: str, query: str):
    assert lexical_query(word) == query


def test_few_text_units_are_not_parsed_for_each_word(postgres: OpenStore):
    store = postgres()
    load(store, TEXTS)
    scans = text("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = :name")
    with store.reading() as reads:
        assert reads.moment
        connection, of_chunks = (
            reads.moment.connection,
            {"name": name_partition(CHUNKS, store.workspace)},
        )
        reads.nearest([VectorSearch("chunks", np.ones(2), 5)])
        before = connection.execute(scans, of_chunks).scalar_one()
        reads.lexical("the lighthouse keeper and the harbour", 5)
        assert connection.execute(scans, of_chunks).scalar_one() == before


def test_words_of_a_header_are_found_and_the_passage_has_its_text_alone(postgres: OpenStore):
    store = postgres()
    texts, headers = ["It is red.", "It is blue."], ["", "Osprey Manual > Colours"]
    rows = chunks(texts).assign(header=headers)
    titled = pd.DataFrame(
        {"id": ["doc-1"], "title": "t", "source": "s", "metadata": [{}], "date": ""}
    )
    with store.writing(Live("index", "1", {"model": "m"}, 2)) as writer:
        for table, wanted in (("chunks", rows), ("documents", titled)):
            writer.apply(table, diff(with_hashes(wanted), writer.hashes(table)))
        writer.publish()
    expected = plain_bm25([texts[0], f"{headers[1]}\n\n{texts[1]}"], "osprey red", 5)
    assert dict(store.lexical("osprey red", 5).hits) == pytest.approx(dict(expected))
    [passage] = store.chunks(["chunk-0001"], np.ones(2, dtype=np.float32))
    assert passage.content == texts[1]


DATED = [
    "The board met on 2024-03-15.",
    "Sitzung vom 15.03.2024 im Werk.",
    "Minutes of 15 March 2024.",
    "会议于2024年3月15日举行。",
    "회의 2024년 3월 15일",
    "Met on 03/15/2024.",
    "The board met on 2023-03-15.",
    "The mill is old.",
]


def test_a_date_of_a_question_is_found_in_all_its_forms(postgres: OpenStore):
    store = postgres()
    load(store, DATED)
    for question in ("Was it in March 2024?", "15.03.2024", "am 15. März 2024", "2024年3月"):
        best = {id for id, _ in store.lexical(question, 6).hits}
        assert best == {f"chunk-{place:04}" for place in range(6)}, question


GERMAN = [
    "Das Haus und der Leuchtturmwärter.",
    "Der Plan der Leuchtturmwärterin.",
    "Das Haus und der Garten.",
    "The Leuchtturmwärter of the point.",
]
"""The last text has the compound, but is no German text."""


def test_the_last_part_of_a_german_compound_is_found(postgres: OpenStore):
    store = postgres()
    load(store, GERMAN)
    assert [id for id, _ in store.lexical("Wo wohnt Wärter?", 5).hits] == ["chunk-0000"]
    assert store.lexical("Where is Wärter?", 5).hits == []


def test_compounds_in_hidden_documents_change_no_score(postgres: OpenStore):
    documents = ["doc-1", "doc-2", "doc-1", "doc-2"]
    store = postgres()
    load(store, GERMAN, documents=documents)
    rights = of_documents("doc-1")
    seen = store.lexical("Wo wohnt Wärter?", 5, (), rights).hits
    load(store, [*GERMAN, "Das ist der Bahnwärter."], "2", [*documents, "doc-2"])
    assert [id for id, _ in seen] == ["chunk-0000"]
    assert store.lexical("Wo wohnt Wärter?", 5, (), rights).hits == seen


def test_a_new_text_is_found_by_the_last_part_of_its_compound(postgres: OpenStore):
    store = postgres()
    load(store, GERMAN[2:])
    load(store, [*GERMAN[2:], "Wer ist der Bahnwärter?"], "2")
    assert [id for id, _ in store.lexical("Wo wohnt Wärter?", 5).hits] == ["chunk-0002"]


def test_a_workspace_of_an_earlier_version_is_searched_without_endings(postgres: OpenStore):
    store = postgres()
    load(store, GERMAN)
    with store.connection() as connection:
        connection.execute(text("UPDATE graphmill_live SET lexical = lexical - 'endings'"))
        connection.commit()
    store.statistics.known = "", None
    assert store.lexical("Wo wohnt Wärter?", 5).hits == []


def test_a_compound_is_found_by_a_noun_that_ends_as_an_english_plural_or_participle(
    postgres: OpenStore,
):
    store = postgres()
    load(store, ["Das ist ein Vorstandsmitglied.", "Das sind die Kaufpreise.", "Die Tagesschau."])
    assert [id for id, _ in store.lexical("Wer ist Mitglied?", 5).hits][:1] == ["chunk-0000"]
    assert "chunk-0001" in [id for id, _ in store.lexical("Welcher Preis?", 5).hits]
    assert store.lexical("Wo steht Haus?", 5).hits == []


def test_an_index_of_endings_of_another_version_is_missing_until_the_next_load_replaces_it(
    postgres: OpenStore,
):
    store = postgres()
    load(store, GERMAN)
    name = endings_index(store.workspace)
    earlier = f"{name_partition(CHUNKS, store.workspace)}_endings"
    with store.connection() as connection:
        connection.execute(text(f"ALTER INDEX {name} RENAME TO {earlier}"))
        connection.commit()
    assert store.outdated() == [f"index {name} is gone"]
    load(store, GERMAN, "2")
    assert store.outdated() == []
    with store.connection() as connection:
        assert connection.execute(select(func.to_regclass(earlier))).scalar() is None


def test_the_index_of_endings_has_equal_words_in_a_database_of_locale_c(postgres_url: str):
    content = "Das Haus für den „Leuchtturmwärter“ und die Übergröße."
    row = select(ENDINGS_COLUMN, IS_GERMAN).select_from(
        text("(SELECT '' AS header, CAST(:content AS text) AS content) AS unit")
    )
    query = str(row.compile(dialect=dialect())).encode()
    create = sql.SQL(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'"
        " LC_COLLATE {locale} LC_CTYPE {locale}"
    )
    entries: list[tuple[str, bool]] = []
    for locale in ("C", "C.UTF-8"):
        database = f"locale_{uuid4().hex}"
        name = sql.Identifier(database)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(create.format(name, locale=sql.Literal(locale)))
        with psycopg.connect(make_conninfo(postgres_url, dbname=database)) as connection:
            entries += connection.execute(query, {"content": content}).fetchall()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {}").format(name))
    in_c, in_unicode = entries
    assert "reträwmrutthcuel" in in_c[0]
    # In locale C capital umlauts stay as they are; they stand at the end of a word backwards.
    assert (in_c[0].lower(), in_c[1]) == (in_unicode[0].lower(), in_unicode[1])
