"""A client of ``graphmill serve``, with typed results and the errors of a project.

from graphmill.frameworks.http import Client
with Client("http://127.0.0.1:8020", key) as client:
    print(client.query("Who built the lighthouse?").answer)
"""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from pipeline.errors import (
    BudgetError,
    GraphmillError,
    NotAllowedError,
    NothingLoadedError,
    UsageError,
    in_words,
)
from pipeline.models.endpoint.connection import http_library
from pipeline.serve.bodies import AnswerShown, Evidence
from pipeline.serve.posted_bodies import DocumentState, DocumentStates
from pipeline.settings.query_keywords import QueryKeywords, with_option_names

Shown = TypeVar("Shown", bound=BaseModel)

ERRORS: Mapping[str, type[GraphmillError]] = {
    "unauthorized": NotAllowedError,
    "not_allowed": NotAllowedError,
    "not_found": UsageError,
    "invalid_request": UsageError,
    "spent": BudgetError,
    "nothing_loaded": NothingLoadedError,
}
"""Type of a server's error -> the error that is raised. Other types raise GraphmillError."""
LONGEST_TEXT = 200
"""Characters of an answer in another form that a message shows."""
LONGEST_MESSAGE = 2000
"""Characters of a server's message that an error shows."""


class Client:
    """A connection to one server, or to one of its workspaces at ``URL/w/NAME``.

    ``key`` is an access key of the server; without one, no key is sent. ``timeout`` is in seconds
    between two pieces of an answer.
    Several threads may use a client at a time. Methods raise NotAllowedError, UsageError,
    BudgetError and NothingLoadedError as a project does. If the server cannot be reached, or
    fails, they raise GraphmillError.
    """

    def __init__(self, url: str, key: str = "", timeout: float = 120):
        if not _is_address(url):
            raise UsageError("Client: url: no address; write it as https://host:port")
        key = key.strip()
        if not (key.isascii() and key.isprintable()):
            # An HTTP library would show such a key in its error.
            raise UsageError("Client: key: no key of a server; remove what is no ASCII character")
        self._library = http_library()
        # The header Authorization is for the user and the password of an address, as of a proxy.
        headers = {"X-API-Key": key} if key else {}
        self._http = self._library.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @with_option_names
    def query(self, question: str, **options: Unpack[QueryKeywords]) -> AnswerShown:
        """Return the answer to a question, with its references."""
        return self._receive(AnswerShown, "POST", "query", json={"query": question, **options})

    @with_option_names
    def query_data(self, question: str, **options: Unpack[QueryKeywords]) -> Evidence:
        """Return the evidence for a question, without asking a model for an answer."""
        body = {"query": question, **options}
        return self._receive(Evidence, "POST", "query/data", json=body)

    @with_option_names
    async def aquery(self, question: str, **options: Unpack[QueryKeywords]) -> AnswerShown:
        from asyncio import to_thread

        return await to_thread(self.query, question, **options)

    @with_option_names
    async def aquery_data(self, question: str, **options: Unpack[QueryKeywords]) -> Evidence:
        from asyncio import to_thread

        return await to_thread(self.query_data, question, **options)

    def documents(self) -> Iterator[DocumentState]:
        """Yield the documents that were added over HTTP, sorted by id, each with its state."""
        after: str | None = ""
        while after is not None:
            page = self._receive(DocumentStates, "GET", "v1/documents", params={"after": after})
            yield from page.documents
            after = page.next

    def _receive(self, shown: type[Shown], method: str, path: str, **parts: Any) -> Shown:
        """Return the server's answer, checked; raise the error that it tells of instead."""
        # The address may hold a password, so messages show the host alone.
        where = self._http.base_url.host
        try:
            response = self._http.request(method, path, **parts)
        except (self._library.HTTPError, self._library.InvalidURL, UnicodeError) as error:
            fact = in_words(error) or type(error).__name__
            action = "check the address, and that 'graphmill serve' runs there"
            raise GraphmillError(f"{where}: {fact}; {action}") from None
        text = response.text[:LONGEST_TEXT]
        try:
            body = response.json()
            if response.is_success:
                return shown.model_validate(body)
            kind, message = body["error"]["type"], body["error"]["message"]
        except (ValidationError, ValueError, TypeError, KeyError):
            fact = f"status {response.status_code} and no answer of graphmill: {text!r}"
            action = "check the address, and that both have the same version"
            raise GraphmillError(f"{where}: {fact}; {action}") from None
        shown_message = _printable(str(message))
        raise ERRORS.get(kind, GraphmillError)(f"{where}: {shown_message}")


def _printable(message: str) -> str:
    """Return a server's message without control characters, cut to a length that can be read."""
    plain = "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in message)
    return plain[:LONGEST_MESSAGE]


def _is_address(url: str) -> bool:
    """Return whether the text is an address of HTTP, with a port that is a number if it has one."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
