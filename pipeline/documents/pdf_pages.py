"""What is on a page of a PDF file: a scan, or a table, which costs far more to read than a text
does.

pypdfium2 tells in no time where a table may be. Of such pages alone pdfplumber reads the ruled
tables, and markitdown those whose columns are merely aligned; what has found more cells is taken.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, Literal

from pipeline.documents.markdown import as_table, n_cells, without_padding

_WHOLE_PICTURE, _PART_PICTURE = 0.5, 0.05
"""Of a page: a picture over so much of it with a stamp of text at most is a scan; without any text
less will do."""
_STAMP = 40
_DRAWN = 50
"""Lines and curves on a page without text: letters that are drawn."""
_FEWEST_RULES, _MOST_PATHS = 4, 5000
"""Lines or boxes that may make a table; where there are more it is a drawing, which would take
minutes to look at."""
_LONGEST_DEPTH = 5
_THIN, _LONG = 3, 15
_ROW = 5
_SPACE = 6
_COLUMN = 50
_FEWEST_COLUMNS, _FEWEST_ROWS = 3, 2
"""In points: how far apart what is on one row may be, how wide a space between words is, and how
far columns begin from each other; and from how many columns and rows on it may be a table: as
markitdown has it."""


def is_scan(page: Any, characters: int) -> bool:
    """Whether the page is a picture, or drawn, with no text on it but perhaps a stamp."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_PATH

    if characters >= _STAMP:
        return False
    covered, drawn = 0.0, 0
    for item in page.get_objects(
        filter=[FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_PATH], max_depth=_LONGEST_DEPTH
    ):
        left, bottom, right, top = item.get_bounds()
        covered += (right - left) * (top - bottom) if item.type == FPDF_PAGEOBJ_IMAGE else 0
        drawn += item.type == FPDF_PAGEOBJ_PATH
    share = covered / max(page.get_width() * page.get_height(), 1)
    return share > (_WHOLE_PICTURE if characters else _PART_PICTURE) or (
        not characters and drawn > _DRAWN
    )


Layout = Literal["", "aligned", "ruled"]


def table_layout(page: Any, layer: Any) -> Layout:
    """Whether lines or boxes are drawn on the page, or else what stands on it is aligned in
    columns. ``layer``: its text."""
    if _is_ruled(page):
        return "ruled"
    return "aligned" if _is_aligned(layer) else ""


def _is_ruled(page: Any) -> bool:
    from pypdfium2.raw import FPDF_PAGEOBJ_PATH

    rules = 0
    for place, item in enumerate(
        page.get_objects(filter=[FPDF_PAGEOBJ_PATH], max_depth=_LONGEST_DEPTH)
    ):
        if place == _MOST_PATHS:
            return False
        left, bottom, right, top = item.get_bounds()
        rules += max(right - left, top - bottom) > _LONG
    return rules >= _FEWEST_RULES


def _is_aligned(layer: Any) -> bool:
    boxes = map(layer.get_rect, range(layer.count_rects()))
    return _has_columns((bottom, left, right) for left, bottom, right, _ in boxes)


def _has_columns(pieces: Iterable[tuple[float, float, float]]) -> bool:
    """Whether pieces of text (bottom, left, right) stand in columns."""
    rows: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for bottom, left, right in pieces:
        rows[round(bottom / _ROW)].append((left, right))
    return sum(_columns(row) >= _FEWEST_COLUMNS for row in rows.values()) >= _FEWEST_ROWS


def _columns(row: list[tuple[float, float]]) -> int:
    """How many there are in a row of pieces of text, each from left to right."""
    columns, begun, end = 0, -float("inf"), -float("inf")
    for left, right in sorted(row):
        if left - end > _SPACE and left - begun > _COLUMN:
            columns, begun = columns + 1, left
        end = max(end, right)
    return columns


def with_tables(pdf: Any, place: int, layout: Layout) -> str:
    """A page's text with its tables as Markdown, the page counted from 0; "" where that cannot be
    read."""
    try:
        page = _alone(pdf, place)
        ruled, all_found = _ruled(page) if layout == "ruled" else ("", False)
        return ruled if all_found else max(ruled, _aligned(page), key=n_cells)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  (two more libraries: what they stumble over has a text all the same)
        return ""


def _alone(pdf: Any, place: int) -> bytes:
    """A file of this page."""
    import pypdfium2

    alone = pypdfium2.PdfDocument.new()
    try:
        alone.import_pages(pdf, [place])
        content = BytesIO()
        alone.save(content)
    finally:
        alone.close()
    return content.getvalue()


def _ruled(content: bytes) -> tuple[str, bool]:
    """With lines around the cells of its tables, what stands between the tables line by line; and
    whether nothing of that seems to be a table too."""
    import pdfplumber

    with pdfplumber.open(BytesIO(content)) as file:
        page = file.pages[0]
        found = [(table.bbox, table.extract()) for table in page.find_tables()]
        tables = [(box, rows) for box, rows in found if _is_table(rows)]
        rest = page.filter(lambda item: not any(_within(item, box) for box, _ in tables))
        lines = [(line["top"], line["text"]) for line in rest.extract_text_lines()]
        words = [(word["bottom"], word["x0"], word["x1"]) for word in rest.extract_words()]
    blocks = [(box[1], f"\n{as_table(rows)}\n") for box, rows in tables]
    return "\n".join(text for _, text in sorted([*lines, *blocks])), bool(
        tables
    ) and not _has_columns(words)


def _is_table(cells: Sequence[Sequence[str | None]]) -> bool:
    """And no frame around a text."""
    return sum(sum(bool(cell) for cell in row) >= 2 for row in cells) >= _FEWEST_ROWS


def _within(item: Mapping[str, Any], box: tuple[float, float, float, float]) -> bool:
    across, down = (item["x0"] + item["x1"]) / 2, (item["top"] + item["bottom"]) / 2
    return box[0] <= across <= box[2] and box[1] <= down <= box[3]


def _aligned(content: bytes) -> str:
    from markitdown import StreamInfo
    from markitdown.converters import PdfConverter

    text = PdfConverter().convert(BytesIO(content), StreamInfo(extension=".pdf")).markdown
    return without_padding(text) if n_cells(text) else ""
