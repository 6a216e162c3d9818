"""The terms that no text unit has, on a real PostgreSQL."""

from collections.abc import Callable

from pipeline.query.search.absent import list_terms
from pipeline.stores.postgres.store import PostgresStore
from tests.query.memory_stores import of_documents
from tests.stores.postgres.test_lexical import load

TEXTS = [
    "The heron stands at Dunlin. Pumps Delta-40 and Delta 41 are manufacturing marvels.",
    "ISO-9001 holds since 2019-05-03; 45,012 units; the cities; オスプレイ工場。",
    "Hidden: Osprey 7 and Zephyr 99.",
]


def test_what_no_text_unit_has_is_lacking_in_all_spellings(postgres: Callable[..., PostgresStore]):
    store = postgres()
    load(store, TEXTS, documents=["doc-1", "doc-1", "doc-2"])
    asked = (
        "Does Herons or Dunlin, Delta 40, Delta 99, ISO-9001, ISO-9002, 2019, 2020, 45012, 45013,"
        " Gull, manufactured, city, cafeteria, オスプレイ, ヘリコプター, Osprey 7, Zephyr 98?"
    )
    terms = list_terms(asked)

    def lacking(**within: object) -> list[str]:
        return [term.text for term in store.lacking(terms, **within)]  # pyright: ignore

    everywhere = [
        "Delta 99", "ISO-9002", "2020", "45013", "Gull", "cafeteria", "Zephyr 98", "ヘリコプター",
    ]  # fmt: skip
    assert lacking() == everywhere
    visible = lacking(rights=of_documents("doc-1"))
    assert visible == lacking(within=of_documents("doc-1"))
    assert set(visible) - set(everywhere) == {"Osprey 7", "Osprey", "Zephyr"}


def test_a_title_counts_as_had_and_an_empty_store_lacks_nothing(
    postgres: Callable[..., PostgresStore],
):
    store = postgres()
    terms = list_terms("Where is Gull?")
    assert store.lacking(terms) == []
    load(store, TEXTS)
    assert store.lacking(terms) == terms


def test_a_compound_is_had_where_one_text_has_both_of_its_parts(
    postgres: Callable[..., PostgresStore],
):
    store = postgres()
    load(store, ["Die Regelung der Pausen in der Langen Straße.", "Der Schutz der Vögel."])
    terms = list_terms("Ist das die Pausenregelung oder der Pausenschutz an der LANGEN STRASSE?")
    assert [term.text for term in store.lacking(terms)] == ["Pausenschutz"]
