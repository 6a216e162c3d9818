"""The relationships that add_links reads from the links of texts."""

import pandas as pd

from pipeline.contract.schemas import EXTRACTIONS, TITLES, UNIT_TEXTS
from pipeline.verbs.add_links import add_links

NO_EXTRACTIONS = EXTRACTIONS.frame()
DOCUMENTS = TITLES.frame(
    [
        ("d1", "Plant Dunlin", "file_name", (), "Plant Dunlin.md"),
        ("d2", "Sensor Kite", "heading", ("SK-9",), "kite.md"),
        ("d3", "notes", "first_line", (), "2024-05-03.md"),
    ]
)


def units(**texts: str) -> pd.DataFrame:
    """Return one text unit for each document, with its text."""
    rows = [
        (f"unit-{document}", text, 1, document, 0, len(text), 0) for document, text in texts.items()
    ]
    return UNIT_TEXTS.frame(rows)


def links_of(text_units: pd.DataFrame, extractions: pd.DataFrame = NO_EXTRACTIONS):
    found = add_links(text_units, extractions, DOCUMENTS)
    EXTRACTIONS.encode(found, "linked_extractions")
    columns = ["text_unit_id", "order", "source", "target", "description"]
    relationships = found[found["kind"] == "relationship"]
    return [*relationships[columns].itertuples(index=False, name=None)]


def test_a_link_is_a_relationship_of_the_two_documents_with_its_sentence():
    text = "The plant is old. It uses [[Sensor Kite]] since May."
    assert links_of(units(d1=text)) == [
        ("unit-d1", 0, "Plant Dunlin", "Sensor Kite", "It uses [[Sensor Kite]] since May.")
    ]


def test_other_forms_of_a_link_lead_to_the_same_entity_once():
    text = "See [[SK-9|the sensor]]. Also [kite](docs/kite.md) and [[Sensor Kite]]."
    assert links_of(units(d1=text)) == [
        ("unit-d1", 0, "Plant Dunlin", "Sensor Kite", "See [[SK-9|the sensor]].")
    ]


def test_links_stand_behind_what_the_model_said_of_the_text_unit():
    said = EXTRACTIONS.frame(
        [
            ("unit-d1", 0, "entity", "Ann", "PERSON", "", "", "A person.", [], 1.0, True, None),
            ("unit-d1", 4, "entity", "Bob", "PERSON", "", "", "A person.", [], 1.0, True, None),
        ]
    )
    found = add_links(units(d1="[[Sensor Kite]]"), said, DOCUMENTS)
    assert list(found["order"]) == [0, 4, 5]
    assert list(found["keywords"].iloc[-1]) == ["links to"]
    pd.testing.assert_frame_equal(found.head(2), said)


def test_links_to_the_own_document_to_no_document_and_out_of_the_corpus_are_none():
    text = "[[Plant Dunlin]], [[Nowhere]] and [home](https://example.org/kite.md)"
    assert links_of(units(d1=text)) == []


def test_a_document_whose_title_names_nothing_has_no_links():
    assert links_of(units(d3="[[Sensor Kite]]")) == []


def test_without_links_the_extractions_are_given_back():
    said = EXTRACTIONS.frame(
        [("unit-d1", 0, "entity", "Ann", "PERSON", "", "", "A person.", [], 1.0, True, None)]
    )
    pd.testing.assert_frame_equal(add_links(units(d1="No link."), said, DOCUMENTS), said)
