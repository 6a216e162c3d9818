"""Tell where a browser is, and where it may be sent. All addresses are relative, so that the prefix
of a proxy is kept."""

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
    """Return the relative address of the root, as seen from the requested address."""
    depth: int = scope["path"].count("/") - 1
    return "../" * depth or "./"


def wants_page(scope: Scope) -> bool:
    """Return whether a browser asks for a page to show, and not a script for data."""
    accepted = Headers(scope=scope).get("accept", "")
    return scope["method"] in ("GET", "HEAD") and "text/html" in accepted


def below_root(address: str) -> str:
    """Return an address relative to the root if it leads to this server, else "", the root's."""
    return address if _BELOW_ROOT.fullmatch(address) else ""


def login_address(scope: Scope) -> str:
    """Return the address of the login, which leads back to the requested address."""
    asked = quote(scope["path"].removeprefix("/"), safe="/~")
    query = scope["query_string"].decode("latin-1")
    if query:
        asked = f"{asked}?{query}"
    return f"{root_of(scope)}login?next={quote(asked, safe='')}"


def of_our_own_page(scope: Scope) -> bool:
    """Return whether the request comes from a page of this server, or from a typed address.

    An old browser tells neither. Its requests count if they only read, because its cookie is sent
    with SameSite=Strict.
    """
    headers, reads = Headers(scope=scope), scope["method"] in READS
    site = headers.get("sec-fetch-site")
    if site:
        return site == "same-origin" or (site == "none" and reads)
    origin = headers.get("origin")
    if origin is None:
        return reads
    host = headers.get("host", "").lower()
    return host != "" and urlsplit(origin).netloc.lower() == host


def of_another_page(scope: Scope, allowed: Collection[str] = ()) -> bool:
    """Return whether a page of another server sends the request, and is not in ``allowed``.

    ``allowed`` are origins. Only browsers say where a request comes from; a request of any other
    program counts as from no page.
    """
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin in allowed or (site is None and origin is None):
        return False
    if site is not None:
        return site not in ("same-origin", "none")
    return not of_our_own_page(scope)
