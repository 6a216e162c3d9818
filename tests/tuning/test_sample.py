from pipeline.tuning.tune import sample
from tests.verbs.graphs import text_units

UNITS = text_units([f"{document}/{order}" for document in "abcd" for order in range(5)])


def test_each_document_in_turn_gives_a_text_to_the_sample():
    assert len({text.split()[-1][0] for text in sample(UNITS, 4)}) == 4
    assert len({text.split()[-1][0] for text in sample(UNITS, 8)}) == 4


def test_the_order_of_the_rows_cannot_be_seen():
    assert sample(UNITS.iloc[::-1], 6) == sample(UNITS, 6)


def test_a_larger_sample_begins_with_the_smaller():
    assert sample(UNITS, 12)[:5] == sample(UNITS, 5)


def test_equal_and_empty_texts_are_read_once_or_not_at_all():
    assert sample(UNITS.assign(text="same"), 5) == ["same"]
    assert sample(UNITS.assign(text="  "), 5) == []
