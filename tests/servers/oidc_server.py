"""A real OpenID Connect provider on loopback, for one client: authorization code with PKCE, as
small as it can be.

It refuses what a client must not get wrong (redirect address, secret, code, verifier), and tells
what it is told to: ``claims`` changes the ID token, ``signed`` how it is signed.
"""

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "graphmill-tests", "the-client's-secret"
Claims = dict[str, Any]


@dataclass
class Person:
    """Who signs in. ``elsewhere``: claims that only the userinfo tells."""

    claims: Claims = field(
        default_factory=lambda: {"sub": "1", "preferred_username": "ana", "groups": ["institute"]}
    )
    elsewhere: Claims = field(default_factory=dict)


class OidcServer(ThreadingHTTPServer):
    """``person``: who signs in. ``claims`` and ``signed`` make a token that a client has to refuse.
    ``redirect``: the only address that people are sent back to. ``exchanged_at``: when codes came,
    in seconds of the monotonic clock."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}, private=True)
        self.redirect = ""
        self.person = Person()
        self.claims: Callable[[Claims], Claims] = lambda claims: claims
        self.signed: Callable[[Claims], str] = self.sign
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        self.calls_itself = self.issuer
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.exchanged_at: list[float] = []

    def sign(self, claims: Claims) -> str:
        return jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.key)

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.calls_itself,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }


class Handler(BaseHTTPRequestHandler):
    server: OidcServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        server = self.server
        if url.path == "/.well-known/openid-configuration":
            self.json(server.metadata)
        elif url.path == "/keys":
            self.json(KeySet([server.key]).as_dict(private=False))
        elif url.path == "/userinfo":
            known = self.headers["Authorization"] == "Bearer the-access-token"
            self.json(
                {**server.person.claims, **server.person.elsewhere} if known else {},
                200 if known else 401,
            )
        elif url.path == "/favicon.ico":  # which a browser asks for by itself
            self.send(b"", 200, "image/svg+xml")
        elif url.path == "/authorize":
            self.authorize(asked)
        else:
            self.json({}, 404)

    def authorize(self, asked: dict[str, str]) -> None:
        """A page with one link, that a person chooses."""
        server = self.server
        server.asked.append(asked)
        well = (asked.get("client_id"), asked.get("redirect_uri"), asked.get("response_type")) == (
            CLIENT, server.redirect, "code",
        )  # fmt: skip
        if not well or asked.get("code_challenge_method") != "S256" or not asked.get("nonce"):
            return self.json({"error": "invalid_request"}, 400)
        code = secrets.token_hex(8)
        server.codes[code] = asked
        back = f"{server.redirect}?{urlencode({'code': code, 'state': asked['state']})}"
        page = (
            f'<!DOCTYPE html><title>Sign in</title><a href="{html.escape(back)}">Go on as ana</a>'
        )
        self.send(page.encode(), 200, "text/html")
        return None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.exchanged_at.append(time.monotonic())
        given = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self.server.codes.pop(given.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if asked is None or self.headers["Authorization"] != f"Basic {basic}":
            return self.json({"error": "invalid_grant"}, 400)
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
            return self.json({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.server.issuer, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": asked["nonce"],
            **self.server.person.claims,
        }  # fmt: skip
        token = self.server.signed(self.server.claims(claims))
        return self.json(
            {"access_token": "the-access-token", "token_type": "Bearer", "id_token": token}
        )

    def json(self, content: Any, status: int = 200) -> None:
        self.send(json.dumps(content).encode(), status, "application/json")

    def send(self, content: bytes, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def oidc_server() -> Iterator[OidcServer]:
    server = OidcServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
