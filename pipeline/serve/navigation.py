"""Where a browser is and where it may be sent: by relative addresses alone, so that a proxy's
prefix stays."""

import re
from collections.abc import Collection
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

READS = frozenset({"GET", "HEAD", "OPTIONS"})
_SEGMENT = r"(?!\.|%2e)[\w.~%-]+"
_BELOW_ROOT = re.compile(
    rf"(?:(?!%){_SEGMENT}(?:/{_SEGMENT})*)?(?:\?[\w.~%&=+,:;@!*'()/-]*)?", re.ASCII | re.IGNORECASE
)


def root_of(scope: Scope) -> str:
    """From the address that was asked for to the root, relative."""
    depth: int = scope["path"].count("/") - 1
    return "../" * depth or "./"


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks for something to show, not a script for data."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get(
        "accept", ""
    )


def below_root(address: str) -> str:
    """The address, from the root, if it is one of this server; else the root's, "". Never another
    host's."""
    return address if _BELOW_ROOT.fullmatch(address) else ""


def login_address(scope: Scope) -> str:
    """Return the address of the login that leads back to what was asked for."""
    asked = quote(scope["path"].removeprefix("/"), safe="/~")
    if query := scope["query_string"].decode("latin-1"):
        asked = f"{asked}?{query}"
    return f"{root_of(scope)}login?next={quote(asked, safe='')}"


def of_our_own_page(scope: Scope) -> bool:
    """Whether a page of this server has sent the request, or a person by an address or a bookmark.
    For what changes nothing the word of an old browser, which tells neither, is taken; its cookie
    came along by SameSite=Strict."""
    headers, reads = Headers(scope=scope), scope["method"] in READS
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin" or (site == "none" and reads)
    origin = headers.get("origin")
    if origin is None:
        return reads
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def of_another_page(scope: Scope, allowed: Collection[str] = ()) -> bool:
    """Return whether the browser says that another server's page has sent the request, and that is
    not in ``allowed`` (origins). A program that is no browser does not say so, and counts as no
    page."""
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin in allowed or (site is None and origin is None):
        return False
    if site is not None:
        return site not in ("same-origin", "none")
    return not of_our_own_page(scope)
