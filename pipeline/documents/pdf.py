"""PDF files as text, and tables in it as Markdown."""

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.contract.conversion import Conversion, PageFault
from pipeline.documents.ocr import ocr_version, read_picture
from pipeline.documents.pdf_pages import is_scan, table_layout, with_tables
from pipeline.documents.titles import declared
from pipeline.errors import install_extra
from pipeline.text.ids import clean

NO_TEXT = "no_text_layer"
_BETWEEN = "\n\n"
_HYPHEN = re.compile("[\x02\ufffe](?:\r?\n)?(?P<capital>[A-Z])?")
"""What pdfium puts where a line ends in a hyphen, and what follows: in a capital a second name,
else half a word."""
_DOTS, _MOST_DOTS = 200 / 72, 2400
"""How much a page is enlarged to be read, 200 dots an inch, and how long its picture may be."""


@dataclass
class _Pages:
    texts: list[str] = field(default_factory=list)
    faults: list[PageFault] = field(default_factory=list)
    seen: bool = False
    """Whether a page was read by OCR."""


def pdf_converter(ocr: bool = True) -> str:
    """Names and versions of what reads PDF files at present, with or without scans. Raises
    PackageNotFoundError without the extra."""
    return ", ".join(
        filter(None, [f"pypdfium2 {version('pypdfium2')}", ocr_version() if ocr else ""])
    )


def convert_pdf(path: Path) -> Conversion:
    """The text page by page. A page that is a picture alone is read by OCR where the extra is
    installed, else it is a fault; a file of nothing else has no text. Raises ImportError without
    the extra, OSError and PdfiumError where the file cannot be read."""
    import pypdfium2

    with path.open("rb") as stream:
        pdf = pypdfium2.PdfDocument(stream)
        try:
            found = _read(pdf)
            title = declared(pdf.get_metadata_value("Title"), path.stem)
        finally:
            pdf.close()
    starts = accumulate((len(text) + len(_BETWEEN) for text in found.texts[:-1]), initial=0)
    text = _BETWEEN.join(found.texts)
    pages = tuple(starts) if text.strip() else ()
    return Conversion(text, pdf_converter(ocr=found.seen), title, pages, {}, tuple(found.faults))


def _read(pdf: Any) -> _Pages:
    found = _Pages()
    for place in range(len(pdf)):
        page = pdf[place]
        try:
            _add(found, pdf, page, place)
        finally:
            page.close()
    return found


def _add(found: _Pages, pdf: Any, page: Any, place: int) -> None:
    layer = page.get_textpage()
    try:
        text = clean(_HYPHEN.sub(_joined, layer.get_text_range())).strip()
        if is_scan(page, len(text)):
            seen = read_picture(_picture(page)) if ocr_version() else ""
            text = clean(seen) or text
            found.seen = found.seen or bool(seen)
            if not seen:
                found.faults.append(_no_text(place + 1))
        elif text and (layout := table_layout(page, layer)):
            text = clean(with_tables(pdf, place, layout)).strip() or text
    finally:
        layer.close()
    found.texts.append(text)


def _picture(page: Any) -> np.ndarray:
    return page.render(scale=min(_DOTS, _MOST_DOTS / max(page.get_size()))).to_numpy()


def _joined(hyphen: re.Match[str]) -> str:
    return f"-{hyphen['capital']}" if hyphen["capital"] else ""


def _no_text(page: int) -> PageFault:
    how = (
        "the picture on it has none that can be read"
        if ocr_version()
        else f"{install_extra('ocr')} to read it"
    )
    return PageFault(page, NO_TEXT, f"page {page} is a picture without a text layer; {how}")
