"""Make PDF files with tables of many kinds, together with the rows of these."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fpdf import FPDF
from fpdf.enums import TableBordersLayout

Rows = list[list[str]]
PROSE = (
    "The harbour board met in the long room above the customs house and heard what the engineer had"
    " to say of the lamp, of the oil it burned, and of the men who had kept it through the winter. "
)


@dataclass(frozen=True)
class TablePdf:
    name: str
    content: bytes
    rows: Rows


def table_pdfs() -> Iterator[TablePdf]:
    yield _pdf("ruled", _ruled, [_grid(6, 4)])
    yield _pdf("ruled_in_prose", _in_prose(_ruled), [_grid(5, 3)])
    yield _pdf("aligned", _aligned, [_grid(8, 4)])
    yield _pdf("aligned_in_prose", _in_prose(_aligned), [_grid(8, 5)])
    yield _pdf("rules_between_rows", _booktabs, [_grid(7, 4)])
    yield _pdf("two_tables", _ruled, [_grid(4, 3), _grid(5, 5, "B")])
    yield _pdf("over_two_pages", _ruled, [_grid(45, 4)])
    yield _pdf("numbers_to_the_right", _to_the_right, [_numbers()])
    yield _pdf(
        "empty_cells",
        _ruled,
        [[["Item", "North", "South"], ["Oil", "", "40"], ["Wick", "12", ""], ["Glass", "3", "9"]]],
    )
    yield _pdf("cells_of_two_lines", _ruled, [_long_cells()])


def _pdf(name: str, draw: Callable[[FPDF, Rows], None], tables: list[Rows]) -> TablePdf:
    pdf = FPDF()
    pdf.set_font("helvetica", size=10)
    pdf.add_page()
    for rows in tables:
        draw(pdf, rows)
        pdf.ln(8)
    return TablePdf(name, bytes(pdf.output()), [row for rows in tables for row in rows])


def _grid(rows: int, columns: int, mark: str = "") -> Rows:
    header = [f"Column {mark}{place}" for place in range(columns)]
    return [
        header,
        *([f"Keeper {mark}{row}-{place}" for place in range(columns)] for row in range(rows - 1)),
    ]


def _numbers() -> Rows:
    years = [str(1870 + place) for place in range(5)]
    accounts = (
        [f"Account {row}", *(f"{row * 1357 + place * 24:,}.00" for place in range(5))]
        for row in range(1, 8)
    )
    return [["Account", *years], *accounts]


def _long_cells() -> Rows:
    return [
        ["Lamp", "Keeper", "What became of it"],
        ["Skarrow", "Ada Holm",
            "It was lit in 1871 and burned until the storm took the boat that carried the oil"],
        ["Tessing", "Otto Vale",
            "Nobody knows who put it out, nor why the board did not ask for nine years"],
    ]  # fmt: skip


def _ruled(pdf: FPDF, rows: Rows) -> None:
    with pdf.table(borders_layout=TableBordersLayout.ALL) as table:
        for cells in rows:
            row = table.row()
            for cell in cells:
                row.cell(cell)


def _booktabs(pdf: FPDF, rows: Rows) -> None:
    with pdf.table(borders_layout=TableBordersLayout.HORIZONTAL_LINES) as table:
        for cells in rows:
            row = table.row()
            for cell in cells:
                row.cell(cell)


def _aligned(pdf: FPDF, rows: Rows) -> None:
    for cells in rows:
        for place, cell in enumerate(cells):
            pdf.set_x(10 + place * 190 / len(cells))
            pdf.cell(190 / len(cells), 6, cell)
        pdf.ln(6)


def _to_the_right(pdf: FPDF, rows: Rows) -> None:
    for cells in rows:
        for place, cell in enumerate(cells):
            pdf.set_x(10 + place * 190 / len(cells))
            pdf.cell(190 / len(cells), 6, cell, align="R" if place else "L")
        pdf.ln(6)


def _in_prose(draw: Callable[[FPDF, Rows], None]) -> Callable[[FPDF, Rows], None]:
    def drawn(pdf: FPDF, rows: Rows) -> None:
        pdf.multi_cell(0, 6, PROSE * 2)
        pdf.ln(4)
        draw(pdf, rows)
        pdf.ln(4)
        pdf.multi_cell(0, 6, PROSE * 2)

    return drawn
