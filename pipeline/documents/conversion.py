"""Files that are no plain text, PDF, DOCX and HTML, as Markdown."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.contract.conversion import Conversion
from pipeline.errors import in_words, install_extra

CONVERTED = frozenset({".pdf", ".docx", ".html", ".htm"})
MOST_SAID = 200
NEEDS_EXTRA = f"needs markitdown; {install_extra('docs')}"


class NoConverterError(Exception):
    """The extra is not installed."""


def converter_for(suffix: str) -> str:
    """Name and version of what converts files of this suffix at present; empty where the extra is not installed."""
    try:
        return f"markitdown {version('markitdown')}" if suffix in CONVERTED else ""
    except PackageNotFoundError:
        return ""


def convert(path: Path) -> Conversion:
    """What a file of one of the suffixes ``CONVERTED`` says. Raises NoConverterError without the extra, OSError when
    the file cannot be read, ValueError when it is damaged."""
    converter = _converter()
    try:
        found = converter.convert_local(str(path))
    except Exception as error:
        if isinstance(error, OSError) and error.errno:  # of the file system, not of a library
            raise
        raise ValueError(f"{in_words(error)[:MOST_SAID]}; mend it or remove it") from error
    return Conversion(found.text_content, converter_for(path.suffix.lower()))


@cache
def _converter() -> Any:
    try:
        from markitdown import MarkItDown
        from markitdown.converters import DocxConverter, HtmlConverter, PdfConverter
    except ImportError as error:
        raise NoConverterError(NEEDS_EXTRA) from error
    converter = MarkItDown(enable_builtins=False)  # a built-in one reads a damaged file as plain text
    for kind in (DocxConverter, HtmlConverter, PdfConverter):
        converter.register_converter(kind())
    return converter
