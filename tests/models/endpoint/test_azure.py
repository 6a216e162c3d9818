"""Deployments of Azure OpenAI, against a server with Azure's paths."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai as client_library
import pytest
import yaml

from pipeline.errors import AuthError, NoSuchModelError, SettingsError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.runs.adapters import batched_chat, chat_model, embedding_model
from pipeline.settings.file import read_settings
from tests.servers.gateway_server import AzureServer, Visit, listening

ASKED = [ChatRequest("row", ({"role": "user", "content": "Who built it?"},))]
NEVER_SENT_ALIKE = {
    "host",
    "content-length",
    "accept-encoding",
    "x-stainless-raw-response",
    "x-stainless-read-timeout",
}


@pytest.fixture
def azure() -> Iterator[AzureServer]:
    with listening(AzureServer) as server:
        yield server


def settings_of(root: Path, server: AzureServer, **own: Any) -> Any:
    common = {
        "provider": "azure",
        "base_url": server.address,
        "api_key": server.api_key,
        "max_retries": 0,
    }
    content = {
        "models": {
            "chat": {"default": {"model": "gpt-4o", "deployment": "our-gpt", **common, **own}},
            "embedding": {
                "default": {"model": "text-3", "deployment": "our-embedding", **common, **own}
            },
        }
    }
    (root / "settings.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return read_settings(root)


def chat_of(root: Path, server: AzureServer, **own: Any) -> OpenAIChat:
    return chat_model(settings_of(root, server, **own), "default", NO_CACHE, root=root)


def embedding_of(root: Path, server: AzureServer, **own: Any) -> OpenAIEmbedding:
    made = embedding_model(settings_of(root, server, **own), "default", lambda: NO_CACHE, root=root)
    assert isinstance(made, OpenAIEmbedding)
    return made


def comparable(visit: Visit) -> tuple[Any, ...]:
    headers = {name: value for name, value in visit.headers.items() if name not in NEVER_SENT_ALIKE}
    return visit.method, visit.path, visit.query, headers, visit.body


def test_requests_are_those_of_the_official_client(tmp_path: Path, azure: AzureServer):
    chat = chat_of(tmp_path, azure, api_version="2024-06-01")
    chat.complete(ASKED)
    list(chat.stream(ASKED[0]))
    embedding_of(tmp_path, azure, api_version="2024-06-01").embed(["a text"])
    ours = [comparable(visit) for visit in azure.visits]
    azure.visits.clear()
    messages = [{"role": "user", "content": "Who built it?"}]
    with client_library.AzureOpenAI(
        azure_endpoint=azure.address, api_key=azure.api_key, api_version="2024-06-01", timeout=120
    ) as official:
        asked: Any = {"model": "our-gpt", "messages": messages}
        official.chat.completions.create(**asked)
        for _ in official.chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}
        ):
            pass
        official.embeddings.create(model="our-embedding", input=["a text"], encoding_format="float")
    theirs = [comparable(visit) for visit in azure.visits]
    assert [visit[:3] for visit in ours] == [visit[:3] for visit in theirs]
    assert (
        [visit[3]["api-key"] for visit in ours]
        == [visit[3]["api-key"] for visit in theirs]
        == [azure.api_key] * 3
    )
    assert [set(visit[3]) ^ set(other[3]) for visit, other in zip(ours, theirs, strict=True)] == [
        set()
    ] * 3
    # The official client puts one name into path and body; ours has the deployment in the path, the
    # model in the body.
    models = ["gpt-4o", "gpt-4o", "text-3"]
    assert [visit[4] for visit in ours] == [
        other[4] | {"model": model} for other, model in zip(theirs, models, strict=True)
    ]


def test_the_deployment_is_by_default_the_models_name_and_the_version_the_newest_stable(
    tmp_path: Path, azure: AzureServer
):
    azure.deployments = {"gpt-4o"}
    chat = chat_of(tmp_path, azure, deployment="")
    assert chat.complete(ASKED)[0].reason is None
    assert azure.visits[-1].path == "/openai/deployments/gpt-4o/chat/completions"
    assert azure.visits[-1].query == {"api-version": "2024-10-21"}


@pytest.mark.parametrize(
    "address", ["{0}", "{0}/", "{0}/openai", "{0}/openai/", "{0}?api-version=2024-02-01"]
)
def test_the_address_may_be_copied_in_any_form(address: str, tmp_path: Path, azure: AzureServer):
    chat = chat_of(tmp_path, azure, base_url=address.format(azure.address))
    chat.preflight()
    assert chat.complete(ASKED)[0].reason is None
    looked, asked = (visit.path for visit in azure.visits)
    assert looked.endswith("/models")  # openai below 3 puts the deployment in front of it
    assert asked == "/openai/deployments/our-gpt/chat/completions"
    version = "2024-02-01" if "?" in address else "2024-10-21"
    assert {visit.query["api-version"] for visit in azure.visits} == {version}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "/openai/deployments/our-gpt/chat/completions",
            r"has a deployment in it; .*under deployment",
        ),
        ("/openai/v1/", "without deployments; use provider: openai with this base_url"),
    ],
)
def test_an_address_of_another_form_is_refused_with_advice(
    path: str, said: str, tmp_path: Path, azure: AzureServer
):
    with pytest.raises(SettingsError, match=rf"models\.chat\.default: base_url .*{said}"):
        chat_of(tmp_path, azure, base_url=azure.address + path)


def test_a_project_that_moves_to_azure_asks_nothing_again(tmp_path: Path, azure: AzureServer):
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    chat, embedding = chat_of(tmp_path, azure), embedding_of(tmp_path, azure)
    before = OpenAIChat("gpt-4o", cache=cache), OpenAIEmbedding("text-3", cache=cache)
    assert [before[0].identity, before[1].identity] == [chat.identity, embedding.identity]
    replace(chat, cache=cache).complete(ASKED)
    replace(embedding, cache=cache).embed(["a text"])
    azure.visits.clear()
    moved = (
        chat_of(tmp_path, azure, deployment="gpt-4o"),
        embedding_of(tmp_path, azure, deployment="other"),
    )
    assert replace(moved[0], cache=cache).complete(ASKED)[0].cached
    replace(moved[1], cache=cache).embed(["a text"])
    assert azure.visits == []
    cache.close()


def test_deployments_have_limits_of_their_own_though_their_replies_are_the_same(
    tmp_path: Path, azure: AzureServer
):
    one, other = (
        chat_of(tmp_path, azure, deployment=name) for name in ("our-gpt", "our-gpt-in-the-north")
    )
    assert one.endpoint.digest != other.endpoint.digest
    assert one.identity == other.identity


def test_the_content_filter_rejects_a_row_and_no_other(tmp_path: Path, azure: AzureServer):
    other = ChatRequest("filtered", ({"role": "user", "content": "a text of violence"},))
    good, filtered = chat_of(tmp_path, azure).complete([*ASKED, other])
    assert (good.reason, filtered.reason) == (None, "content_filter")
    assert "content management policy" in filtered.message


def test_a_deployment_that_is_not_there_is_named(tmp_path: Path, azure: AzureServer):
    for model, ask in ((chat_of, "complete"), (embedding_of, "embed")):
        asked = ASKED if ask == "complete" else ["a text"]
        with pytest.raises(
            NoSuchModelError,
            match=r"has no deployment 'nope' \(HTTP 404.*; correct deployment; a new one",
        ):
            getattr(model(tmp_path, azure, deployment="nope"), ask)(asked)


def test_an_address_without_azures_paths_is_told_from_a_missing_deployment(
    tmp_path: Path, azure: AzureServer
):
    chat = chat_of(tmp_path, azure, base_url=f"{azure.address}/gateway")
    with pytest.raises(
        NoSuchModelError,
        match=r"/gateway has no such path .*correct base_url, deployment or api_version",
    ):
        chat.complete(ASKED)


def test_a_wrong_key_is_found_before_the_work(tmp_path: Path, azure: AzureServer):
    chat = chat_of(tmp_path, azure, api_key="wrong-key-1234")
    with pytest.raises(
        AuthError, match=r"models\.chat\.default: http://127.* refused the key \(401\); set api_key"
    ) as told:
        chat.preflight()
    assert "wrong-key-1234" not in str(told.value)
    with pytest.raises(AuthError):
        chat.complete(ASKED)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"api_key": ""}, "no api_key; set it, or entra_id: true"),
        ({"base_url": ""}, "no base_url; set it to the resource"),
    ],
)
def test_a_missing_address_or_key_is_reported_before_the_work(
    own: dict[str, str], said: str, tmp_path: Path, azure: AzureServer
):
    with pytest.raises(AuthError, match=said):
        chat_of(tmp_path, azure, **own).preflight()
    assert azure.visits == []


def test_batches_are_refused(tmp_path: Path, azure: AzureServer):
    settings = settings_of(tmp_path, azure)
    batched = batched_chat(
        settings, "default", chat_model(settings, "default", NO_CACHE, root=tmp_path)
    )
    with pytest.raises(
        SettingsError,
        match="execution: batch is not available with provider: azure; remove execution",
    ):
        batched.preflight()


class IdentityHandler(BaseHTTPRequestHandler):
    """The endpoint of a managed identity, as in App Service."""

    def do_GET(self) -> None:
        server: Any = self.server
        asked = parse_qs(urlsplit(self.path).query)
        server.asked.append((asked.get("resource"), self.headers.get("X-IDENTITY-HEADER")))
        token = f"token-{len(server.asked)}"
        server.azure.tokens = {token}  # the one before is no good any more
        expires = int(time.time()) + server.lifetime
        answer = {
            "access_token": token,
            "expires_on": str(expires),
            "resource": "r",
            "token_type": "Bearer",
        }
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def identity(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a managed identity whose tokens are valid for ``lifetime`` seconds."""
    pytest.importorskip("azure.identity")
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), IdentityHandler)
    server.azure, server.asked, server.lifetime = azure, [], 3600
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    for name in (
        "AZURE_CLIENT_ID",
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(
        "IDENTITY_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}/msi/token"
    )
    monkeypatch.setenv("IDENTITY_HEADER", "identity-secret")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_with_entra_id_a_token_is_kept_while_it_is_good(
    tmp_path: Path, azure: AzureServer, identity: Any
):
    chat = chat_of(tmp_path, azure, api_key="", entra_id=True)
    chat.preflight()
    replies = [chat.complete([replace(ASKED[0], row_id=str(row))])[0] for row in range(3)]
    assert [reply.reason for reply in replies] == [None] * 3
    assert identity.asked == [(["https://cognitiveservices.azure.com"], "identity-secret")]
    assert azure.visits[-1].headers["authorization"] == "Bearer token-1"
    assert "api-key" not in azure.visits[-1].headers


def test_with_entra_id_a_token_is_renewed_before_it_expires(
    tmp_path: Path, azure: AzureServer, identity: Any
):
    identity.lifetime = 60
    chat = chat_of(tmp_path, azure, api_key="", entra_id=True)
    first, second = (chat.complete(ASKED)[0] for _ in range(2))
    assert (first.reason, second.reason) == (None, None)
    assert [visit.headers["authorization"] for visit in azure.visits] == [
        "Bearer token-1",
        "Bearer token-2",
    ]


def test_an_identity_that_gives_no_token_ends_the_work_with_advice(
    tmp_path: Path, azure: AzureServer, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("azure.identity")
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    chat = chat_of(tmp_path, azure, api_key="", entra_id=True)
    for ask in (chat.preflight, lambda: chat.complete(ASKED)):
        with pytest.raises(
            AuthError,
            match=r"models\.chat\.default: Microsoft Entra ID gives no token .*'az login'",
        ):
            ask()
    assert azure.visits == []
