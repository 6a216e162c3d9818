"""Files that are no plain text, as Markdown: which of the converters reads a file, and what becomes
of its failures."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

from pipeline.contract.conversion import Conversion
from pipeline.documents.office import SUFFIXES, convert_office, office_converter
from pipeline.documents.pdf import convert_pdf, pdf_converter
from pipeline.errors import in_words, install_extra

PDF = ".pdf"
CONVERTED = frozenset({PDF, *SUFFIXES})
MOST_SAID = 200
NEEDS_EXTRA = f"needs markitdown and pypdfium2; {install_extra('docs')}"


class NoConverterError(Exception):
    """The extra is not installed."""


def converter_for(suffix: str) -> str:
    """Name and version of what converts files of this suffix at present; empty where the extra is
    not installed."""
    try:
        if suffix == PDF:
            return pdf_converter()
        return office_converter(suffix) if suffix in SUFFIXES else ""
    except PackageNotFoundError:
        return ""


def convert(path: Path) -> Conversion:
    """What a file of one of the suffixes ``CONVERTED`` says. Raises NoConverterError without the
    extra, OSError when the file cannot be read, MemoryError when it takes more than there is,
    ValueError when it is damaged."""
    try:
        return convert_pdf(path) if path.suffix.lower() == PDF else convert_office(path)
    except ImportError as error:
        raise NoConverterError(NEEDS_EXTRA) from error
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno):
            raise  # a library's own errors of input and output have no number
        raise ValueError(f"{in_words(error)[:MOST_SAID]}; mend it or remove it") from error
