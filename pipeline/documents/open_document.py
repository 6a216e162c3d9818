"""Convert an OpenDocument text (ODT) to Markdown and read the title and date it declares."""

import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from pipeline.contract.conversion import Conversion
from pipeline.documents.dates import date_of_property
from pipeline.documents.markdown import as_table
from pipeline.documents.titles import declared
from pipeline.text.ids import clean

SUFFIX = ".odt"
_FORM = 1
"""Raise this number when the same file gives another text."""
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_CORE = "{http://purl.org/dc/elements/1.1/}"
_NOT_TEXT = frozenset({f"{_TEXT}note-citation", f"{_TEXT}tracked-changes", f"{_OFFICE}annotation"})
"""Elements within the text that are no part of it: numbers of notes, deletions, comments."""
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")
_MOST_REPEATS = 1000
"""A cell or a blank may say how often it is repeated; sheets fill their width with it."""


def open_document_converter() -> str:
    """Return the name and version of this converter and of the parser.

    Raises PackageNotFoundError without the extra.
    """
    return f"odt {_FORM}, defusedxml {version('defusedxml')}"


def convert_open_document(path: Path) -> Conversion:
    """Convert a text document: headings, paragraphs, lists and tables.

    Raises ImportError without the extra, and what zipfile and the parser raise for a damaged file.
    """
    with zipfile.ZipFile(path) as file:
        content = _root_of(file, "content.xml")
        properties = _root_of(file, "meta.xml") if "meta.xml" in file.namelist() else None
    body = content.find(f"{_OFFICE}body/{_OFFICE}text")
    if body is None:
        raise ValueError("no text document: content.xml has no office:text")
    text = clean("\n\n".join(filter(None, _blocks(body))))
    title = declared(_property(properties, f"{_CORE}title"), path.stem)
    date = _property(properties, f"{_CORE}date")
    if not date_of_property(date):
        date = ""
    return Conversion(text, open_document_converter(), title, (), {}, (), date)


def _root_of(file: zipfile.ZipFile, name: str) -> Element:
    from defusedxml.ElementTree import parse

    with file.open(name) as stream:
        root: Any = parse(stream).getroot()
    return root


def _property(properties: Element | None, tag: str) -> str:
    found = None if properties is None else properties.find(f".//{tag}")
    return "" if found is None else clean(found.text or "")


def _blocks(parent: Element) -> Iterator[str]:
    """Yield the blocks of Markdown below an element, in the order of the document."""
    for element in parent:
        if element.tag == f"{_TEXT}h":
            level = min(int(element.get(f"{_TEXT}outline-level", "1")), 6)
            yield f"{'#' * level} {_inline(element)}"
        elif element.tag == f"{_TEXT}p":
            yield _inline(element)
        elif element.tag == f"{_TEXT}list":
            yield "\n".join(_list_lines(element, 0))
        elif element.tag == f"{_TABLE}table":
            rows = [_cells(row) for row in element.iter(f"{_TABLE}table-row")]
            filled = [row for row in rows if any(row)]
            yield as_table(filled) if filled else ""
        elif element.tag not in _NOT_TEXT:
            # A section, or another element that only groups.
            yield from _blocks(element)


def _list_lines(element: Element, depth: int) -> Iterator[str]:
    """Yield a line for each item; lists within an item are indented."""
    for item in element:
        for part in item:
            if part.tag == f"{_TEXT}list":
                yield from _list_lines(part, depth + 1)
            else:
                yield f"{'  ' * depth}- {_inline(part)}"


def _cells(row: Element) -> list[str]:
    """Return the cells of a row, without the empty ones at its end."""
    cells: list[str] = []
    for cell in row:
        text = " ".join(filter(None, _blocks(cell)))
        repeats = _number(cell, f"{_TABLE}number-columns-repeated")
        cells += [text] * repeats
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _inline(element: Element) -> str:
    """Return the text of a paragraph, its notes in parentheses."""
    return "".join(_inline_parts(element)).strip()


def _inline_parts(element: Element) -> Iterator[str]:
    """Yield the texts of an element and of all elements within it, in their order."""
    yield _one_line(element.text)
    for child in element:
        if child.tag == f"{_TEXT}s":
            yield " " * _number(child, f"{_TEXT}c")
        elif child.tag == f"{_TEXT}tab":
            yield "\t"
        elif child.tag == f"{_TEXT}line-break":
            yield "\n"
        elif child.tag == f"{_TEXT}note-body":
            yield f" ({' '.join(filter(None, _blocks(child)))})"
        elif child.tag not in _NOT_TEXT:
            yield from _inline_parts(child)
        yield _one_line(child.tail)


def _one_line(text: str | None) -> str:
    """Return the text with each run of white space as one blank, which it stands for in ODF."""
    return _WHITE_SPACE.sub(" ", text or "")


def _number(element: Element, name: str) -> int:
    """Return a count that an attribute has, 1 without it, within `_MOST_REPEATS`."""
    return min(int(element.get(name, "1")), _MOST_REPEATS)
