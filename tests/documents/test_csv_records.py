"""A row that is quoted badly is lost alone, and nothing is read that is not in the file."""

import csv
import io
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.csv_records import read_csv
from pipeline.documents.records import Fault, Record

HEADER = ["id", "text", "note"]
CELL = st.text(alphabet='ab ,;"\n', max_size=12)
ROWS = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=30)
BAD = ['"he said "no" to it"', '"no" he said', '"said "a, b" twice, or "c"']


def written(rows: Sequence[Sequence[str]], quoting: int) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows(rows)
    return text.getvalue()


@settings(max_examples=300, deadline=None)
@given(ROWS, st.integers(0, 29), st.sampled_from(BAD), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_bad_row_is_lost_alone(cells: list[tuple[str, str]], place: int, bad: str, quoting: int):
    rows = [(str(number), *row) for number, row in enumerate(cells)]
    place %= len(rows)
    lines = [written([row], quoting) for row in rows]
    lines[place] = f"{place},{bad},x\n"
    items = list(read_csv(written([HEADER], quoting) + "".join(lines), "text"))
    there = [{name: cell for name, cell in zip(HEADER, row, strict=True) if cell} for row in rows]
    del there[place]
    assert [item.fields for item in items if isinstance(item, Record)] == there
    assert [item.line is not None for item in items if isinstance(item, Fault)][:1] == [True]
