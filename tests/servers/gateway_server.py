"""Real HTTP servers in front of the test endpoint: a gateway that wants headers and parameters,
Azure OpenAI, TLS."""

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, unquote

from tests.servers.openai_handler import Handler
from tests.servers.openai_server import OpenAIServer

AZURE_PATH = re.compile(
    r"^/openai/deployments/(?P<deployment>[^/]+)(?P<rest>/chat/completions|/embeddings)$"
)
AZURE_WRONG_KEY = (
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a"
    " valid key for an active subscription and use a correct regional API endpoint for your"
    " resource."
)
AZURE_NO_DEPLOYMENT = (
    "The API deployment for this resource does not exist. If you created the deployment within the"
    " last 5 minutes, please wait a moment and try again."
)
AZURE_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management"
    " policy. Please modify your prompt and retry."
)


@dataclass(frozen=True)
class Visit:
    """A request as it arrived. Names of headers are in small letters."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)


class GatewayHandler(Handler):
    """Keeps every request, lets the server refuse it, and answers the rest as the test endpoint
    does."""

    @property
    def gateway(self) -> "GatewayServer":
        return cast("GatewayServer", self.server)

    def handle_request(self) -> None:
        content = self.rfile.read(int(self.fields.get("content-length", 0)))
        path, _, query = self.path.partition("?")
        body = json.loads(content) if content else {}
        visit = Visit(self.command, path, dict(parse_qsl(query)), dict(self.fields), body)
        self.gateway.visits.append(visit)
        refused = self.gateway.refusal(visit)
        if refused:
            status, answer = refused
            return self.send_json(status, answer, {})
        if path.endswith("/rerank"):
            found = [
                {"index": index, "relevance_score": 1.0} for index in range(len(body["documents"]))
            ]
            return self.send_json(200, {"results": found}, {})
        self.answer(self.gateway.plain_path(path), body)

    def has_key(self) -> bool:
        return True  # the server's own ``refusal`` looks at keys


class GatewayServer(OpenAIServer):
    """``visits``: all requests. ``wanted``: headers without which a request is refused, with their
    values shown, as careless gateways do."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = GatewayHandler
        self.scheme = "http"
        self.visits: list[Visit] = []
        self.wanted: Mapping[str, str] = {}

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def refusal(self, visit: Visit) -> tuple[int, Mapping[str, Any]] | None:
        """Return status and JSON of a refusal; None for a request that is answered."""
        for name, value in self.wanted.items():
            if visit.headers.get(name) != value:
                return 400, {
                    "error": {"message": f"{name} is '{visit.headers.get(name)}': {visit.headers}"}
                }
        return None

    def plain_path(self, path: str) -> str:
        """Return the path by which the test endpoint knows the request."""
        return path


class AzureServer(GatewayServer):
    """Azure OpenAI's data plane: paths of deployments, ``api-version``, the header ``api-key`` or a
    bearer token.

    ``filtered``: a word in a prompt at which the content filter refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.api_key = "azure-key-4711"
        self.tokens: set[str] = set()
        self.deployments = {"our-gpt", "our-embedding"}
        self.filtered = "violence"

    def refusal(self, visit: Visit) -> tuple[int, Mapping[str, Any]] | None:
        if "api-version" not in visit.query:
            return 404, azure_error("404", "Resource not found")
        bearer = visit.headers.get("authorization", "").removeprefix("Bearer ")
        if visit.headers.get("api-key") != self.api_key and bearer not in self.tokens:
            return 401, azure_error("401", AZURE_WRONG_KEY)
        if visit.path == "/openai/models":
            return None
        found = AZURE_PATH.match(visit.path)
        if not found:
            return 404, azure_error("404", "Resource not found")
        if unquote(found["deployment"]) not in self.deployments:
            return 404, azure_error("DeploymentNotFound", AZURE_NO_DEPLOYMENT)
        if self.filtered in json.dumps(visit.body.get("messages", "")):
            error = azure_error("content_filter", AZURE_FILTERED)["error"]
            inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}}
            return 400, {"error": {**error, "param": "prompt", "status": 400, "innererror": inner}}
        return None

    def plain_path(self, path: str) -> str:
        found = AZURE_PATH.match(path)
        return f"/v1{found['rest']}" if found else path.replace("/openai", "/v1")


def azure_error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


Server = TypeVar("Server", bound=GatewayServer)


@contextmanager
def listening(make: Callable[[], Server], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server on a free port until the block ends; with ``tls`` by HTTPS."""
    server = make()
    if tls:
        server.scheme = "https"
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.start()
    try:
        yield server
    finally:
        server.close()
