"""Convert PDF files to text, with their tables as Markdown."""

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.contract.conversion import Conversion, PartFault
from pipeline.documents.ocr import ocr_version, read_picture
from pipeline.documents.pdf_pages import is_scan, table_layout, with_tables
from pipeline.documents.titles import declared
from pipeline.errors import install_extra
from pipeline.text.ids import clean

NO_TEXT = "no_text_layer"
_BETWEEN = "\n\n"
_HYPHEN = re.compile("[\x02\ufffe](?:\r?\n)?(?P<capital>[A-Z])?")
"""The sign of pdfium for a hyphen at the end of a line, and the capital that follows, if any.

A capital begins a second name, so the hyphen stays; otherwise half a word follows.
"""
_DOTS, _MOST_DOTS = 200 / 72, 2400
"""The scale of a page for OCR (200 dots an inch), and the most dots along a side of its picture."""


@dataclass
class _Pages:
    """The texts of the pages read so far, and the faults of pages without text."""

    texts: list[str] = field(default_factory=list)
    faults: list[PartFault] = field(default_factory=list)
    seen: bool = False
    """True if a page was read by OCR."""


def pdf_converter(ocr: bool = True) -> str:
    """Return names and versions of the libraries that read PDF files, with OCR or without.

    Raises PackageNotFoundError without the extra for documents.
    """
    names = [f"pypdfium2 {version('pypdfium2')}", ocr_version() if ocr else ""]
    return ", ".join(filter(None, names))


def convert_pdf(path: Path) -> Conversion:
    """Convert a file page by page.

    A page that is only a picture is read by OCR if its extra is installed; otherwise it is a fault.
    The text is empty if all pages are faults. Raises ImportError without the extra, and OSError or
    PdfiumError if the file cannot be read.
    """
    import pypdfium2

    with path.open("rb") as stream:
        pdf = pypdfium2.PdfDocument(stream)
        try:
            found = _read_pages(pdf)
            title = declared(pdf.get_metadata_value("Title"), path.stem)
            date = clean(pdf.get_metadata_value("CreationDate"))
        finally:
            pdf.close()
    starts = accumulate((len(text) + len(_BETWEEN) for text in found.texts[:-1]), initial=0)
    text = _BETWEEN.join(found.texts)
    pages = tuple(starts) if text.strip() else ()
    converter, faults = pdf_converter(ocr=found.seen), tuple(found.faults)
    return Conversion(text, converter, title, pages, {}, faults, date)


def _read_pages(pdf: Any) -> _Pages:
    found = _Pages()
    for place in range(len(pdf)):
        page = pdf[place]
        try:
            _add_page(found, pdf, page, place)
        finally:
            page.close()
    return found


def _add_page(found: _Pages, pdf: Any, page: Any, place: int) -> None:
    """Read the page with the index ``place`` and add its text, and its fault if it has one."""
    layer = page.get_textpage()
    try:
        text = clean(_HYPHEN.sub(_replace_hyphen, layer.get_text_range())).strip()
        if is_scan(page, len(text)):
            text_of_picture = read_picture(_picture(page)) if ocr_version() else ""
            if text_of_picture:
                text = clean(text_of_picture) or text
                found.seen = True
            else:
                found.faults.append(_fault_without_text(place + 1))
        elif text:
            layout = table_layout(page, layer)
            if layout:
                text = clean(with_tables(pdf, place, layout)).strip() or text
    finally:
        layer.close()
    found.texts.append(text)


def _picture(page: Any) -> np.ndarray:
    """Return the page as a picture for OCR."""
    scale = min(_DOTS, _MOST_DOTS / max(page.get_size()))
    return page.render(scale=scale).to_numpy()


def _replace_hyphen(hyphen: re.Match[str]) -> str:
    return f"-{hyphen['capital']}" if hyphen["capital"] else ""


def _fault_without_text(page: int) -> PartFault:
    """Return the fault of a page (from 1) that is a picture whose text could not be read."""
    if ocr_version():
        reason = "the picture on it has none that can be read"
    else:
        reason = f"{install_extra('ocr')} to read it"
    message = f"page {page} is a picture without a text layer; {reason}"
    return PartFault(NO_TEXT, message, page)
