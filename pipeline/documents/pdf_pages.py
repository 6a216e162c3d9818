"""Find scans and tables on the pages of a PDF file.

Reading a table costs far more than reading a text, so pypdfium2 first finds out, in almost no time,
where a table may be. Only on such pages, pdfplumber reads tables with ruled lines, and markitdown
those whose columns are merely aligned. The result with more cells is used.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, Literal

from pipeline.documents.markdown import as_table, n_cells, without_padding

_WHOLE_PICTURE, _PART_PICTURE = 0.5, 0.05
"""The share of a page that a picture on a scan covers, with and without a stamp of text."""
_STAMP = 40
"""The number of characters from which on a text is more than a stamp."""
_DRAWN = 50
"""The number of lines and curves above which a page without text has drawn letters."""
_FEWEST_RULES, _MOST_PATHS = 4, 5000
"""The fewest lines or boxes of a table, and the most lines and curves that are examined.

A page with more is a drawing, which would take minutes.
"""
_LONGEST_DEPTH = 5
"""The most levels of nested objects that are searched."""
_LONG = 15
"""The length in points from which on a line may belong to a table."""
# The values of markitdown, in points.
_ROW = 5
"""The height within which texts are in one row."""
_SPACE = 6
"""The widest space between words of one column."""
_COLUMN = 50
"""The least distance between the beginnings of two columns."""
_FEWEST_COLUMNS, _FEWEST_ROWS = 3, 2
"""The fewest columns and rows of a table with aligned columns."""


def is_scan(page: Any, characters: int) -> bool:
    """Return whether the page is a picture, or drawn, with no text on it but perhaps a stamp.

    ``characters`` is the number of characters of the page's text.
    """
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_PATH

    if characters >= _STAMP:
        return False
    covered = 0.0
    n_paths = 0
    kinds = [FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_PATH]
    for item in page.get_objects(filter=kinds, max_depth=_LONGEST_DEPTH):
        if item.type == FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered += (right - left) * (top - bottom)
        else:
            n_paths += 1
    share = covered / max(page.get_width() * page.get_height(), 1)
    if characters:
        return share > _WHOLE_PICTURE
    return share > _PART_PICTURE or n_paths > _DRAWN


Layout = Literal["", "aligned", "ruled"]


def table_layout(page: Any, layer: Any) -> Layout:
    """Return "ruled" if lines or boxes are drawn on the page, or "aligned" if its text has columns.

    Otherwise the result is "": the page has no table. ``layer`` is the text of the page.
    """
    if _is_ruled(page):
        return "ruled"
    return "aligned" if _is_aligned(layer) else ""


def _is_ruled(page: Any) -> bool:
    """Return whether the page has enough long lines for a table, but is no drawing."""
    from pypdfium2.raw import FPDF_PAGEOBJ_PATH

    n_rules = 0
    paths = page.get_objects(filter=[FPDF_PAGEOBJ_PATH], max_depth=_LONGEST_DEPTH)
    for place, path in enumerate(paths):
        if place == _MOST_PATHS:
            return False
        left, bottom, right, top = path.get_bounds()
        if max(right - left, top - bottom) > _LONG:
            n_rules += 1
    return n_rules >= _FEWEST_RULES


def _is_aligned(layer: Any) -> bool:
    """Return whether the text of the page has columns."""
    boxes = map(layer.get_rect, range(layer.count_rects()))
    return _has_columns((bottom, left, right) for left, bottom, right, _ in boxes)


def _has_columns(texts: Iterable[tuple[float, float, float]]) -> bool:
    """Return whether enough rows of texts (bottom, left, right) have enough columns for a table."""
    rows: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for bottom, left, right in texts:
        rows[round(bottom / _ROW)].append((left, right))
    n_wide_rows = 0
    for row in rows.values():
        if _count_columns(row) >= _FEWEST_COLUMNS:
            n_wide_rows += 1
    return n_wide_rows >= _FEWEST_ROWS


def _count_columns(row: list[tuple[float, float]]) -> int:
    """Count the columns in a row of texts, each from left to right."""
    n_columns = 0
    column_start = end = -float("inf")
    for left, right in sorted(row):
        if left - end > _SPACE and left - column_start > _COLUMN:
            n_columns += 1
            column_start = left
        end = max(end, right)
    return n_columns


def with_tables(pdf: Any, place: int, layout: Layout) -> str:
    """Return the text of a page with its tables as Markdown, or "" if they cannot be read.

    ``place`` is the index of the page, from 0. Raises MemoryError.
    """
    try:
        page = _alone(pdf, place)
        ruled, is_all = _ruled(page) if layout == "ruled" else ("", False)
        if is_all:
            return ruled
        return max(ruled, _aligned(page), key=n_cells)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        # Two more libraries raise what they like; without them, the page still has its text.
        return ""


def _alone(pdf: Any, place: int) -> bytes:
    """Return a PDF file with this page only."""
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
    """Return the text of a page with its ruled tables as Markdown, and whether it has all tables.

    It does not have them all if the text between the ruled tables has columns too.
    """
    import pdfplumber

    with pdfplumber.open(BytesIO(content)) as file:
        page = file.pages[0]
        boxes: list[tuple[float, float, float, float]] = []
        # Each part of the page with its distance from the top.
        parts: list[tuple[float, str]] = []
        for table in page.find_tables():
            rows = table.extract()
            if _is_table(rows):
                boxes.append(table.bbox)
                _, top, _, _ = table.bbox
                parts.append((top, f"\n{as_table(rows)}\n"))
        rest = page.filter(lambda item: not any(_is_within(item, box) for box in boxes))
        parts += [(line["top"], line["text"]) for line in rest.extract_text_lines()]
        words = [(word["bottom"], word["x0"], word["x1"]) for word in rest.extract_words()]
    parts.sort()
    has_all_tables = bool(boxes) and not _has_columns(words)
    return "\n".join(text for _, text in parts), has_all_tables


def _is_table(cells: Sequence[Sequence[str | None]]) -> bool:
    """Return whether enough rows have two filled cells; a frame around a text has not."""
    n_rows = 0
    for row in cells:
        n_filled = sum(1 for cell in row if cell)
        if n_filled >= 2:
            n_rows += 1
    return n_rows >= _FEWEST_ROWS


def _is_within(item: Mapping[str, Any], box: tuple[float, float, float, float]) -> bool:
    """Return whether the middle of an item is in the box (left, top, right, bottom)."""
    left, top, right, bottom = box
    across = (item["x0"] + item["x1"]) / 2
    down = (item["top"] + item["bottom"]) / 2
    return left <= across <= right and top <= down <= bottom


def _aligned(content: bytes) -> str:
    """Return the text of a page with its aligned tables as Markdown, or "" if it has none."""
    from markitdown import StreamInfo
    from markitdown.converters import PdfConverter

    text = PdfConverter().convert(BytesIO(content), StreamInfo(extension=".pdf")).markdown
    return without_padding(text) if n_cells(text) else ""
