"""Convert files that are no plain text to Markdown: choose the converter and unify its errors."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

from pipeline.contract.conversion import Conversion
from pipeline.documents.office import SUFFIXES, convert_office, office_converter
from pipeline.documents.pdf import convert_pdf, pdf_converter
from pipeline.errors import in_words, install_extra

PDF = ".pdf"
CONVERTED = frozenset({PDF, *SUFFIXES})
MOST_SAID = 200
"""The most characters of a library's error in a message."""
NEEDS_EXTRA = f"needs markitdown and pypdfium2; {install_extra('docs')}"


class NoConverterError(Exception):
    """An error for a missing extra, without which a file cannot be converted."""


def converter_for(suffix: str) -> str:
    """Return name and version of the library that converts files of this suffix.

    Returns "" if the extra is not installed or no library converts them.
    """
    try:
        if suffix == PDF:
            return pdf_converter()
        return office_converter(suffix) if suffix in SUFFIXES else ""
    except PackageNotFoundError:
        return ""


def convert(path: Path) -> Conversion:
    """Convert a file with one of the suffixes `CONVERTED`.

    Raises NoConverterError without the extra and OSError if the file cannot be read. Raises
    MemoryError if it takes more memory than there is, and ValueError if it is damaged.
    """
    try:
        return convert_pdf(path) if path.suffix.lower() == PDF else convert_office(path)
    except ImportError as error:
        raise NoConverterError(NEEDS_EXTRA) from error
    except Exception as error:
        # An OSError that a library raises by itself has no number: its file is damaged.
        is_from_system = isinstance(error, OSError) and error.errno
        if isinstance(error, MemoryError) or is_from_system:
            raise
        raise ValueError(f"{in_words(error)[:MOST_SAID]}; mend it or remove it") from error
