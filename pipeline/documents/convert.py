"""PDF, DOCX and HTML to Markdown, with the extra ``docs``."""

from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import in_words

CONVERTED = frozenset({".pdf", ".docx", ".html", ".htm"})
MOST_SAID = 200
NEEDS_EXTRA = "needs the extra 'docs': pip install 'graphmill[docs]'"


class NoConverterError(Exception):
    """The extra is not installed."""


def convert(path: Path) -> str:
    """The file as Markdown. Raises NoConverterError without the extra, OSError when the file cannot be read, ValueError
    when it is damaged."""
    converter = _converter()
    try:
        return converter.convert_local(str(path)).text_content
    except Exception as error:
        if isinstance(error, OSError) and error.errno:  # of the file system, not of a library
            raise
        raise ValueError(f"{in_words(error)[:MOST_SAID]}; mend it or remove it") from error


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
