"""Headers, query parameters and certificates of an endpoint, as company gateways require them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.runs.adapters import chat_model, embedding_model, reranker
from pipeline.settings.file import read_settings
from tests.servers.certificates import Certificates, new_certificates
from tests.servers.gateway_server import GatewayServer, listening

SECRET = "canary-header-77c1"
PARAMETER = "canary-query-19ab"
ASKED = [ChatRequest("row", ({"role": "user", "content": "Who built it?"},))]


@pytest.fixture
def gateway() -> Iterator[GatewayServer]:
    with listening(GatewayServer) as server:
        server.wanted = {"x-gateway-key": SECRET}
        yield server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return new_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def models(root: Path, **settings: Any) -> tuple[Any, Any, Any]:
    """Return the chat, embedding and rerank models of a project with these settings."""
    sections = {
        "chat": {},
        "embedding": {"provider": "openai", "model": "e"},
        "rerank": {"model": "r"},
    }
    content = {"models": {kind: {"default": {**own, **settings}} for kind, own in sections.items()}}
    (root / "settings.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    read = read_settings(root)
    chat = chat_model(read, "default", NO_CACHE, root=root)
    return (
        chat,
        embedding_model(read, "default", lambda: NO_CACHE, root=root),
        reranker(read, root=root),
    )


def with_gateway(gateway: GatewayServer) -> dict[str, Any]:
    return {
        "base_url": gateway.base_url,
        "headers": {"X-Gateway-Key": SECRET},
        "query": {"api-version": "2024-06-01", "token": PARAMETER},
        "max_retries": 0,
    }


def test_headers_and_parameters_are_sent_with_every_request_of_every_model(
    gateway: GatewayServer, root: Path
):
    chat, embedding, rerank = models(root, **with_gateway(gateway))
    chat.preflight()
    (reply,) = chat.complete(ASKED)
    streamed = "".join(chat.stream(ASKED[0]))
    vectors = embedding.embed(["a text"])
    scores = rerank.rerank("question", ["one", "other"])
    assert (reply.reason, bool(streamed), vectors.shape[0], len(scores)) == (None, True, 1, 2)
    assert [visit.path for visit in gateway.visits] == [
        "/v1/models", "/v1/chat/completions", "/v1/chat/completions", "/v1/embeddings",
        "/v1/rerank",
    ]  # fmt: skip
    assert all(visit.headers["x-gateway-key"] == SECRET for visit in gateway.visits)
    assert all(
        visit.query == {"api-version": "2024-06-01", "token": PARAMETER} for visit in gateway.visits
    )


def test_a_query_in_the_address_is_sent_behind_the_path(gateway: GatewayServer, root: Path):
    gateway.wanted = {}
    address = f"{gateway.base_url}?api-version=2024-06-01"
    chat, embedding, rerank = models(root, base_url=address, query={"zone": "b"}, max_retries=0)
    (reply,) = chat.complete(ASKED)
    embedding.embed(["a text"])
    rerank.rerank("question", ["one"])
    assert reply.reason is None
    assert [visit.path for visit in gateway.visits] == [
        "/v1/chat/completions",
        "/v1/embeddings",
        "/v1/rerank",
    ]
    assert all(
        visit.query == {"api-version": "2024-06-01", "zone": "b"} for visit in gateway.visits
    )


def test_an_empty_header_is_left_out(gateway: GatewayServer, root: Path):
    headers = {"X-Gateway-Key": SECRET, "Authorization": "", "X-Project": ""}
    chat, *_ = models(root, base_url=gateway.base_url, headers=headers, max_retries=0)
    assert chat.complete(ASKED)[0].reason is None
    assert {"authorization", "x-project"}.isdisjoint(gateway.visits[-1].headers)


def test_headers_and_parameters_are_no_part_of_what_a_reply_is_known_by(
    gateway: GatewayServer, root: Path
):
    plain, *_ = models(root, base_url=gateway.base_url, max_retries=0)
    chat, embedding, rerank = models(root, **with_gateway(gateway))
    cache = ReplyCache(f"sqlite:///{root}/cache.sqlite")
    asked_with = replace(chat, cache=cache).complete(ASKED)
    known = replace(plain, cache=cache).complete(ASKED)
    assert known[0].cached
    assert known[0].text == asked_with[0].text
    assert len(gateway.visits) == 1
    assert chat.identity == plain.identity == {"model": "gpt-4o-mini"}
    assert chat.endpoint.digest == plain.endpoint.digest
    assert embedding.identity == {"model": "e", "normalized": True}
    assert rerank.identity == {"model": "r", "max_characters": 8000}
    assert SECRET.encode() not in (root / "cache.sqlite").read_bytes()
    cache.close()


def test_no_message_and_no_repr_shows_a_header_or_a_parameter(gateway: GatewayServer, root: Path):
    gateway.wanted = {"x-other": "never sent"}  # refused with a message that repeats every header
    wrong = with_gateway(gateway) | {"headers": {"X-Gateway-Key": f"Bearer {SECRET}"}}
    chat, embedding, rerank = models(root, **wrong)
    told = [chat.complete(ASKED)[0].message]
    for ask in (
        lambda: embedding.embed(["a"]),
        lambda: rerank.rerank("q", ["a"]),
        lambda: [*chat.stream(ASKED[0])],
    ):
        with pytest.raises(ModelError) as refused:
            ask()
        told.append(str(refused.value))
    told += [repr(one) for one in (chat, embedding, rerank, chat.endpoint, read_settings(root))]
    assert all("HTTP 400" in message for message in told[:4])
    assert not [text for text in told if SECRET in text or PARAMETER in text]


def test_a_certificate_that_is_not_trusted_says_what_to_set(certificates: Certificates, root: Path):
    with listening(GatewayServer, certificates.server_context()) as server:
        chat, embedding, _ = models(root, base_url=server.base_url, max_retries=0)
        for ask in (chat.preflight, lambda: chat.complete(ASKED), lambda: embedding.embed(["a"])):
            with pytest.raises(
                ModelError,
                match=r"certificate is not trusted \(.+\); set ca_bundle .*SSL_CERT_FILE",
            ):
                ask()
        assert server.visits == []


def test_with_its_authority_in_ca_bundle_a_server_is_trusted(
    certificates: Certificates, root: Path
):
    (root / "certs").symlink_to(certificates.folder)
    with listening(GatewayServer, certificates.server_context()) as server:
        chat, embedding, rerank = models(
            root, base_url=server.base_url, ca_bundle="certs/ca.pem", max_retries=0
        )
        chat.preflight()
        assert chat.complete(ASKED)[0].reason is None
        assert embedding.embed(["a"]).shape[0] == 1
        assert rerank.rerank("q", ["a"]) == [1.0]


def test_a_server_may_ask_for_a_certificate(certificates: Certificates, root: Path):
    trusted = {"ca_bundle": str(certificates.authority), "max_retries": 0, "timeout": 5}
    shown = {
        "client_cert": str(certificates.certificate("client")),
        "client_key": str(certificates.key("client")),
    }
    with listening(GatewayServer, certificates.server_context(wants_a_client=True)) as server:
        chat, *_ = models(root, base_url=server.base_url, **trusted, **shown)
        assert chat.complete(ASKED)[0].reason is None
        without, *_ = models(root, base_url=server.base_url, **trusted)
        assert without.complete(ASKED)[0].reason == "server_error"
        assert len(server.visits) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ca_bundle": "none.pem"}, r"models\.chat\.default\.ca_bundle: .*none\.pem: No such file"),
        (
            {"ca_bundle": "settings.yaml"},
            r"models\.chat\.default\.ca_bundle: .*settings\.yaml: not a certificate in PEM",
        ),
        (
            {"client_cert": "none.pem"},
            r"models\.chat\.default\.client_cert: .*none\.pem: No such file",
        ),
    ],
)
def test_a_file_of_certificates_that_cannot_be_read_is_named(
    settings: dict[str, str], said: str, root: Path
):
    chat, *_ = models(root, base_url="https://127.0.0.1:9/v1", **settings)
    with pytest.raises(SettingsError, match=said):
        chat.preflight()
