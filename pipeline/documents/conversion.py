"""Convert files that are no plain text to Markdown: choose the converter and unify its errors."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from pipeline.contract.conversion import Conversion
from pipeline.documents.mail import MAILBOX, convert_mail, convert_mailbox, mail_converter
from pipeline.documents.mail import SUFFIX as MAIL
from pipeline.documents.notebook import CONVERTER as NOTEBOOK_CONVERTER
from pipeline.documents.notebook import SUFFIX as NOTEBOOK
from pipeline.documents.notebook import convert_notebook
from pipeline.documents.office import SUFFIXES, convert_office, office_converter
from pipeline.documents.open_document import SUFFIX as OPEN_DOCUMENT
from pipeline.documents.open_document import convert_open_document, open_document_converter
from pipeline.documents.outlook_mail import SUFFIX as OUTLOOK
from pipeline.documents.outlook_mail import convert_outlook, outlook_converter
from pipeline.documents.pdf import convert_pdf, pdf_converter
from pipeline.documents.rich_text import SUFFIX as RICH_TEXT
from pipeline.documents.rich_text import convert_rich_text, rich_text_converter
from pipeline.documents.web_page import (
    ARCHIVED,
    HTML,
    article_converter,
    convert_archived_article,
    convert_archived_page,
    convert_article,
)
from pipeline.errors import in_words, install_extra

PDF = ".pdf"
_OF_SUFFIX: Mapping[str, tuple[Callable[[Path], Conversion], Callable[[], str]]] = {
    PDF: (convert_pdf, pdf_converter),
    MAIL: (convert_mail, mail_converter),
    MAILBOX: (convert_mailbox, mail_converter),
    OUTLOOK: (convert_outlook, outlook_converter),
    RICH_TEXT: (convert_rich_text, rich_text_converter),
    NOTEBOOK: (convert_notebook, lambda: NOTEBOOK_CONVERTER),
    OPEN_DOCUMENT: (convert_open_document, open_document_converter),
    **{suffix: (convert_office, partial(office_converter, suffix)) for suffix in SUFFIXES},
    **{suffix: (convert_archived_page, partial(office_converter, suffix)) for suffix in ARCHIVED},
}
"""Suffix -> the function that converts a file, and the one that names its library."""
_OF_ARTICLES: Mapping[str, tuple[Callable[[Path], Conversion], Callable[[], str]]] = {
    **_OF_SUFFIX,
    **dict.fromkeys(HTML, (convert_article, article_converter)),
    **dict.fromkeys(ARCHIVED, (convert_archived_article, article_converter)),
}
"""The same as `_OF_SUFFIX`, but of a web page the article alone is read."""
CONVERTED = frozenset(_OF_SUFFIX)
MOST_SAID = 200
"""The most characters of a library's error in a message."""
NEEDS_EXTRA = f"needs markitdown, olefile, pypdfium2 and striprtf; {install_extra('docs')}"


class NoConverterError(Exception):
    """An error for a missing extra, without which a file cannot be converted."""


def converter_for(suffix: str, articles: bool = False) -> str:
    """Return name and version of the library that converts files of this suffix.

    ``articles`` is as in `convert`. Returns "" if the extra is not installed or no library converts
    them.
    """
    if suffix not in _OF_SUFFIX:
        return ""
    _, name = _converters(articles)[suffix]
    try:
        return name()
    except PackageNotFoundError:
        return ""


def _converters(
    articles: bool,
) -> Mapping[str, tuple[Callable[[Path], Conversion], Callable[[], str]]]:
    return _OF_ARTICLES if articles else _OF_SUFFIX


def convert(path: Path, articles: bool = False) -> Conversion:
    """Convert a file with one of the suffixes `CONVERTED`.

    ``articles``: of a web page, without its navigation, header and footer. Raises
    NoConverterError without the extra and OSError if the file cannot be read. Raises MemoryError
    if it takes more memory than there is, and ValueError if it is damaged.
    """
    convert_file, _ = _converters(articles)[path.suffix.lower()]
    try:
        return convert_file(path)
    except ImportError as error:
        raise NoConverterError(NEEDS_EXTRA) from error
    except Exception as error:
        # An OSError that a library raises by itself has no number: its file is damaged.
        is_from_system = isinstance(error, OSError) and error.errno
        if isinstance(error, MemoryError) or is_from_system:
            raise
        raise ValueError(f"{in_words(error)[:MOST_SAID]}; mend it or remove it") from error
