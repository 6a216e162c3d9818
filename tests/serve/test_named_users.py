"""Users whom a proxy, or a chat front end with its key, names in headers: from where that is
believed, and what they may."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from itsdangerous import TimestampSigner

from pipeline.errors import SettingsError
from pipeline.project import Project
from pipeline.serve.access import access_list_of
from pipeline.serve.sessions import SIGNING_FILE, OneTimeToken
from pipeline.settings.keys import key_warnings
from pipeline.text.ids import digest
from tests.projects import ProjectFolder
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, Serving, serving
from tests.servers.openai_server import OpenAIServer

FRONT, PLAIN = "the-front-end's-key", "a-key-of-its-own-only"
GROUPS = (
    "serve.users.groups={institute: {where: {source: institute.txt}}, 'Ops Ä': {editor: true}, "
    "'*': {modes: [naive], where: {source: none.txt}}}"
)
PROXY = [GROUPS, "serve.users.proxies=['127.0.0.0/8']", "serve.read_only=false"]
WITH_A_KEY = "https://wiki.example.org"
"""An origin whose pages may ask with a key, and only so."""
WHERE_ELSE = [GROUPS, "serve.users.proxies=['192.0.2.1']"]
FRONT_END = [
    f'serve.keys.front={{key: "{FRONT}", acts_for_users: true}}',
    f"serve.keys.plain={{key: {PLAIN}}}",
]


@pytest.fixture(scope="module")
def proxied(folder: ProjectFolder) -> Iterator[Serving]:
    with (
        folder.open(*PROXY, f"serve.cors_origins=['{WITH_A_KEY}']") as project,
        serving(project) as served,
    ):
        yield served


@pytest.fixture(scope="module")
def fronted(folder: ProjectFolder) -> Iterator[Serving]:
    with folder.open(GROUPS, *FRONT_END) as project, serving(project) as served:
        yield served


def named(user: str = "", groups: str | None = None, **more: str) -> list[tuple[bytes, bytes]]:
    headers = {"X-Forwarded-User": user} if user else {}
    headers |= {"X-Forwarded-Groups": groups} if groups is not None else {}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def sources(served: Serving, headers: list[tuple[bytes, bytes]]) -> set[str]:
    asked = {"query": "Mira Vale and the Harrow Light", "mode": "naive"}
    answer = httpx2.post(f"{served.url}/query/data", json=asked, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return {chunk["source"] for chunk in answer.json()["chunks"]}


def state(served: Serving, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return httpx2.get(f"{served.url}/ui/state", headers=headers, timeout=60).json()


def test_the_first_group_of_the_settings_says_what_a_user_of_the_proxy_may(proxied: Serving):
    assert sources(proxied, named("ana", "institute")) == {"institute.txt"}
    assert sources(proxied, named("ana", "Ops Ä, institute,x")) == {"institute.txt"}
    assert "harbour.txt" in sources(proxied, named("ana", "x, Ops Ä"))
    assert sources(proxied, named("ana")) == set()  # "*" sees a source that is not there
    ana = state(proxied, named("anä@example.org", "Ops Ä"))
    assert (ana["who"], ana["editor"], ana["sees_all"]) == ("anä@example.org", True, True)
    bob = state(proxied, named("bob", "institute"))
    assert (bob["editor"], bob["sees_all"]) == (False, False)
    assert "groups" in bob["locked"]


def test_who_is_not_named_is_nobody(proxied: Serving):
    for headers in (named(), named(groups="Ops Ä")):
        refused = httpx2.get(f"{proxied.url}/ui/state", headers=headers)
        assert refused.status_code == 401
        assert "the proxy names no user in X-Forwarded-User" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        [*named("ana", "institute"), *named("root")],  # one of them is the client's own
        [*named("ana", "institute"), (b"X-Forwarded-Groups", "Ops Ä".encode())],
        named("a" * 201, "institute"),
        named("ana\u0085x", "institute"),
    ],
)
def test_a_name_that_cannot_be_relied_on_is_refused(
    proxied: Serving, headers: list[tuple[bytes, bytes]]
):
    assert httpx2.get(f"{proxied.url}/ui/state", headers=headers).status_code == 403


def test_a_page_of_another_site_does_not_ask_in_the_name_that_the_proxy_adds(proxied: Serving):
    body = {"decision": "same", "a": "Mira Vale", "b": "Harrow Light"}
    pages = [
        {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Origin": WITH_A_KEY},
    ]
    for elsewhere in pages:
        headers = named("ana", "Ops Ä", **elsewhere)
        assert httpx2.post(f"{proxied.url}/ui/pin", json=body, headers=headers).status_code == 401
        assert httpx2.get(f"{proxied.url}/ui/state", headers=headers).status_code == 401
    page = httpx2.get(
        f"{proxied.url}/documents",
        headers=named("a", "x", Accept="text/html", Sec_Fetch_Site="cross-site"),
    )
    assert (page.status_code, page.headers["location"]) == (303, "./login?next=documents")
    assert httpx2.get(f"{proxied.url}/session", headers=named("a", "x")).json() == {
        "signed_in": True
    }


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_names_in_either_encoding_are_told_apart(proxied: Serving, encoding: str):
    for user in ("José", "Josè"):
        headers = {"X-Forwarded-User": user, "X-Forwarded-Groups": "Ops Ä"}
        encoded = [(name.encode(), value.encode(encoding)) for name, value in headers.items()]
        told = state(proxied, encoded)
        assert (told["who"], told["editor"]) == (user, True)


def test_from_any_other_address_the_headers_are_nothing(folder: ProjectFolder):
    with folder.open(*WHERE_ELSE) as project, serving(project) as served:
        for headers in (named("ana", "Ops Ä"), named("ana", "Ops Ä", X_Forwarded_For="192.0.2.1")):
            assert httpx2.get(f"{served.url}/ui/state", headers=headers).status_code == 401


def test_the_page_for_the_person_here_trusts_no_proxy_of_the_settings(folder: ProjectFolder):
    token = OneTimeToken(renewed=[].append)
    with folder.open(*PROXY) as project, serving(project, token=token) as served:
        refused = httpx2.get(f"{served.url}/ui/state", headers=named("ana", "Ops Ä"))
    assert refused.status_code == 401
    assert (
        "the address that graphmill ui shows in its terminal" in refused.json()["error"]["message"]
    )


def test_a_front_end_asks_for_its_user(fronted: Serving):
    assert sources(fronted, named("ana", "institute", X_API_Key=FRONT)) == {"institute.txt"}
    assert "harbour.txt" in sources(fronted, named("ana", "Ops Ä", X_API_Key=FRONT))
    assert state(fronted, named("ana", "institute", X_API_Key=FRONT))["who"] == "ana"


def test_only_over_its_key_and_never_for_nobody(fronted: Serving):
    for headers, status in (
        (named("ana", "institute"), 401), (named("ana", "institute", X_API_Key="wrong"), 401),
        (named("ana", "institute", X_API_Key=PLAIN), 403), (named(X_API_Key=FRONT), 403),
        (named(X_API_Key=PLAIN), 200),
    ):  # fmt: skip
        assert httpx2.get(f"{fronted.url}/ui/state", headers=headers).status_code == status, headers


def session_of(key: str, named: str, project: Project) -> list[tuple[bytes, bytes]]:
    """A cookie that somebody has signed who knows the key and the project's secret."""
    secret = (project.root / SIGNING_FILE).read_text(encoding="utf-8")
    signer = TimestampSigner(
        f"{secret} {key}", "graphmill session", key_derivation="hmac", digest_method=hashlib.sha256
    )
    cookie = f"graphmill-{digest(str(project.root))[:8]}={signer.sign(named).decode()}"
    return [(b"Cookie", cookie.encode()), (b"Sec-Fetch-Site", b"same-origin")]


def test_its_key_begins_no_session(fronted: Serving, folder: ProjectFolder):
    own_page = {"Sec-Fetch-Site": "same-origin"}
    answer = httpx2.post(f"{fronted.url}/login", data={"key": FRONT}, headers=own_page)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert "acts for users" in answer.text
    for key, name, status in ((PLAIN, "plain", 200), (FRONT, "front", 401)):
        headers = session_of(key, f"{name}.{'ab' * 16}", folder.open())
        asked = httpx2.get(f"{fronted.url}/ui/state", headers=headers)
        assert asked.status_code == status


def test_a_key_makes_no_file_where_its_holder_likes(
    fronted: Serving, folder: ProjectFolder, tmp_path: Path
):
    """Signing out makes a file whose name is the id of the session."""
    headers = session_of(PLAIN, f"plain.{tmp_path / 'made'}", folder.open())
    httpx2.post(f"{fronted.url}/logout", headers=headers)
    assert not list(tmp_path.iterdir())
    assert httpx2.get(f"{fronted.url}/ui/state", headers=headers).status_code == 401


def test_users_of_no_group_are_refused_and_told_why(folder: ProjectFolder):
    groups = "serve.users.groups={institute: {}}"
    with folder.open(groups, *PROXY[1:], *FRONT_END) as project, serving(project) as served:
        for headers in (named("ana", "x"), named("ana", "x", X_API_Key=FRONT)):
            refused = httpx2.post(
                f"{served.url}/query/data", json={"query": QUESTION}, headers=headers
            )
            assert refused.status_code == 403
            assert "serve.users.groups" in refused.json()["error"]["message"]


def test_what_users_spend_counts_for_the_user_or_for_the_front_ends_key(
    folder: ProjectFolder, openai: OpenAIServer
):
    keys = f'serve.keys.front={{key: "{FRONT}", acts_for_users: true, cost_per_day: 0.0001}}'
    groups = "serve.users.groups={'*': {cost_per_day: 0.0001}}"
    price = "models.chat.default.price={input: 100, output: 100}"
    settings = [*models_of(openai), keys, groups, PROXY[1], price, "cache=''"]
    asked = {"query": QUESTION, "mode": "naive"}
    with folder.open(*settings) as project, serving(project) as served:

        def ask(headers: list[tuple[bytes, bytes]]) -> int:
            return httpx2.post(
                f"{served.url}/query", json=asked, headers=headers, timeout=60
            ).status_code

        assert [ask(named("ana")), ask(named("ana")), ask(named("bob"))] == [200, 429, 200]
        by_key = [ask(named(user, X_API_Key=FRONT)) for user in ("ana", "eve")]
        assert by_key == [200, 429], "a front end cannot spend more by naming more users"
        spent = project.question_journal.spent_today()
    assert {"user:ana", "user:bob", "front"} <= set(spent)


OIDC = "{issuer: 'https://a.example', client_id: x, public_url: 'https://b.example'}"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["serve.users.proxies=['10.0.0.5']"], "nobody is let in without groups"),
        (
            ["serve.users.groups={a: {where: {year: {'~': 1}}}}", PROXY[1]],
            "serve.users.groups.a.where: 'year' has no operator",
        ),
        (
            ["serve.users.groups={a: {editor: true, where: {source: x}}}"],
            "an editor sees all documents",
        ),
        (
            [GROUPS, "serve.keys.k={key: x, acts_for_users: true, where: {source: x}}"],
            "remove where",
        ),
        (
            [GROUPS, "serve.keys.k={key: x, acts_for_users: true, editor: true, modes: [naive]}"],
            "remove editor, modes",
        ),
        ([GROUPS], "nothing says who is in them"),
        ([GROUPS, "serve.api_key=a-key-of-sixteen-or-more"], "nothing says who is in them"),
        ([GROUPS, PROXY[1], "serve.users.groups_header=x-forwarded-user"], "are the same header"),
        ([GROUPS, f"serve.users.oidc={OIDC}", "serve.page=false"], "set serve.page to true"),
        (["serve.users.oidc={client_id: x, public_url: 'https://b.example'}"], "issuer is empty"),
        (
            ["serve.users.oidc={issuer: 'https:', client_id: x, public_url: 'https://b.example'}"],
            "no https address",
        ),
        (["serve.users.proxies=['10.0.0.5/8']"], "host bits set; write an address, or a network"),
        (["serve.users.groups={a: {where: {}}}", PROXY[1]], "groups.a.where: no condition"),
        (["serve.users.user_header='X User'"], "serve.users.user_header"),
        (["serve.users.oidc={issuer: 'https://a.example'}"], "needs client_id and public_url"),
        (
            [
                "serve.users.oidc={issuer: 'http://a.example', client_id: x, public_url: 'https://b.example'}"
            ],
            "no https",
        ),
    ],
)
def test_settings_that_make_no_sense_are_told_at_the_start(
    folder: ProjectFolder, settings: list[str], said: str
):
    with pytest.raises(SettingsError, match=said), folder.open(*settings) as project:
        access_list_of(project)


def test_a_group_below_everybodys_is_warned_of(folder: ProjectFolder):
    with folder.open("serve.users.groups={a: {}, '*': {}, b: {}}", PROXY[1]) as project:
        (warning,) = key_warnings(project.settings.serve)
    assert warning.startswith("serve.users.groups.b: never used")


def test_without_such_settings_the_headers_are_nothing(served: Serving, project: Project):
    assert state(served, named("ana", "Ops Ä"))["who"] == ""
    assert access_list_of(project).open is not None
