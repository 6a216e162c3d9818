"""Check that only a badly quoted row is lost, and that nothing is read that is not in the file."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.records import Fault, Record, _read_rows, read_csv
from tests.sizes import size

HEADER = ["id", "text", "note"]
CELL = st.text(alphabet='ab ,;"\n', max_size=12)
ROWS = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=30)
BAD = ['"he said "no" to it"', '"no" he said', '"said "a, b" twice, or "c"']


def written(rows: Sequence[Sequence[str]], quoting: Literal[0, 1]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows(rows)
    return text.getvalue()


@settings(max_examples=size(75, 300), deadline=None)
@given(
    ROWS,
    st.integers(0, 29),
    st.sampled_from(BAD),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_only_the_bad_row_is_lost(
    cells: list[tuple[str, str]], place: int, bad: str, quoting: Literal[0, 1]
):
    rows = [(str(number), *row) for number, row in enumerate(cells)]
    place %= len(rows)
    lines = [written([row], quoting) for row in rows]
    lines[place] = f"{place},{bad},x\n"
    items = list(read_csv(written([HEADER], quoting) + "".join(lines), "text"))
    there = [{name: cell for name, cell in zip(HEADER, row, strict=True) if cell} for row in rows]
    del there[place]
    assert [item.fields for item in items if isinstance(item, Record)] == there
    assert [item.line is not None for item in items if isinstance(item, Fault)][:1] == [True]


def test_a_last_row_that_is_cut_off_is_a_fault():
    text = "id,title,text\n1,One,First.\n2,Two,Second.\n"
    for end in range(text.index("\n2,") + 2, text.rindex(",") + 1):
        first, last = read_csv(text[:end], "text")
        assert isinstance(first, Record)
        assert isinstance(last, Fault)
        assert (last.reason, last.line) == ("parse", 3)
    assert [isinstance(item, Record) for item in read_csv(text.rstrip(), "text")] == [True, True]
    assert [
        isinstance(item, Record) for item in read_csv("id,text,note\n1,a,b\n2,c\n", "text")
    ] == [True, True]


class Counted(list[str]):
    """A list of lines that counts how often one is read."""

    read = 0

    def __getitem__(self, place: Any) -> Any:
        self.read += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("line", ["\n", 'a","\n', '"a\n', "x\n"])
def test_each_line_of_a_text_that_only_looks_like_csv_is_read_a_few_times(line: str):
    lines = Counted(["id,text,b\n", '1,b,"a"c\n', *[line] * 20_000])
    faults = list(_read_rows(lines, "text", ""))
    assert [fault.line for fault in faults if isinstance(fault, Fault)] == [2, None]
    assert lines.read < 60 * len(lines)


def test_rows_after_many_blank_lines_are_found():
    text = 'id,text\n1,"bad"x\n' + "\n" * 2000 + "2,two\n"
    found = list(read_csv(text, "text"))
    assert [record.fields for record in found if isinstance(record, Record)] == [
        {"id": "2", "text": "two"}
    ]
