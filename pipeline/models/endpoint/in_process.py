"""Models that answer in this process, behind the same client as any endpoint.

The client's transport passes each request to a function, and its result back as the answer of a
server. Cache, budget, limits, usage, streaming and retries therefore work as for every other model.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pipeline.errors import GraphmillError
from pipeline.models.endpoint.client import Endpoint, Failure
from pipeline.models.endpoint.connection import http_library

if TYPE_CHECKING:
    from openai import OpenAI


Body = Mapping[str, Any]
ADDRESS = "http://in-process.invalid/v1"
"""Address that is never resolved, because no request leaves the process."""
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass(frozen=True)
class InProcessEndpoint(Endpoint):
    """Endpoint whose requests are answered by ``chat`` and ``embed`` of a subclass."""

    has_batches: ClassVar[bool] = False

    def chat(self, body: Body, seconds: float) -> Body | Iterable[Body]:
        """Return the answer to a chat request as OpenAI's JSON, or its chunks if ``body["stream"]``
        is set."""
        raise NotImplementedError

    def embed(self, body: Body, seconds: float) -> Body:
        """Return the answer to a request for embeddings as OpenAI's JSON."""
        raise NotImplementedError

    def probe(self) -> Failure | None:
        """Return None, because there is no server that could be starting."""
        return None

    def own_failure(self, error: BaseException) -> Failure | None:
        """Return the failure that an exception of the model means, or None if it is not the model's
        own."""
        raise NotImplementedError

    def failure(self, error: Exception) -> Failure:
        """Return the failure that an exception of the model or the client means.

        An error of graphmill is raised unchanged.
        """
        is_of_the_client = type(error).__module__.startswith("openai")
        cause = error.__cause__ if is_of_the_client and error.__cause__ else error
        if isinstance(cause, GraphmillError):
            raise cause
        return self.own_failure(cause) or super().failure(error)

    def _open_client(self) -> "OpenAI":
        from openai import DefaultHttpxClient, OpenAI

        transport = InProcessTransport(self.chat, self.embed, http_library())
        arguments = self.client_arguments({})
        arguments["http_client"] = DefaultHttpxClient(transport=cast(Any, transport))
        return OpenAI(api_key="none", base_url=ADDRESS, **arguments)


class InProcessTransport:
    """Transport of the client's HTTP library (``http``) that answers requests by functions.

    An exception of a function becomes the ``__cause__`` of the client's own exception. Once an
    answer is being streamed, it is raised unchanged.
    """

    def __init__(
        self, chat: Callable[[Body, float], Any], embed: Callable[[Body, float], Body], http: Any
    ):
        self._answers = {CHAT: chat, EMBEDDINGS: embed}
        self._http = http

    def __enter__(self) -> "InProcessTransport":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close nothing. The client requires this method."""

    def handle_request(self, request: Any) -> Any:
        """Answer a request of the HTTP library by the function for its path."""
        answer = self._answers.get(request.url.path)
        if answer is None:
            return self._http.Response(
                404, json={"error": {"message": f"no {request.url.path} in this process"}}
            )
        body = json.loads(request.read())
        seconds = float(request.extensions["timeout"]["read"])
        try:
            found = answer(body, seconds)
        except TimeoutError as error:
            raise self._http.ReadTimeout(str(error), request=request) from error
        if body.get("stream"):
            return self._http.Response(
                200, headers={"content-type": "text/event-stream"}, content=_events(found)
            )
        # The argument json= would refuse a lone surrogate and NaN. The caller judges those.
        content = json.dumps(found).encode()
        return self._http.Response(
            200, headers={"content-type": "application/json"}, content=content
        )


def _events(chunks: Iterable[Body]) -> Iterator[bytes]:
    for chunk in chunks:
        yield f"data: {json.dumps(chunk)}\n\n".encode()
    yield b"data: [DONE]\n\n"
