"""Signing in by an OpenID Connect provider, and what brings nobody in."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from playwright.sync_api import expect

from pipeline.project import Project
from pipeline.runs.audit import AuditLog
from pipeline.serve.server import listen
from pipeline.serve.tries import LATE_SECONDS, TRIES
from tests.projects import ProjectFolder
from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look
from tests.servers.oidc_server import CLIENT, SECRET, Claims, OidcServer, Person, oidc_server

PAGE = {"Accept": "text/html"}
GROUPS = "serve.users.groups={editors: {editor: true}, institute: {where: {source: institute.txt}}}"


@contextmanager
def signing_in(folder: ProjectFolder, provider: OidcServer, *settings: str) -> Iterator[Serving]:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
    oidc = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": SECRET,
            "public_url": f"http://127.0.0.1:{port}/"}  # fmt: skip
    given = [f"serve.users.oidc.{name}={value}" for name, value in oidc.items()]
    provider.redirect = f"http://127.0.0.1:{port}/oidc/callback"
    with (
        folder.open(GROUPS, *given, f"serve.port={port}", *settings) as project,
        serving(project, port=port) as served,
    ):
        yield served


@pytest.fixture
def provider() -> Iterator[OidcServer]:
    with oidc_server() as started:
        yield started


@pytest.fixture
def browser() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=30, headers=PAGE) as client:
        yield client


def leave(browser: httpx2.Client, served: Serving, back: str = "") -> str:
    """The address that leads back from the provider."""
    sent = browser.get(f"{served.url}/oidc/login", params={"next": back})
    assert sent.status_code == 303
    page = browser.get(sent.headers["location"])
    assert page.status_code == 200, page.text
    return page.text.split('href="')[1].split('"')[0].replace("&amp;", "&")


def state(browser: httpx2.Client, served: Serving) -> httpx2.Response:
    return browser.get(f"{served.url}/ui/state", headers={"Accept": "*/*"})


def test_there_and_back(folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client):
    with signing_in(folder, provider, "serve.session_hours=1") as served:
        assert browser.get(f"{served.url}/graph").headers["location"] == "./login?next=graph"
        login = browser.get(f"{served.url}/login?next=documents%3Fq%3Da").text
        assert 'href="./oidc/login?next=documents%3Fq%3Da"' in login
        assert 'name="key"' not in login  # there are none
        back = leave(browser, served, "documents?q=a")
        (asked,) = provider.asked
        assert asked["scope"].split() == ["openid", "profile", "email"]
        arrived = browser.get(back)
        assert (arrived.status_code, 'url=../documents?q=a"' in arrived.text) == (200, True)
        told = state(browser, served).json()
        assert (told["who"], told["sees_all"]) == ("ana", False)
        assert browser.get(f"{served.url}/graph").status_code == 403
        name = next(cookie.name for cookie in browser.cookies.jar)
        assert [cookie.name for cookie in browser.cookies.jar] == [name]  # that of the way is gone
        stolen = dict(browser.cookies)
        browser.post(f"{served.url}/logout", headers={"Sec-Fetch-Site": "same-origin"})
        assert httpx2.get(f"{served.url}/ui/state", cookies=stolen).status_code == 401


def changed(**claims: object):
    return lambda before: {
        name: value for name, value in {**before, **claims}.items() if value is not None
    }


def signed_by_another(claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, RSAKey.generate_key(2048))


def signed_with_the_secret(claims: Claims) -> str:
    return jwt.encode({"alg": "HS256", "kid": "first"}, claims, OctKey.import_key(SECRET))


def not_signed(claims: Claims) -> str:
    _, body, _ = signed_by_another(claims).split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    return f"{head}.{body}."


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("claims", changed(iss="https://evil.example")), ("claims", changed(iss=None)),
        ("claims", changed(aud="another-client")), ("claims", changed(aud=None)),
        ("claims", changed(aud=["another", "third"])),
        ("claims", changed(exp=int(time.time()) - 100)), ("claims", changed(exp=None)),
        ("claims", changed(nonce="of another attempt")), ("claims", changed(nonce=None)),
        ("claims", changed(iat=int(time.time()) + 4000)), ("claims", changed(sub=None)),
        ("claims", changed(preferred_username="a" * 300)), ("claims", changed(groups=7)),
        ("claims", changed(groups={"editors": 1})),
        ("signed", signed_by_another), ("signed", signed_with_the_secret), ("signed", not_signed),
        ("signed", lambda claims: "no.token.atall"), ("calls_itself", "https://evil.example"),
    ],
)  # fmt: skip
def test_a_token_that_cannot_be_relied_on_brings_nobody_in(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client, what: str, value: object
):
    with signing_in(folder, provider) as served:
        if what == "calls_itself":
            provider.calls_itself = str(value)
            assert browser.get(f"{served.url}/oidc/login").status_code == 502
            return
        back = leave(browser, served)
        setattr(provider, what, value)
        refused = browser.get(back)
        assert (refused.status_code, "did not succeed" in refused.text) == (401, True)
        assert state(browser, served).status_code == 401


def test_only_the_browser_that_began_can_end_and_only_once(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client
):
    """Else a link could sign somebody in as another, or a code that was read on the way could be
    used."""
    with signing_in(folder, provider) as served, httpx2.Client(timeout=30, headers=PAGE) as another:
        back = leave(browser, served)
        assert another.get(back).status_code == 401
        state_of_another = parse_qs(urlsplit(leave(another, served)).query)["state"][0]
        assert (
            browser.get(f"{served.url}/oidc/callback?code=x&state={state_of_another}").status_code
            == 401
        )
        back = leave(browser, served)
        assert browser.get(back).status_code == 200
        assert browser.get(back).status_code == 401
        denied = f"{served.url}/oidc/callback?error=access_denied&error_description=%3Cb%3EVisit+evil.example"  # noqa: E501
        assert "evil" not in browser.get(denied).text


def test_strangers_cannot_fill_the_audit_log(folder: ProjectFolder, provider: OidcServer):
    log = AuditLog(folder.root / "data/audit")
    with signing_in(folder, provider, "serve.audit.enabled=true") as served:
        before = len(list(log.lines()))
        for _ in range(TRIES + 2):
            assert (
                httpx2.get(f"{served.url}/oidc/callback?code=x&state=x", timeout=30).status_code
                == 401
            )
        assert len(list(log.lines())) == before + TRIES


def test_after_too_many_failures_the_provider_is_asked_late(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client
):
    with signing_in(folder, provider) as served:
        for _ in range(TRIES):
            browser.get(f"{served.url}/oidc/callback?code=x&state=x")
        # Only a browser that began at the provider reaches it with its code.
        back = leave(browser, served)
        assert not provider.exchanged_at
        began = time.monotonic()
        assert browser.get(back).status_code == 200
        assert provider.exchanged_at[0] - began >= LATE_SECONDS


def test_a_code_is_worth_nothing_without_the_verifier(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client
):
    with signing_in(folder, provider) as served:
        back = leave(browser, served)
        code = next(iter(provider.codes))
        provider.codes[code]["code_challenge"] = "x" * 43
        assert browser.get(back).status_code == 401


def test_groups_come_from_the_userinfo_where_the_token_has_none(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client
):
    provider.person = Person(
        {"sub": "7"}, {"preferred_username": "bob", "groups": [f"g{n}" for n in range(300)]}
    )
    provider.person.elsewhere["groups"].append("editors")
    with signing_in(folder, provider, "serve.read_only=false") as served:
        assert browser.get(leave(browser, served)).status_code == 200
        told = state(browser, served).json()
        assert (told["who"], told["editor"]) == ("bob", True)
        assert all(len(cookie.value or "") < 1000 for cookie in browser.cookies.jar)
        provider.person.elsewhere["sub"] = "8"
        with httpx2.Client(timeout=30, headers=PAGE) as another:
            assert another.get(leave(another, served)).status_code == 401


def test_who_is_in_no_group_is_told_so_and_a_changed_setting_ends_sessions(
    folder: ProjectFolder, provider: OidcServer, browser: httpx2.Client
):
    provider.person = Person({"sub": "7", "preferred_username": "<b>eve", "groups": "guests"})
    with signing_in(folder, provider) as served:
        refused = browser.get(leave(browser, served))
        assert (refused.status_code, "&lt;b&gt;eve is in no group" in refused.text) == (403, True)
        provider.person.claims["groups"] = "institute"
        assert browser.get(leave(browser, served)).status_code == 200
        session = {cookie.name: cookie.value or "" for cookie in browser.cookies.jar}
    with signing_in(folder, provider, "serve.users.groups={institute: {}}") as wider:
        assert httpx2.get(f"{wider.url}/ui/state", cookies=session).json()["sees_all"] is True
    with signing_in(folder, provider, "serve.users.groups={others: {}}") as without:
        assert httpx2.get(f"{without.url}/ui/state", cookies=session).status_code == 401


def test_the_secret_that_signs_sessions_is_of_this_account_alone(
    folder: ProjectFolder, provider: OidcServer
):
    with signing_in(folder, provider) as served:
        file = folder.root / "data/serve/session-signature"
        assert (file.stat().st_mode & 0o077, len(file.read_text()) > 40) == (0, True)
        made: Project = folder.open()
        assert file.read_text() not in repr(made)
        assert served.client.get("/openapi.json").status_code == 401


def test_in_a_browser(look: Look, folder: ProjectFolder, provider: OidcServer):
    with signing_in(folder, provider) as served:
        watched = look(f"{served.url}/documents")
        page = watched.page
        page.get_by_role("link", name="Sign in with your organisation's account").click()
        page.get_by_role("link", name="Go on as ana").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
        assert page.url == f"{served.url}/documents"
        page.locator("summary", has_text="More").click()
        expect(page.get_by_text("Signed in as ana")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(
            page.get_by_role("link", name="Sign in with your organisation's account")
        ).to_be_visible()
        assert watched.complaints == []
