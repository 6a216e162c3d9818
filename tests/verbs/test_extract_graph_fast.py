"""A graph from names, titles and key phrases."""

from itertools import pairwise, takewhile

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import CO_OCCURS, DOCUMENTS, EXTRACTIONS, TEXT_UNITS, TITLES
from pipeline.load.projection import edge_types
from pipeline.phrases.titles import Gazetteer
from pipeline.verbs.extract_graph_fast import (
    ALIAS_KEYWORD,
    LINK_KEYWORD,
    FastParams,
    extract_graph_fast,
)
from tests.sizes import size

KEY = list(EXTRACTIONS.key)


def documents(**titles: str | None) -> pd.DataFrame:
    return DOCUMENTS.frame([(key, title, "", "", "{}", "") for key, title in titles.items()])


def text_units(*texts: str | None, document: str = "d") -> pd.DataFrame:
    return TEXT_UNITS.frame([(f"u{n}", text, 0, document, 0, 0, n) for n, text in enumerate(texts)])


def test_the_titles_of_all_documents_are_read_once_for_all_text_units_that_come_apart(
    monkeypatch: pytest.MonkeyPatch,
):
    read: list[list[str]] = []
    of_titles = Gazetteer.of_titles
    monkeypatch.setattr(
        Gazetteer,
        "of_titles",
        lambda titles, aliases: of_titles(read.append(found := [*titles]) or found, aliases),
    )
    for titles in (
        {"d": "Skarrow Light", "e": "Lamp of the sea"},
        {"d": "Skarrow Light", "e": "Song of the sea"},
    ):
        for text in ("He knew Lamp of the sea.", "He knew Song of the sea."):
            found = extract_graph_fast(text_units(text), documents(**titles))
            assert (titles["e"] in entities(found)) == (titles["e"] in text)
    assert read == [["Skarrow Light", "Lamp of the sea"], ["Skarrow Light", "Song of the sea"]]


def extract(text: str, title: str = "", **params: int) -> pd.DataFrame:
    return extract_graph_fast(text_units(text), documents(d=title), FastParams(**params))


def entities(extractions: pd.DataFrame) -> dict[str, tuple[str, float]]:
    rows = extractions[extractions["kind"] == "entity"]
    return {
        name: (kind, weight)
        for name, kind, weight in zip(rows["name"], rows["type"], rows["weight"], strict=True)
    }


def links(extractions: pd.DataFrame) -> dict[tuple[str, str], float]:
    rows = extractions[extractions["kind"] == "relationship"]
    return dict(zip(zip(rows["source"], rows["target"], strict=True), rows["weight"], strict=True))


def row(extractions: pd.DataFrame, **wanted: str) -> pd.Series:
    found = extractions
    for column, value in wanted.items():
        found = found[found[column] == value]
    assert len(found) == 1
    return found.iloc[0]


TEXT = (
    "Captain Mira Vale lit the paraffin lamp of Tessing for the Harbour Guild. "
    "Later the Harbour Guild paid Vale for the paraffin lamp."
)


def test_names_that_share_a_sentence_are_linked_in_their_order():
    extractions = extract(TEXT)
    assert entities(extractions) == {
        "Mira Vale": ("person", 2.0),
        "paraffin lamp": ("concept", 2.0),
        "Tessing": ("name", 1.0),
        "Harbour Guild": ("organization", 2.0),
    }
    assert links(extractions) == {
        ("Mira Vale", "paraffin lamp"): 2.0,
        ("Mira Vale", "Tessing"): 1.0,
        ("Mira Vale", "Harbour Guild"): 2.0,
        ("paraffin lamp", "Tessing"): 1.0,
        ("paraffin lamp", "Harbour Guild"): 2.0,
        ("Tessing", "Harbour Guild"): 1.0,
    }
    assert links(extract(TEXT, max_links_per_name=0)) == {}


def test_rows_have_the_first_sentence_and_its_key_phrases():
    extractions = extract(TEXT)
    first = "Captain Mira Vale lit the paraffin lamp of Tessing for the Harbour Guild."
    assert row(extractions, name="Harbour Guild")["description"] == first
    link = row(extractions, source="Mira Vale", target="Harbour Guild")
    assert link["description"] == first
    assert list(link["keywords"]) == [CO_OCCURS, "paraffin lamp", "lit", "paid"]
    assert (
        "paraffin lamp"
        not in row(extractions, source="Mira Vale", target="paraffin lamp")["keywords"]
    )


def test_orders_run_from_zero_entities_first():
    extractions = extract(TEXT)
    assert list(extractions["order"]) == list(range(len(extractions)))
    assert list(extractions["kind"]) == sorted(extractions["kind"])
    assert extractions.columns.tolist() == EXTRACTIONS.columns


def test_the_title_is_linked_with_every_name_of_its_document():
    extractions = extract("Mira Vale came to Tessing. Then Mira Vale left.", "The Harrow Light")
    assert entities(extractions)["Harrow Light"] == ("title", 1.0)
    assert links(extractions) == {
        ("Harrow Light", "Mira Vale"): 2.0,
        ("Harrow Light", "Tessing"): 1.0,
    }


def test_the_title_of_a_text_without_names_is_an_entity():
    assert entities(extract("nothing here.", "Notes")) == {"Notes": ("title", 1.0)}
    assert row(extract("nothing here.", "Notes"), name="Notes")["description"] == "nothing here."
    assert entities(extract("", "Notes")) == {"Notes": ("title", 1.0)}


def test_a_title_with_a_qualifier_is_linked_with_its_name():
    extractions = extract("Island Baby is a film. It pleased Tessing.", "Island Baby (film)")
    assert entities(extractions) == {
        "Island Baby (film)": ("work", 1.0),
        "Island Baby": ("name", 1.0),
        "Tessing": ("name", 1.0),
    }
    alias = row(extractions, source="Island Baby (film)", target="Island Baby")
    assert alias["keywords"][0] == ALIAS_KEYWORD


def test_titles_of_other_documents_are_found():
    extractions = extract_graph_fast(
        text_units("It was told in The Sea in the Lamp by Vale."),
        documents(d="Home", e="The Sea in the Lamp"),
    )
    assert ("Home", "Sea in the Lamp") in links(extractions)


def test_a_text_without_capitals_has_concepts_and_its_title_among_them():
    extractions = extract(
        "المنارة القديمة قرب الميناء. فتحت المنارة القديمة مكتبة البحر، ثم زادت مكتبة البحر.",
        "المنارة القديمة",
    )
    assert entities(extractions) == {
        "المنارة القديمة": ("title", 2.0),
        "مكتبة البحر": ("concept", 2.0),
    }
    assert ("المنارة القديمة", "مكتبة البحر") in links(extractions)


def test_chinese_names_meet_english_ones():
    extractions = extract("潮汐机(Tide Engine)由林海制造。林海住在上海。", "白壶茶社小史")
    alias = row(extractions, source="潮汐机", target="Tide Engine")
    assert alias["keywords"][0] == ALIAS_KEYWORD
    assert entities(extractions) == {
        "白壶茶社小史": ("title", 1.0),
        "潮汐机": ("name", 1.0),
        "Tide Engine": ("name", 1.0),
        "林海": ("person", 2.0),
        "上海": ("location", 1.0),
    }


def test_links_of_a_crowded_sentence_are_bounded():
    names = [f"{chr(65 + n // 26)}{chr(97 + n % 26)}rin" for n in range(300)]
    extractions = extract(f"it was {', '.join(names[:20])}.", max_links_per_name=3)
    assert len(links(extractions)) == 3 * 20 - 6
    extractions = extract(f"it was {', '.join(names)}.", max_links_per_name=3)
    assert len(entities(extractions)) == 300
    assert links(extractions) == dict.fromkeys(pairwise(names), 1.0)


def stated(extractions: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    rows = extractions[extractions["kind"] == "relationship"]
    found = zip(rows["source"], rows["target"], rows["keywords"], strict=True)
    return {
        (source, target): list(takewhile(CO_OCCURS.__ne__, words))
        for source, target, words in found
    }


def test_what_a_sentence_states_stands_before_co_occurrence_and_describes_the_relationship():
    text = (
        "Mira Vale moved to Tessing with Hugo Ballard. The guild burned lamps. Ballard married Vale"
        " in Tessing."
    )
    extractions = extract(text)
    assert stated(extractions) == {
        ("Mira Vale", "Tessing"): ["moved to"],
        ("Hugo Ballard", "Mira Vale"): ["married"],
        ("Tessing", "Hugo Ballard"): [],
    }
    assert (
        row(extractions, source="Hugo Ballard")["description"] == "Ballard married Vale in Tessing."
    )
    assert edge_types(extractions.loc[extractions["kind"] == "relationship", "keywords"]) == [
        "MOVED_TO", "MARRIED", "CO_OCCURS",
    ]  # fmt: skip


def test_a_keyword_that_does_not_link_the_two_is_no_type():
    text = (
        "Return to Tessing was directed by Mira Vale with Hugo Ballard, whose daughter left for"
        " Orvane."
    )
    assert stated(extract(text, "Return to Tessing")) == {
        ("Return to Tessing", "Mira Vale"): ["directed by"],
        ("Return to Tessing", "Hugo Ballard"): [],
        ("Return to Tessing", "Orvane"): [],
    }


def test_rows_of_a_table_and_items_of_a_list_are_sentences():
    table = "\n".join(f"{n}\tName{n} Moor\tCity{n}\t{n}" for n in range(50))
    extractions = extract(table, "The Register")
    assert len(entities(extractions)) == 101
    assert ("Name7 Moor", "City7") in links(extractions)
    assert not any(
        source != "Register" and source.split()[0][4:] != target[4:]
        for source, target in links(extractions)
    )
    items = extract("They were:\n- Mira Vale of Tessing\n- Hugo Ballard of Orvane\n")
    assert links(items) == {("Mira Vale", "Tessing"): 1.0, ("Hugo Ballard", "Orvane"): 1.0}


def test_a_text_with_a_title_has_no_more_than_a_relationship_a_name():
    text = (
        "It stars Ana Moor, Bo Vale, Cy Ballard and Di Tessing. It was shown in Orvane, Quill and"
        " Hallow."
    )
    assert len(links(extract(text, "The Lamp"))) == 7


def test_types_are_what_the_text_says():
    text = (
        "The Lamp is a 1934 drama film directed by Mira Vale and starring Hugo Ballard, Benny Hill"
        " and Ida Moor. The actress Joan Bay was born in Tessing. Nick Castle saw Orvane."
    )
    assert {name: kind for name, (kind, _) in entities(extract(text, "The Lamp")).items()} == {
        "Lamp": "work",
        "Mira Vale": "person",
        "Hugo Ballard": "person",
        "Benny Hill": "person",
        "Ida Moor": "person",
        "Joan Bay": "person",
        "Tessing": "location",
        "Nick Castle": "name",
        "Orvane": "name",
    }


def test_a_mark_on_the_paper_is_no_name():
    minutes = (
        "Minutes of the Harbour Guild. Ann Moor sat in the chair, and\nBen Vale kept the book"
        " of it."
    )
    assert list(entities(extract(f"CONFIDENTIAL\n{minutes}"))) == [
        "Minutes of the Harbour Guild", "Ann Moor", "Ben Vale",
    ]  # fmt: skip
    assert "INTERPOL" in entities(extract("INTERPOL was founded by\nAnn Moor of Tessing."))


def test_descriptions_are_cut_at_a_word_and_on_one_line():
    long = "they told Mira Vale\nof " + "lamps and ropes " * 40
    description = row(extract(long), name="Mira Vale")["description"]
    assert len(description) <= 300
    assert description.startswith("they told Mira Vale of lamps")
    assert description.endswith(("lamps…", "and…", "ropes…"))


def test_a_key_phrase_is_an_entity_from_min_phrase_count_on():
    text = "the paraffin lamp burned."
    assert entities(extract(text)) == {}
    assert entities(extract(text, min_phrase_count=1)) == {"paraffin lamp": ("concept", 1.0)}


def test_a_key_phrase_that_is_the_title_in_lower_case_mentions_it():
    assert entities(extract("the paraffin lamp was lit.", "The Paraffin Lamp")) == {
        "Paraffin Lamp": ("title", 1.0)
    }


def test_an_alias_is_also_known_as_the_title_and_is_found_in_other_documents():
    titles = TITLES.frame(
        [
            ("d", "Kell Foundry", "file_name", ["KeFo", "Kell Foundry", "Shared"], "k.md"),
            ("e", "scan0001", "file_name", ["Harrow"], "e.md"),
            ("f", "Shared", "first_line", [], "f.md"),
        ]
    )
    own = extract_graph_fast(text_units("It makes bells."), titles)
    assert list(entities(own)) == ["Kell Foundry", "KeFo"]
    assert list(links(own)) == [("Kell Foundry", "KeFo")]
    other = extract_graph_fast(text_units("so KeFo makes bells.", document="f"), titles)
    assert list(entities(other)) == ["KeFo"]


LINKED = [
    ("d", "Mira Vale", "file_name", [], "People/Mira Vale.md"),
    ("e", "Kell Foundry Ltd", "heading", ["KeFo"], "Firms/Kell Foundry.md"),
    ("f", "scan0001", "file_name", [], "scan0001.md"),
]


@pytest.mark.parametrize(
    "link",
    [
        "[[Kell Foundry]]",
        "[[Firms/Kell Foundry#History|the works]]",
        "[[KeFo|the works]]",
        "[the works](../Firms/Kell%20Foundry.md#history)",
        '[the works](<Kell Foundry.md> "their note")',
    ],
)
def test_a_link_states_that_a_document_links_to_the_entity_of_another(link: str):
    found = extract_graph_fast(text_units(f"She worked at {link} then."), TITLES.frame(LINKED))
    linked = found[(found["source"] == "Mira Vale") & (found["target"] == "Kell Foundry Ltd")]
    assert [list(keywords[:2]) for keywords in linked["keywords"]] == [[LINK_KEYWORD, CO_OCCURS]]


@pytest.mark.parametrize(
    "link",
    [
        "[[Mira Vale]]",
        "[[scan0001]]",
        "[[Nowhere]]",
        "[it](https://kell.example/Kell%20Foundry.md)",
    ],
)
def test_a_link_to_no_other_entity_states_nothing(link: str):
    found = extract_graph_fast(text_units(f"She worked at {link} then."), TITLES.frame(LINKED))
    assert LINK_KEYWORD not in found["keywords"].explode().tolist()


def test_another_target_of_a_link_affects_the_texts_that_have_it():
    units = text_units("See [it](a%20b.md).", "See [it](c.md).", document="other")
    before = TITLES.frame([("d", "Mira Vale", "heading", [], "a b.md")])
    now = TITLES.frame([("d", "Mira Vale", "heading", [], "c d.md")])
    assert list(touched_by(units, before, now)) == [True, False]


@pytest.mark.parametrize(("text", "touched"), [("So KeFo makes bells.", True), ("So.", False)])
def test_an_added_alias_affects_the_texts_that_may_contain_it(text: str, touched: bool):
    units = text_units(text, document="other")
    before = TITLES.frame([("d", "Kell Foundry", "given", [])])
    now = TITLES.frame([("d", "Kell Foundry", "given", ["KeFo"])])
    assert list(touched_by(units, before, now)) == [touched]
    assert list(touched_by(text_units("So."), before, now)) == [True]


def test_missing_texts_and_titles_count_as_empty():
    units = text_units(None, "It was Mira Vale.")
    assert list(extract_graph_fast(units, documents(d=None))["name"]) == ["Mira Vale"]
    assert list(extract_graph_fast(units, documents(other="Harrow Light"))["name"]) == ["Mira Vale"]
    assert extract_graph_fast(text_units(), documents()).columns.tolist() == EXTRACTIONS.columns


@pytest.mark.parametrize(
    "params", [{"min_phrase_count": 0}, {"max_links_per_name": -1}, {"unknown": 1}]
)
def test_invalid_params_are_refused(params):
    with pytest.raises(ValidationError):
        FastParams(**params)


def test_a_long_line_takes_time_in_proportion():
    text = "Mira Vale met Hugo Ballard of the Harbour Guild and " * 4000
    assert len(extract(text)) < 100
    assert len(extract("Mira Vale " * 20000)) < 100
    assert len(extract("林海（Lin Hai）和" * 4000)) < 100


SENTENCES = st.sampled_from(
    [
        "Captain Mira Vale lit the paraffin lamp.",
        "Vale saw the paraffin lamp and Hugo Ballard.",
        "Ballard left Tessing for the Harrow Light.",
        "In Tessing the Harbour Guild (HG) paid.",
        "林海（Lin Hai）住在上海市。",
        "Tessing burned.",
        "nothing of note.",
    ]
)
TEXTS = st.lists(SENTENCES, max_size=5).map(" ".join)


@settings(max_examples=size(15, 60), deadline=None)
@given(
    st.lists(st.tuples(TEXTS, st.sampled_from(["d", "e", "missing"])), max_size=6),
    st.integers(0, 6),
    st.randoms(),
)
def test_slices_and_the_order_of_rows_do_not_change_the_extractions(texts, cut, random):
    titles = documents(d="The Harrow Light", e="Ballard, Hugo (1801-1866), keeper")
    units = TEXT_UNITS.frame(
        [(f"u{n}", text, 0, document, 0, 0, n) for n, (text, document) in enumerate(texts)]
    )
    whole = extract_graph_fast(units, titles).sort_values(KEY, ignore_index=True)
    parts = [extract_graph_fast(part, titles) for part in (units[:cut], units[cut:])]
    pd.testing.assert_frame_equal(pd.concat(parts).sort_values(KEY, ignore_index=True), whole)
    shuffled = units.sample(frac=1, random_state=random.randrange(1000))
    other = titles[::-1]
    pd.testing.assert_frame_equal(
        extract_graph_fast(shuffled, other).sort_values(KEY, ignore_index=True), whole
    )


PIECES = (
    "Mira", "Vale", "MIRA VALE", "Ann", "Moor", "of", "the", "Guild", "C++", "C", "7", "U.S.", "US",
    "O’Brien",
    "O'Brien", "l'Avenir", "deVries", "Har-\nbour", "Harbour", "World- Wide", "World-Wide", "Jr.",
    "AT&T", "Foo_bar",
    "Café", "Cafe\u0301", "ﬁnn", "Finn", "Ⅷ", "VIII", "™", "林海", "灯塔", "林海灯塔", "Ａｎｎ",
    "(film)",
    ", 1826-1958", "|", "-", ".", "\n", "\n\n", "《林海》", "[[", "|it]]", "]]", "[it](",
    "a/", ".md)", "v2",
)  # fmt: skip
JOINED = st.tuples(
    st.sampled_from(("", " ")), st.lists(st.sampled_from(PIECES), min_size=1, max_size=8)
).map(lambda parts: parts[0].join(parts[1]))
ENTRY = st.tuples(
    st.sampled_from("abc"), JOINED,
    st.sampled_from(("given", "heading", "first_line", "file_name")), st.lists(JOINED, max_size=2),
    JOINED,
)  # fmt: skip
ENTRIES = st.lists(ENTRY, max_size=3, unique_by=lambda entry: entry[0])


def touched_by(units: pd.DataFrame, before: pd.DataFrame, now: pd.DataFrame) -> "pd.Series[bool]":
    """Return the text units that changed titles affect, by the law of the verb."""
    law = REGISTRY.verbs["extract_graph_fast"].law
    touches = law.lookup["documents"] if law else None
    assert callable(touches)
    return touches(units, before, now)


@settings(deadline=None, max_examples=size(60, 5_000))
@given(st.lists(JOINED, min_size=1, max_size=3), ENTRIES, ENTRIES)
def test_a_text_that_no_changed_title_affects_gives_the_same_rows(
    texts: list[str], before: list[tuple[str, ...]], now: list[tuple[str, ...]]
):
    units = text_units(*texts, document="a")
    then, titles = TITLES.frame(before), TITLES.frame(now)
    untouched = units[~touched_by(units, then, titles)]
    assert extract_graph_fast(untouched, titles).equals(extract_graph_fast(untouched, then))


@pytest.mark.parametrize(
    ("title", "text", "touched"),
    [
        ("Mira Vale", "So Mira\nVale came.", True),
        ("Mira Vale", "So MIRA VALE came.", True),
        ("Mira Vale (film)", "So Mira Vale came.", True),
        ("Mira Vale", "So Mira came, and Vale.", False),
        ("Vale", "So Mira Vale came.", True),
        ("Art", "The party was over.", False),
        ("林海", "我在林海灯塔。", True),
        ("林海", "我在海边。", False),
        ("Invoice 000123 ACME Corp", "It answers Invoice 000122 ACME Corp.", False),
    ],
)
def test_an_added_or_removed_title_affects_the_texts_that_may_contain_it(
    title: str, text: str, touched: bool
):
    units, none = text_units(text, document="other"), TITLES.frame()
    for before, now in (
        (none, TITLES.frame([("d", title, "given")])),
        (TITLES.frame([("d", title, "given")]), none),
    ):
        assert list(touched_by(units, before, now)) == [touched]
