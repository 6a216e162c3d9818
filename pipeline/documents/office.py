"""DOCX, PPTX, XLSX, EPUB and HTML files as Markdown, and the titles they declare: by markitdown,
XLSX by openpyxl.

None of the parsers below resolves what an XML file names outside of itself. defusedxml (EPUB, and
what is read here) refuses entities, lxml (PPTX, XLSX) and expat (DOCX) refuse those that grow
without measure. None of them limits how far a packed file unpacks, nor how long that takes: who
converts a file does.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.contract.conversion import Conversion
from pipeline.documents.markdown import as_table
from pipeline.documents.titles import declared
from pipeline.text.ids import clean

SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".epub", ".html", ".htm"})
_TITLE_IS_A_HEADING = "p[style-name='Title'] => h1:fresh"
_SLIDE = re.compile(r"<!-- Slide number: \d+ -->\n?")
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SAID_OF_BOOK = re.compile(
    r"\*\*(?P<key>Title|Authors|Language|Publisher|Date|Description|Identifier):\*\* "
    r"(?P<value>.*)(?:(?P<last>\n\n+)|\n|\Z)"
)
"""A line of those that markitdown puts above the text of an EPUB file."""
_OPENING = 200
"""Paragraphs among which the title is sought."""


def office_converter(suffix: str) -> str:
    """Name and version of what reads files of this suffix. Raises PackageNotFoundError without the
    extra."""
    name = "openpyxl" if suffix == ".xlsx" else "markitdown"
    return f"{name} {version(name)}"


def convert_office(path: Path) -> Conversion:
    """The text, and of PPTX where each slide begins. Raises ImportError without the extra, and
    whatever its libraries raise for a damaged file."""
    suffix = path.suffix.lower()
    metadata: dict[str, str] = {}
    if suffix == ".xlsx":
        text, pages, titles = _sheets(path), (), _office_titles(path)
    else:
        found = _markitdown().convert_local(str(path), style_map=_TITLE_IS_A_HEADING)
        text, pages = (
            _slides(found.text_content) if suffix == ".pptx" else (clean(found.text_content), ())
        )
        if suffix == ".epub":
            text, metadata = _book(text)
        titles = _office_titles(path) if suffix in (".docx", ".pptx") else iter([found.title or ""])
    title = next(filter(None, (declared(title, path.stem) for title in titles)), "")
    return Conversion(text, office_converter(suffix), title, pages, metadata)


def _book(text: str) -> tuple[str, dict[str, str]]:
    """The text, and what the book says of itself but its title."""
    metadata: dict[str, str] = {}
    place = 0
    while line := _SAID_OF_BOOK.match(text, place):
        metadata[line["key"].lower()] = line["value"]
        place = line.end()
        if line["last"]:
            break
    metadata.pop("title", None)
    return text[place:], metadata


def _sheets(path: Path) -> str:
    """A table a sheet, under the sheet's name; formulas as what they came to when the file was
    saved."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        tables = [
            (sheet.title, list(_filled(sheet.iter_rows(values_only=True))))
            for sheet in book.worksheets
        ]
    finally:
        book.close()
    return "\n\n".join(f"## {title}\n\n{as_table(rows)}" for title, rows in tables if rows)


def _filled(rows: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
    """Those that say something, without empty cells at their end."""
    for row in rows:
        cells = list(map(_cell, row))
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield cells


def _cell(value: Any) -> str:
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else clean(str(value))


def _slides(text: str) -> tuple[str, tuple[int, ...]]:
    """The text without the marks between slides, and where in it each begins."""
    parts = [clean(part).strip() for part in _SLIDE.split(text)[1:]]
    pages, place = [], 0
    for part in parts:
        pages.append(place)
        place += len(part) + 2
    return "\n\n".join(parts), tuple(pages)


def _office_titles(path: Path) -> Iterator[str]:
    """What a file of Office may call itself, the best first: of DOCX what stands in its text, then
    the property."""
    with zipfile.ZipFile(path) as file:
        names = set(file.namelist())
        if {"word/document.xml", "word/styles.xml"} <= names:
            yield _titled_paragraph(file)
        if "docProps/core.xml" in names:
            yield next(
                (
                    found.text or ""
                    for found in _elements(file, "docProps/core.xml")
                    if found.tag == _TITLE
                ),
                "",
            )


def _titled_paragraph(file: zipfile.ZipFile) -> str:
    """The first paragraph of the style Title, which is called so whatever language it is shown
    in."""
    kinds = (found for found in _elements(file, "word/styles.xml") if found.tag == f"{_WORD}style")
    styles = {
        kind.get(f"{_WORD}styleId") for kind in kinds if _value(kind, "name").casefold() == "title"
    }
    paragraphs = (
        found for found in _elements(file, "word/document.xml") if found.tag == f"{_WORD}p"
    )
    titles = (
        found
        for found in islice(paragraphs, _OPENING)
        if _value(found, f"pPr/{_WORD}pStyle") in styles
    )
    return next(
        ("".join(text.text or "" for text in title.iter(f"{_WORD}t")) for title in titles), ""
    )


def _value(element: Element, name: str) -> str:
    found = element.find(f"{_WORD}{name}")
    return "" if found is None else found.get(f"{_WORD}val", "")


def _elements(file: zipfile.ZipFile, name: str) -> Iterator[Element]:
    from defusedxml.ElementTree import iterparse

    with file.open(name) as stream:
        yield from (element for _, element in iterparse(stream))


@cache
def _markitdown() -> Any:
    from markitdown import MarkItDown
    from markitdown.converters import DocxConverter, EpubConverter, HtmlConverter, PptxConverter

    reader = MarkItDown(enable_builtins=False)  # a built-in one reads a damaged file as plain text
    for kind in (DocxConverter, PptxConverter, HtmlConverter, EpubConverter):
        reader.register_converter(kind())
    return reader
