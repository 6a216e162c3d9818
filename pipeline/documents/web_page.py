"""Convert saved web pages: the article of a page in HTML, and pages saved as one file (MHTML).

The article is found by the landmarks of HTML 5: elements such as main, article and nav, and their
roles. A page without landmarks is kept whole, but for its cookie banner.
"""

import re
from contextlib import suppress
from email import policy
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from pipeline.contract.conversion import Conversion
from pipeline.documents.office import convert_html, office_converter
from pipeline.documents.titles import declared
from pipeline.text.ids import clean

HTML = frozenset({".html", ".htm"})
ARCHIVED = frozenset({".mhtml", ".mht"})
_FORM = 1
"""Raise this number when the same page gives another text."""
_PAGES = ("text/html", "application/xhtml+xml")
_MAIN = "main, [role=main]"
"""The selector of the main part of a page."""
_NEVER_ARTICLE = (
    "nav", "dialog", "template", "noscript", "[role=navigation]", "[role=banner]",
    "[role=contentinfo]", "[role=search]", "[role=dialog]", "[role=alertdialog]", "[role=menu]",
    "[role=menubar]",
)  # fmt: skip
"""Selectors of elements that are no part of an article wherever they stand."""
_PART_WITHIN = {
    "header": ("article", "main", "section", "blockquote"),
    "footer": ("article", "main", "section", "blockquote"),
    "aside": ("article",),
    "[role=complementary]": ("article",),
}
"""Selectors of elements that belong to the page, and the elements within which they do not."""
_BANNER = re.compile(
    r"(?:cookie|consent|gdpr|ccpa)[\w-]*(?:banner|bar|box|dialog|layer|message|modal|notice|overlay"
    r"|popup|wall)|onetrust|cybotcookiebot|usercentrics|didomi-|qc-cmp2|borlabs-?cookie|iubenda-cs",
    re.IGNORECASE,
)
"""Ids and classes of cookie banners: by what they say, and those of widely used services."""
_LEAST_SHARE = 1 / 3
"""The least share of the text outside of navigation that an element must have to be the article.
On a page with less in it, such as a list of many articles, everything is kept."""


def article_converter() -> str:
    """Return name and version of this converter; raises PackageNotFoundError without the extra.

    The name differs from that for whole pages, so that a run can tell which of the two was used.
    """
    return f"article {_FORM} by {office_converter('.html')}"


def convert_article(path: Path) -> Conversion:
    """Convert the article of a page in HTML; raises ImportError without the extra."""
    return _article_of(_parsed(path.read_bytes(), None), path, {})


def convert_archived_article(path: Path) -> Conversion:
    """Convert the article of a page in MHTML; raises as `convert_archived_page` does."""
    page, metadata = _read_archived(path)
    return _article_of(page, path, metadata)


def convert_archived_page(path: Path) -> Conversion:
    """Convert a whole page in MHTML.

    Raises ValueError if the file has no page, and ImportError without the extra.
    """
    page, metadata = _read_archived(path)
    title = _title_of(page, path)
    converter = office_converter(path.suffix.lower())
    return Conversion(_markdown_of(page), converter, title, metadata=metadata)


def _read_archived(path: Path) -> tuple[Any, dict[str, str]]:
    """Return the page of a file in MHTML as a tree, and its address and day of saving."""
    with path.open("rb") as file:
        archive = BytesParser(policy=policy.default).parse(file)
    # The first page is the one that was saved; those behind it stand in its frames.
    part = next((part for part in archive.walk() if part.get_content_type() in _PAGES), None)
    if part is None or not archive.keys():
        raise ValueError("no page in HTML in it")
    content: Any = part.get_payload(decode=True)
    metadata: dict[str, str] = {}
    address = archive["Snapshot-Content-Location"] or part["Content-Location"]
    if address:
        metadata["url"] = clean("".join(str(address).split()))
    with suppress(ValueError, IndexError, OverflowError):
        metadata["saved"] = parsedate_to_datetime(str(archive["Date"])).date().isoformat()
    return _parsed(content or b"", part.get_content_charset()), metadata


def _parsed(content: bytes, encoding: str | None) -> Any:
    """Return a page as a tree, in the encoding that is given or declared, or else the likeliest."""
    from bs4 import BeautifulSoup

    return BeautifulSoup(content, "html.parser", from_encoding=encoding)


def _article_of(page: Any, path: Path, metadata: dict[str, str]) -> Conversion:
    """Return the conversion of the article; of the page where nothing but navigation is in it."""
    title = _title_of(page, path)
    whole = str(page)
    _take_out(page)
    article = _main_element(page)
    text = _markdown_of(article)
    if not text.strip():
        text = convert_html(BytesIO(whole.encode()))
    return Conversion(text, article_converter(), title, metadata=metadata)


def _title_of(page: Any, path: Path) -> str:
    """Return the title that the page declares, or else its first heading of the first level.

    That heading often stands in the header of the page, which is no part of the article.
    """
    for element in (page.title, page.find("h1")):
        if element is not None:
            text = " ".join(clean(element.get_text(" ")).split())
            if title := declared(text, path.stem):
                return title
    return ""


def _take_out(page: Any) -> None:
    """Take the elements that are no part of an article out of the page.

    One with the main part of the page in it stays, whatever it is called.
    """
    unwanted = list(page.select(", ".join(_NEVER_ARTICLE)))
    for selector, within in _PART_WITHIN.items():
        unwanted += [found for found in page.select(selector) if not found.find_parent(within)]
    unwanted += page.find_all(_is_banner)
    for element in unwanted:
        if not element.decomposed and element.select_one(_MAIN) is None:
            element.decompose()


def _is_banner(element: Any) -> bool:
    """Return whether an element is a cookie banner, going by its id and its classes.

    One that has the main part of a page in it is none: the body of a page may have such a class.
    """
    names = [element.get("id") or "", *(element.get("class") or ())]
    if not _BANNER.search(" ".join(names)):
        return False
    is_around_article = element.name in ("html", "body", "main", "article")
    return not is_around_article and element.find(["main", "article", "h1"]) is None


def _main_element(page: Any) -> Any:
    """Return the element with the main part of a page, or else the page."""
    found = page.select(_MAIN)
    if not found:
        articles = page.select("article, [role=article]")
        # Those within an article are comments on it.
        found = [each for each in articles if not each.find_parent("article")]
        if len(found) > 1:
            return page
    best = max(found, key=_length, default=page)
    return best if _length(best) >= _LEAST_SHARE * _length(page.body or page) else page


def _length(element: Any) -> int:
    """Return the number of characters of text in an element, blanks left out."""
    return sum(len("".join(text.split())) for text in element.strings)


def _markdown_of(element: Any) -> str:
    return convert_html(BytesIO(str(element).encode()))
