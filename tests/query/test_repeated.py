"""Facts that only repeat a passage."""

import pytest

from pipeline.query.repeated import drop_repeated_facts
from pipeline.stores.records import Passage, Relationship

PASSAGES = ("Ada  built the\nengine in 1843. She lived\nin London.", "It ran for two years there.")


def kept(description: str) -> bool:
    passages = [Passage(text[:3], "d", "d", "D", 0, 1, 1, text, None, 0.0) for text in PASSAGES]
    link = Relationship("r", "A", "B", "a", "b", description, [], 1.0, 2, [])
    return bool(drop_repeated_facts([link], passages))


@pytest.mark.parametrize(
    "description",
    [
        "Ada built the engine in 1843.",
        "  Ada built the  engine in 1843.\n\nIt ran for two years there.",
        "She lived in London. Ada built the engine in 1843.",
    ],
)
def test_a_fact_whose_sentences_all_stand_in_passages_is_dropped(description: str):
    assert not kept(description)


@pytest.mark.parametrize(
    "description",
    [
        "",
        "in London.",  # too short to be a repetition
        "Ada built the engine in 1844.",
        "Ada built the engine in 1843. Nobody believed it.",
        "She lived in London. It ran for two years there, she said.",
        "She lived in London. It ran",
        "in London. It ran for two years there.",  # "in London." alone is too short
    ],
)
def test_a_fact_with_a_sentence_of_its_own_or_a_short_one_stays(description: str):
    assert kept(description)
