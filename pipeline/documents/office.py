"""Convert DOCX, PPTX, XLSX, EPUB and HTML files to Markdown and read the titles they declare.

XLSX is read by openpyxl, the others by markitdown. None of the parsers resolves references of an
XML file to other files. defusedxml (EPUB, and the XML read here) refuses entities; lxml (PPTX,
XLSX) and expat (DOCX) refuse those that grow without measure. None of them limits the size of
unpacked files or the time: the process that converts a file does.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element

from pipeline.contract.conversion import Conversion
from pipeline.documents.dates import date_of_property
from pipeline.documents.markdown import as_table
from pipeline.documents.titles import declared
from pipeline.errors import in_words
from pipeline.text.ids import clean

SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".epub", ".html", ".htm"})
_OFFICE = frozenset({".docx", ".pptx", ".xlsx"})
_TITLE_IS_A_HEADING = "p[style-name='Title'] => h1:fresh"
_SLIDE = re.compile(r"<!-- Slide number: \d+ -->\n?")
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_DATES = ("{http://purl.org/dc/terms/}modified", "{http://purl.org/dc/terms/}created")
"""The elements of the properties that have a date, the best first: a file that began as a copy of
another one has the other's date of creation."""
_PROPERTIES = "docProps/core.xml"
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SAID_OF_BOOK = re.compile(
    r"\*\*(?P<key>Title|Authors|Language|Publisher|Date|Description|Identifier):\*\* "
    r"(?P<value>.*)(?:(?P<last>\n\n+)|\n|\Z)"
)
"""A line of the description that markitdown puts above the text of an EPUB file."""
_BETWEEN = "\n\n"
_MOST_ROWS = 2**20
"""The number of rows that a sheet may have in Excel."""
_WIDE = 1000
"""The number of columns above which those without any value are left out."""
_OPENING = 200
"""The number of paragraphs in which the title is searched."""


def office_converter(suffix: str) -> str:
    """Return name and version of the library that reads files of this suffix.

    Raises PackageNotFoundError without the extra.
    """
    name = "openpyxl" if suffix == ".xlsx" else "markitdown"
    return f"{name} {version(name)}"


def convert_office(path: Path) -> Conversion:
    """Convert a file; of PPTX, the pages are the positions at which slides begin.

    Raises ImportError without the extra, and whatever its libraries raise for a damaged file.
    """
    suffix = path.suffix.lower()
    if suffix in _OFFICE:
        _refuse_protected(path)
    metadata: dict[str, str] = {}
    pages: tuple[int, ...] = ()
    titles: Iterable[str]
    if suffix == ".xlsx":
        text = _sheets(path)
        titles = _office_titles(path)
    else:
        found = _markitdown().convert_local(str(path), style_map=_TITLE_IS_A_HEADING)
        if suffix == ".pptx":
            text, pages = _slides(found.text_content)
        else:
            text = clean(found.text_content)
        if suffix == ".epub":
            text, metadata = _split_description(text)
        titles = _office_titles(path) if suffix in _OFFICE else [found.title or ""]
    title = next(filter(None, (declared(title, path.stem) for title in titles)), "")
    date = _office_date(path) if suffix in _OFFICE else ""
    return Conversion(text, office_converter(suffix), title, pages, metadata, (), date)


def _refuse_protected(path: Path) -> None:
    """Raise ValueError if the file needs a password, or is of a kind before that of its suffix.

    Both are compound files, which no converter of these suffixes reads.
    """
    from olefile import OleFileIO, isOleFile

    if not isOleFile(str(path)):
        return
    with OleFileIO(str(path)) as file:
        if file.exists("EncryptedPackage"):
            raise ValueError("protected by a password; save it without one")
    raise ValueError(f"of an Office before 2007; save it anew as {path.suffix.lower()}")


def convert_html(page: BinaryIO) -> str:
    """Convert a page in HTML, encoded as UTF-8; raises ImportError without the extra."""
    from markitdown import StreamInfo

    kind = StreamInfo(extension=".html", charset="utf-8")
    return clean(_markitdown().convert_stream(page, stream_info=kind).text_content)


def _split_description(text: str) -> tuple[str, dict[str, str]]:
    """Return the text of a book and the fields of the description above it, without the title."""
    metadata: dict[str, str] = {}
    place = 0
    line = _SAID_OF_BOOK.match(text)
    while line:
        metadata[line["key"].lower()] = line["value"]
        place = line.end()
        if line["last"]:
            break
        line = _SAID_OF_BOOK.match(text, place)
    metadata.pop("title", None)
    return text[place:], metadata


def _sheets(path: Path) -> str:
    """Return a table for each sheet under the sheet's name.

    Formulas have the values that were saved with the file.
    """
    from openpyxl import load_workbook

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except ValueError as error:
        # The message of openpyxl names the file, and the cause has the fault.
        raise ValueError(in_words(error.__cause__ or error)) from error
    tables: list[tuple[str, list[list[str]]]] = []
    try:
        for sheet in book.worksheets:
            # The range that a sheet declares may be far larger than what it has, and each of its
            # cells would be made. It may also be too small.
            sheet.reset_dimensions()
            rows = list(_filled_rows(sheet.iter_rows(values_only=True)))
            tables.append((sheet.title, _narrow(rows)))
    finally:
        book.close()
    return "\n\n".join(f"## {title}\n\n{as_table(rows)}" for title, rows in tables if rows)


def _narrow(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows; those of a very wide sheet without the columns that have no value.

    A single cell at the far right would add thousands of empty cells to each row of the table.
    """
    if max(map(len, rows), default=0) <= _WIDE:
        return rows
    columns: set[int] = set()
    for row in rows:
        columns.update(column for column, text in enumerate(row) if text)
    filled = sorted(columns)
    return [[row[column] for column in filled if column < len(row)] for row in rows]


def _filled_rows(rows: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
    """Yield the rows that are not empty, without the empty cells at their end.

    Raises ValueError for more rows than a sheet may have: a few cells can claim to be of billions.
    """
    for number, row in enumerate(rows, start=1):
        if number > _MOST_ROWS:
            raise ValueError(f"a sheet has rows beyond {_MOST_ROWS:,}, the last one in Excel")
        cells = list(map(_cell_text, row))
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield cells


def _cell_text(value: Any) -> str:
    """Return the value of a cell as text: dates in ISO form, whole numbers without a point."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else clean(str(value))


def _slides(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text without the marks between slides, and the positions where slides begin."""
    slides = [clean(slide).strip() for slide in _SLIDE.split(text)[1:]]
    pages: list[int] = []
    place = 0
    for slide in slides:
        pages.append(place)
        place += len(slide) + len(_BETWEEN)
    return _BETWEEN.join(slides), tuple(pages)


def _office_titles(path: Path) -> Iterator[str]:
    """Yield the titles that an Office file declares, the best first; some may be empty.

    In DOCX, a paragraph of the style Title comes first, then the property of the file.
    """
    with zipfile.ZipFile(path) as file:
        names = set(file.namelist())
        if {"word/document.xml", "word/styles.xml"} <= names:
            yield _titled_paragraph(file)
        if _PROPERTIES in names:
            yield _text_of_first(file, _PROPERTIES, _TITLE)


def _office_date(path: Path) -> str:
    """Return the date on which an Office file was last changed, or made, or "" if it says none."""
    with zipfile.ZipFile(path) as file:
        if _PROPERTIES not in file.namelist():
            return ""
        dates = [_text_of_first(file, _PROPERTIES, tag) for tag in _DATES]
    return next((date for date in dates if date_of_property(date)), "")


def _text_of_first(file: zipfile.ZipFile, name: str, tag: str) -> str:
    """Return the text of the first element with this tag in an XML file of the archive, or ""."""
    for element in _elements(file, name):
        if element.tag == tag:
            return clean(element.text or "")
    return ""


def _titled_paragraph(file: zipfile.ZipFile) -> str:
    """Return the text of the first paragraph of the style Title, or "".

    The style has this name in the file whatever language shows it.
    """
    styles: set[str | None] = set()
    for element in _elements(file, "word/styles.xml"):
        is_style = element.tag == f"{_WORD}style"
        if is_style and _value(element, "name").casefold() == "title":
            styles.add(element.get(f"{_WORD}styleId"))
    elements = _elements(file, "word/document.xml")
    paragraphs = (element for element in elements if element.tag == f"{_WORD}p")
    for paragraph in islice(paragraphs, _OPENING):
        if _value(paragraph, f"pPr/{_WORD}pStyle") in styles:
            return "".join(text.text or "" for text in paragraph.iter(f"{_WORD}t"))
    return ""


def _value(element: Element, name: str) -> str:
    """Return the attribute "val" of the child ``name``, or "" if there is none."""
    found = element.find(f"{_WORD}{name}")
    return "" if found is None else found.get(f"{_WORD}val", "")


def _elements(file: zipfile.ZipFile, name: str) -> Iterator[Element]:
    """Yield the elements of an XML file of the archive in the order of their ends."""
    from defusedxml.ElementTree import iterparse

    with file.open(name) as stream:
        yield from (element for _, element in iterparse(stream))


@cache
def _markitdown() -> Any:
    from markitdown import MarkItDown
    from markitdown.converters import DocxConverter, EpubConverter, HtmlConverter, PptxConverter

    # One of the built-in converters would read a damaged file as plain text.
    reader = MarkItDown(enable_builtins=False)
    for kind in (DocxConverter, PptxConverter, HtmlConverter, EpubConverter):
        reader.register_converter(kind())
    return reader
