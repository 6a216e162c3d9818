"""A key typed into a page, the session it begins, and who else may not use it."""

import hashlib
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest
from itsdangerous import TimestampSigner

from pipeline.errors import SettingsError
from pipeline.query.caller import Caller
from pipeline.serve.access import Access, access_list_of
from pipeline.serve.sessions import SIGNING_FILE, EndedSessions, Session, sessions_of
from pipeline.serve.tries import (
    ADDRESSES,
    LATE_SECONDS,
    TRIES,
    TRIES_OF_ALL,
    TRY_SECONDS,
    Tries,
    counted_address,
)
from tests.projects import ProjectFolder
from tests.serve.serving import QUESTION, Serving, serving

ALL, SALES = "the kéy of all", "sales-key"
PAGE = {"Accept": "text/html,application/xhtml+xml"}
KEYS = [
    f"serve.api_key={ALL}", f"serve.keys.sales={{key: {SALES}, where: {{source: institute.txt}}}}",
    "serve.session_hours=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def guarded(folder: ProjectFolder) -> Iterator[Serving]:
    with folder.open(*KEYS) as project, serving(project) as served:
        yield served


@pytest.fixture
def browser(guarded: Serving) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=guarded.url, timeout=30, headers=PAGE) as client:
        yield client


def sign_in(
    browser: httpx2.Client, key: str = ALL, back: str = "", **headers: str
) -> httpx2.Response:
    ours = {"Sec-Fetch-Site": "same-origin"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return browser.post("/login", data={"key": key, "next": back}, headers=ours)


def cookie_of(answer: httpx2.Response) -> tuple[str, str, Mapping[str, str | bool]]:
    ((name, morsel),) = SimpleCookie(answer.headers["set-cookie"]).items()
    return name, morsel.value, {key.lower(): value for key, value in morsel.items() if value}


def test_without_a_session_a_page_leads_to_the_login_and_back(browser: httpx2.Client):
    for path, here in (
        ("/", "./"),
        ("/graph?entity=ent-1", "./"),
        ("/docs", "./"),
        ("/documents/a/b", "../../"),
    ):
        answer = browser.get(path)
        where = urlsplit(answer.headers["location"])
        assert (answer.status_code, where.path, where.netloc) == (303, f"{here}login", "")
        assert parse_qs(where.query).get("next", [""]) == [path.removeprefix("/")]
    for path in ("/ui/state", "/graph"):
        assert browser.get(path, headers={"Accept": "application/json"}).status_code == 401
    assert browser.post("/query", json={"query": QUESTION}).status_code == 401


def test_signing_in(browser: httpx2.Client):
    form = browser.get("/login?next=graph")
    assert (form.status_code, 'value="graph"' in form.text) == (200, True)
    answer = sign_in(browser, f" {ALL} ", "graph?entity=ent-1")
    assert (answer.status_code, answer.headers["location"]) == (303, "./graph?entity=ent-1")
    state = browser.get("/ui/state").json()
    assert (state["who"], state["sees_all"], state["editor"]) == ("api_key", True, False)
    assert browser.get("/graph").status_code == 200
    assert browser.get("/login?next=runs").headers["location"] == "./runs"


def test_the_cookie_holds_no_key_and_no_script_reads_it(browser: httpx2.Client):
    name, value, attributes = cookie_of(sign_in(browser))
    assert attributes == {"httponly": True, "samesite": "strict", "path": "/", "max-age": "7200"}
    assert value.startswith("api_key.")
    # The whole key is looked for: its short words can occur in a random value by chance.
    plain = ALL.encode()
    for written in (ALL, quote(ALL), plain.hex(), urlsafe_b64encode(plain).decode().rstrip("=")):
        assert written not in value
    assert name.startswith("graphmill-")


def test_behind_https_it_goes_over_https_alone(browser: httpx2.Client):
    _, _, attributes = cookie_of(sign_in(browser, X_Forwarded_Proto="https"))
    assert attributes["secure"]


def test_a_wrong_key_begins_nothing(browser: httpx2.Client):
    for key in ("", "no-such-key", ALL[:-1], SALES.upper()):
        answer = sign_in(browser, key)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
        assert "not known" in answer.text
        assert key == "" or key not in answer.text
    assert browser.get("/ui/state", headers={"Accept": "*/*"}).status_code == 401


def test_too_many_wrong_keys_are_refused_and_a_right_one_never_is(folder: ProjectFolder):
    with (
        folder.open(*KEYS) as project,
        serving(project) as served,
        httpx2.Client(base_url=served.url, timeout=30, headers=PAGE) as browser,
        httpx2.Client(base_url=served.url, timeout=30, headers=PAGE) as signed_in,
    ):
        sign_in(signed_in)
        assert [sign_in(browser, "no-such-key").status_code for _ in range(TRIES + 1)] == [
            401
        ] * TRIES + [429]
        refused = sign_in(browser, "no-such-key")
        assert (refused.status_code, 0 < int(refused.headers["retry-after"]) <= 30) == (429, True)
        assert "too many such keys" in refused.text
        assert signed_in.get("/documents").status_code == 200
        assert sign_in(browser, "no-such-key", X_Forwarded_For="192.0.2.7").status_code == 401
        assert sign_in(browser).status_code == 303


def test_wrong_keys_in_headers_are_counted_as_typed_ones_are(folder: ProjectFolder):
    with folder.open(*KEYS) as project, serving(project) as served:

        def asked(key: str, path: str = "/ui/state") -> httpx2.Response:
            return httpx2.get(
                f"{served.url}{path}", headers=[(b"x-api-key", key.encode())], timeout=30
            )

        paths = [
            "/ui/state",
            "/health",
            "/session",
        ] * TRIES  # an open path tells whether a key is known, too
        assert {asked("wrong", path).status_code for path in paths[:TRIES]} == {200, 401}
        began = time.monotonic()
        refused = asked("wrong", "/session")
        assert time.monotonic() - began >= LATE_SECONDS
        assert (refused.status_code, refused.json()["error"]["type"]) == (
            429,
            "too_many_wrong_keys",
        )
        assert 0 < int(refused.headers["retry-after"]) <= 30
        assert asked(SALES).status_code == 200


def test_tries_are_free_again_in_time_and_take_no_more_room():
    now = 1000.0
    tries = Tries(clock=lambda: now)
    for _ in range(TRIES):
        assert tries.seconds_to_wait("a") == 0
        tries.add("a")
    assert (tries.seconds_to_wait("a"), tries.seconds_to_wait("b")) == (TRY_SECONDS / TRIES, 0)
    now += TRY_SECONDS / TRIES
    assert tries.seconds_to_wait("a") == 0
    tries.add("a")
    assert tries.seconds_to_wait("a") == TRY_SECONDS / TRIES
    for number in range(TRIES_OF_ALL):
        tries.add(f"other {number}")
    assert 0 < tries.seconds_to_wait("b") < TRY_SECONDS / TRIES
    now += TRY_SECONDS
    assert tries.seconds_to_wait("a") == tries.seconds_to_wait("b") == 0
    for number in range(2 * ADDRESSES):
        tries.add(f"one more {number}")
    assert len(tries.clear_at) <= ADDRESSES + 2


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [("2001:db8::1", "2001:db8::ffff", True), ("2001:db8::1", "2001:db8:0:1::1", False),
     ("192.0.2.1", "192.0.2.2", False), ("::ffff:192.0.2.1", "192.0.2.1", True),
     ("x" * 999, "", True)],
)  # fmt: skip
def test_whose_tries_they_are(host: str, other: str, same: bool):
    assert (counted_address(host) == counted_address(other)) == same


def test_the_login_page_learns_whether_somebody_has_signed_in(browser: httpx2.Client):
    """A link from another site brings no cookie along; a request of the login page itself does."""
    assert browser.get("/session").json() == {"signed_in": False}
    sign_in(browser)
    assert browser.get("/session", headers={"Sec-Fetch-Site": "same-origin"}).json() == {
        "signed_in": True
    }
    assert browser.get("/session", headers={"Sec-Fetch-Site": "cross-site"}).json() == {
        "signed_in": False
    }


def test_signing_out(browser: httpx2.Client):
    sign_in(browser)
    answer = browser.post("/logout", headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, answer.headers["location"]) == (303, "./login")
    assert not browser.cookies
    assert browser.get("/graph").status_code == 303


def test_a_copy_of_the_cookie_is_worth_nothing_after_signing_out_in_any_worker(
    browser: httpx2.Client, guarded: Serving, folder: ProjectFolder
):
    name, stolen, _ = cookie_of(sign_in(browser))
    headers = {"Cookie": f"{name}={stolen}", "Accept": "*/*"}
    assert httpx2.get(f"{guarded.url}/ui/state", headers=headers).status_code == 200
    with httpx2.Client(base_url=guarded.url, headers=PAGE) as elsewhere:
        sign_in(elsewhere)
        browser.post("/logout", headers={"Sec-Fetch-Site": "same-origin"})
        assert httpx2.get(f"{guarded.url}/ui/state", headers=headers).status_code == 401
        assert elsewhere.get("/graph").status_code == 200  # that of another browser goes on
    with folder.open(*KEYS) as project, serving(project) as another_process:
        assert httpx2.get(f"{another_process.url}/ui/state", headers=headers).status_code == 401


def test_an_ended_session_is_forgotten_with_its_cookie(tmp_path: Path):
    ended = EndedSessions(tmp_path / "ended", seconds=60)
    ended.add(session("old"))
    (of_old,) = ended.folder.glob("*/old")
    os.utime(of_old, (1, 1))
    EndedSessions(ended.folder, seconds=60).add(session("new"))
    assert [file.name for file in ended.folder.glob("*/*")] == ["new"]


def test_who_ends_any_number_of_sessions_leaves_few_files_and_ends_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.serve.sessions.MOST_ENDED", 10)
    ended = EndedSessions(tmp_path / "ended", seconds=60)
    for number in range(35):
        ended.add(session(str(number)))
    assert len(list(ended.folder.glob("*/*"))) <= 11
    assert all(ended.has(session(str(number))) for number in range(35))
    assert ended.has(session("another, begun before"))
    assert not ended.has(session("begun later", began=time.time() + 2))
    assert not ended.has(session("0", name="other"))


def test_who_ends_many_sessions_does_not_make_the_server_look_at_each_of_them_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ended, searches = EndedSessions(tmp_path / "ended", seconds=60), list[None]()
    monkeypatch.setattr(ended, "_forget_old_ones", lambda: searches.append(None))
    for number in range(5):
        ended.add(session(str(number)))
    assert len(searches) == 1


@pytest.mark.parametrize(
    "value", ["api_key", "api_key.x.y", "sales.{rest}", "{old}", "{foreign}", "", "nobody.{rest}"]
)
def test_a_cookie_that_is_no_session(browser: httpx2.Client, folder: ProjectFolder, value: str):
    secret = secret_of(folder)
    name, signed, _ = cookie_of(sign_in(browser))
    browser.cookies.clear()
    forged = value.format(
        rest=signed.partition(".")[2],
        old=made(f"{secret} {ALL}", hours_ago=3),
        foreign=made(f"{secret} another key"),
    )
    headers = {"Cookie": f"{name}={forged}", "Accept": "*/*"}
    assert browser.get("/ui/state", headers=headers).status_code == 401
    good = {"Cookie": f"{name}={made(f'{secret} {ALL}', hours_ago=1)}", "Accept": "*/*"}
    assert browser.get("/ui/state", headers=good).status_code == 200


def test_a_cookie_that_is_signed_with_the_key_alone_is_no_session(
    browser: httpx2.Client, folder: ProjectFolder
):
    """Otherwise keys could be guessed by cookies, without the delay of wrong keys."""
    name, _, _ = cookie_of(sign_in(browser))
    browser.cookies.clear()
    for secret, status in (("", 401), (f"{secret_of(folder)} ", 200)):
        headers = {"Cookie": f"{name}={made(secret + ALL)}", "Accept": "*/*"}
        assert browser.get("/ui/state", headers=headers).status_code == status


def test_a_secret_that_cannot_be_read_is_named(folder: ProjectFolder, tmp_path: Path):
    (tmp_path / SIGNING_FILE).mkdir(parents=True)
    with folder.open(*KEYS) as project, pytest.raises(SettingsError, match="session-signature"):
        sessions_of(replace(project, root=tmp_path), access_list_of(project))


def secret_of(folder: ProjectFolder) -> str:
    return (folder.root / SIGNING_FILE).read_text(encoding="utf-8")


def session(id: str, name: str = "sales", began: float = 0.0) -> Session:
    project: Any = None
    return Session(Access(Caller(name), project, project), id, began)


def made(key: str, hours_ago: int = 0) -> str:
    class Earlier(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() - 3600 * hours_ago

    signer = Earlier(key, "graphmill session", key_derivation="hmac", digest_method=hashlib.sha256)
    return signer.sign(f"api_key.{'0' * 32}").decode()


@pytest.mark.parametrize(("key", "status"), [(ALL, 200), ("a new one", 401)])
def test_any_worker_knows_a_session_and_a_changed_key_ends_it(
    browser: httpx2.Client, folder: ProjectFolder, key: str, status: int
):
    sign_in(browser)
    with folder.open(f"serve.api_key={key}") as project, serving(project) as served:
        answer = httpx2.get(f"{served.url}/ui/state", cookies=dict(browser.cookies))
        assert answer.status_code == status


FROM_ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    {},
]


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
def test_the_cookie_counts_for_no_other_page(browser: httpx2.Client, headers: Mapping[str, str]):
    sign_in(browser)
    asked = browser.post("/query/data", json={"query": QUESTION}, headers=headers)
    assert asked.status_code == 401
    if headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        assert browser.get("/ui/state", headers={**headers, "Accept": "*/*"}).status_code == 401
    for path in ("/login", "/logout"):
        assert browser.post(path, data={"key": ALL}, headers=headers).status_code == 403


def test_it_counts_for_our_own_pages_also_in_browsers_that_tell_the_origin_alone(
    browser: httpx2.Client, guarded: Serving
):
    sign_in(browser)
    for headers in ({"Origin": guarded.url}, {"Sec-Fetch-Site": "same-origin"}):
        assert (
            browser.post("/query/data", json={"query": QUESTION}, headers=headers).status_code
            == 200
        )
    for headers in ({}, {"Sec-Fetch-Site": "none"}):
        assert browser.get("/ui/state", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "elsewhere",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example",
        "javascript:alert(1)", "/graph",
     "../x", ".//evil.example", "graph\r\nX: y", "%2F%2Fevil.example\n", "evil.example:80/x",
     "graph#x", 'a"onload=x',
     "graph/../../x", "graph/%2E%2e/%2e%2e/x", "%2e%2e/x"],
)  # fmt: skip
def test_nobody_is_sent_to_another_host(browser: httpx2.Client, elsewhere: str):
    assert 'name="next" value=""' in browser.get("/login", params={"next": elsewhere}).text
    assert sign_in(browser, back=elsewhere).headers["location"] == "./"
    assert browser.get("/login", params={"next": elsewhere}).headers["location"] == "./"


def test_where_no_key_is_wanted_nobody_signs_in(served: Serving):
    answer = served.client.get("/login?next=graph", headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "./graph")
    assert "logout" not in served.client.get("/", headers=PAGE).text


def test_the_key_is_in_no_log(browser: httpx2.Client, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", "graphmill"):
        sign_in(browser, SALES)
        sign_in(browser, "wrong-key")
        browser.get("/graph?q=secret")
    told = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("graphmill")
    )
    assert "/login" in told
    assert not {word for word in (SALES, "wrong-key", "secret") if word in told}
