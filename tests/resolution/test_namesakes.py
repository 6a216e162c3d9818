import random
from collections.abc import Mapping, Sequence

import pandas as pd
import pyarrow as pa
import pytest

from pipeline.contract.schemas import EXTRACTIONS, RELATIONSHIP_RECORDS, TEXT_UNITS
from pipeline.text.ids import entity_id
from pipeline.verbs.merge_graphs import merge_graphs
from pipeline.verbs.merging.namesakes import find_bearers, tell_namesakes
from pipeline.verbs.merging.records import name_records
from pipeline.verbs.merging.tables import ENTITY_RECORDS

BOURBON = "She was a daughter of Charles I, Duke of Bourbon, and Agnes of Burgundy."
SPAIN = "In 1520 Charles I, King of Spain, sailed from Corunna."
BARE = "They fled from Charles I in 1648."


def tables(
    texts: Mapping[str, str],
    names: Sequence[str],
    links: Sequence[tuple[str, str]] = (),
    type: str = "name",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the extractions and text units of ``texts``, which maps "document/number" to texts.

    Each text has a record for every one of the names, and for every link, that occurs in it.
    """
    rows = []
    for unit, text in texts.items():
        found = [name for name in names if name.casefold() in text.casefold()]
        pairs = [pair for pair in links if set(pair) <= set(found)]
        rows += [
            (unit, order, "entity", name, type, "", "", "", [], 1.0, True)
            for order, name in enumerate(found)
        ]
        rows += [
            (unit, 50 + n, "relationship", "", "", *pair, "", [], 1.0, True)
            for n, pair in enumerate(pairs)
        ]
    units = [
        (unit, text, 1, unit.split("/")[0], 0, 1, int(unit.split("/")[1]))
        for unit, text in texts.items()
    ]
    return EXTRACTIONS.frame(rows), TEXT_UNITS.frame(units)


def told_apart(
    extractions: pd.DataFrame, text_units: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the records of entities and relationships with the names of whom they mean."""
    return name_records(
        extractions, text_units, tell_namesakes(*find_bearers(extractions, text_units))
    )


def named(
    texts: Sequence[str] | Mapping[str, str], *names: str, type: str = "name"
) -> dict[str, list[str]]:
    """Map each text unit to the names of its entities; a sequence has one document per text."""
    given = (
        texts
        if isinstance(texts, Mapping)
        else {f"{place}/0": text for place, text in enumerate(texts)}
    )
    told, _ = told_apart(*tables(given, names, type=type))
    return {str(unit): rows["name"].tolist() for unit, rows in told.groupby("text_unit_id")}


def of_all(names: Mapping[str, list[str]]) -> set[str]:
    return {name for of_unit in names.values() for name in of_unit}


def test_kings_of_one_name_are_told_apart_by_epithets():
    assert named([BOURBON, SPAIN, BARE], "Charles I") == {
        "0/0": ["Charles I, Duke of Bourbon"], "1/0": ["Charles I, King of Spain"],
        "2/0": ["Charles I"]
    }  # fmt: skip


def test_a_name_of_one_person_stays_as_it_is():
    again = "Her father, Charles I, Duke of Bourbon, had died."
    assert of_all(named([BOURBON, again, BARE], "Charles I")) == {"Charles I"}


def test_a_bare_name_means_whom_the_rest_of_its_document_means():
    told = named(
        {"a/0": BOURBON, "a/1": BARE, "b/0": SPAIN, "b/1": BOURBON, "b/2": BARE}, "Charles I"
    )
    assert told["a/1"] == ["Charles I, Duke of Bourbon"]
    assert told["b/2"] == ["Charles I"]


def test_a_text_unit_that_means_two_keeps_the_bare_name():
    assert named([BOURBON + " " + SPAIN, SPAIN, BOURBON], "Charles I")["0/0"] == ["Charles I"]


def test_the_fuller_name_of_another_entity_is_used():
    told = named(
        [BOURBON, SPAIN, "Charles I of Spain was crowned in Aachen."],
        "Charles I",
        "Charles I of Spain",
    )
    assert told["1/0"] == ["Charles I of Spain"]


def test_the_shorter_name_means_the_king_whose_fuller_name_the_text_has():
    kings = {
        "0/0": "Charles I of England reigned.",
        "0/1": BARE,
        "1/0": "Charles I of Spain. Charles I sailed.",
    }
    told = named(kings, "Charles I", "Charles I of England", "Charles I of Spain")
    assert told == {
        "0/0": ["Charles I of England", "Charles I of England"],
        "0/1": ["Charles I of England"],
        "1/0": ["Charles I of Spain", "Charles I of Spain"],
    }


@pytest.mark.parametrize(
    ("one", "two", "first", "second"),
    [
        ("John Ellis (1643–1738) was a clerk.", "John Ellis (born 1952) plays.", " (1643–1738)",
            " (born 1952)"),
        (
            "John Ellis( 8 March 1643 – 8 July 1738) was a clerk.",
            "John Ellis (c. 1400 - c. 1460), a baker",
            " (1643–1738)",
            " (1400–1460)",
        ),
        ("John Ellis (died May 1264), a monk", "John Ellis (b. May 5, 1958; York)", " (died 1264)",
            " (born 1958)"),
        ("He met John Ellis, 3rd Earl of Clare.", "She met John Ellis, 4th Earl of Clare.",
         ", 3rd Earl of Clare", ", 4th Earl of Clare"),
        ("He met John Ellis, Count Palatine of Simmern, there.",
            "She met John Ellis, Holy Roman Emperor.",
         ", Count Palatine of Simmern", ", Holy Roman Emperor"),
        ("He met John Ellis the Bald in Rome.", "She met John Ellis the Pious.", " the Bald",
            " the Pious"),
        ("He met John Ellis, Duke of Saxe- Gotha, there.", "She met John Ellis, Duke of Saxony.",
         ", Duke of Saxe-Gotha", ", Duke of Saxony"),
    ],
)  # fmt: skip
def test_years_and_epithets_tell_people_apart(one: str, two: str, first: str, second: str):
    assert named([one, two], "John Ellis") == {
        "0/0": ["John Ellis" + first],
        "1/0": ["John Ellis" + second],
    }
    assert named([one, two], "JOHN ELLIS", type="PERSON") == {
        "0/0": ["JOHN ELLIS" + first], "1/0": ["JOHN ELLIS" + second]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Bayezid II (1447–1512) ruled.", "Bayezid II (1481–1512) ruled."),
        ("Bayezid II (1447–1512) ruled.", "Bayezid II (c. 1448–1513) ruled."),
        ("Bayezid II (1447–1512) ruled.", "Bayezid II, Prince of Amasya, ruled."),
        (
            "He met Bayezid II, Duke of Saxe-Wittenberg.",
            "He met Bayezid II, Duke of Saxe-Wittemberg.",
        ),
        ("He met Bayezid II, Landgrave of Hesse.", "He met Bayezid II, Landgrave of Hesse-Kassel."),
        ("He met Bayezid II, Earl of Clare.", "He met Bayezid II, 3rd Earl of Clare."),
        ("He met Bayezid II, the actor.", "He met Bayezid II, the painter."),
        ("Bayezid II (1981) is a film.", "Bayezid II (2001) is a film."),
        ("Bayezid II (1200–1900) was a dynasty.", "Bayezid II (1300–1950) was a dynasty."),
        ("The Bayezid II (1447–1512) ended.", "Bayezid II Bey (1681–1712) ended."),
    ],
)
def test_people_who_may_be_one_stay_one(one: str, two: str):
    assert of_all(named([one, two], "Bayezid II")) == {"Bayezid II"}


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("Austria", "Maria of Austria (1802–1878)", "Anna of Austria (1601–1666)"),
        (
            "Denmark",
            "Irene of Greece and Denmark (1904–1974)",
            "Anne of Greece and Denmark (born 1996)",
        ),
        ("Iran", "the ruler of western Iran (935–976)", "the ruler of western Iran (1097–1129)"),
        ("Jr.", "Henry Cole Jr. (1884–1950)", "Otto Vale Jr. (1930–2001)"),
        (
            "Durlach",
            "Ernst, Margrave of Baden-Durlach (1482–1553)",
            "Karl, Margrave of Baden-Durlach (1598–1659)",
        ),
        (
            "Duke of Legnica",
            "Wenceslaus, Duke of Legnica (1318–1364)",
            "Rupert was Duke of Legnica (1348–1419)",
        ),
        ("War", "the Eighty Years' War (1568–1648)", "the Seven Years' War (1756–1763)"),
        (
            "Sackville",
            "Mortimer, 1st Baron Sackville (1820–1888)",
            "Charles, 4th Baron Sackville (1870–1962)",
        ),
    ],
)
def test_the_end_of_a_longer_name_is_not_a_name(name: str, one: str, two: str):
    assert of_all(named([one, two], name)) == {name}


def test_entities_that_are_no_people_keep_their_names():
    games = ["Winter Games (1924–1936) were held.", "Winter Games (1948–1998) were held."]
    assert of_all(named(games, "Winter Games", type="EVENT")) == {"Winter Games"}


def test_the_merged_graph_has_each_namesake_with_its_relationships():
    texts = {f"{place}/0": text for place, text in enumerate([BOURBON, SPAIN, BARE])}
    names = ["Charles I", "Agnes of Burgundy", "Corunna"]
    records = tables(texts, names, [("Charles I", "Agnes of Burgundy"), ("Charles I", "Corunna")])
    entities, relationships, mentions, _, rejects = merge_graphs(*records)
    assert set(entities["name"]) == {
        "Charles I", "Charles I, Duke of Bourbon", "Charles I, King of Spain", "Agnes of Burgundy",
        "Corunna"
    }  # fmt: skip
    assert set(zip(relationships["source"], relationships["target"], strict=True)) == {
        ("Charles I, Duke of Bourbon", "Agnes of Burgundy"), ("Charles I, King of Spain", "Corunna")
    }  # fmt: skip
    of = mentions.groupby("entity_id")["text_unit_id"].agg(list)
    assert of[entity_id("Charles I, King of Spain")] == ["1/0"]
    assert rejects.empty


def test_a_link_between_bare_and_fuller_name_is_dropped_without_a_reject():
    texts = {"0/0": BOURBON, "1/0": SPAIN}
    whole = "Charles I, Duke of Bourbon"
    records = tables(texts, ["Charles I", whole], [("Charles I", whole)])
    entities, relationships, _, _, rejects = merge_graphs(*records)
    assert set(entities["name"]) == {whole, "Charles I, King of Spain"}
    assert relationships.empty
    assert rejects.empty


def test_the_order_of_records_and_text_units_does_not_change_the_result():
    texts = {
        "a/0": BOURBON,
        "a/1": BARE,
        "b/0": SPAIN,
        "c/0": "Charles I (1500–1558) abdicated.",
        "c/1": BARE,
    }
    extractions, units = tables(
        texts, ["Charles I", "Agnes of Burgundy"], [("Charles I", "Agnes of Burgundy")]
    )
    told = _encoded(*told_apart(extractions, units))
    for seed in range(5):
        rows = random.Random(seed).sample(range(len(extractions)), len(extractions))
        mixed = told_apart(extractions.iloc[rows], units.sample(frac=1, random_state=seed))
        assert _encoded(*mixed) == told


def _encoded(entities: pd.DataFrame, relationships: pd.DataFrame) -> tuple[pa.Table, pa.Table]:
    return ENTITY_RECORDS.encode(entities, "entities"), RELATIONSHIP_RECORDS.encode(
        relationships, "relationships"
    )
