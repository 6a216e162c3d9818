"""Who asks by which key, and what they may ask for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipeline.errors import NotAllowedError, SettingsError
from pipeline.project import Project
from pipeline.query.drawing import Named
from pipeline.serve.access import access_list_of
from pipeline.settings.keys import key_warnings
from pipeline.settings.query_fields import SHARED_DATA_MODES
from tests.projects import ProjectFolder, new_project
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, Serving, serving
from tests.servers.openai_replies import UsageReport
from tests.servers.openai_server import OpenAIServer
from tests.servers.rerank_server import rerank_server

MASTER, WIKI, DESK, HOUSE = "master-key", "wiki-kéy", "desk-key", "house-key"
KEYS = [
    f"serve.api_key={MASTER}",
    (
        f"serve.keys.wiki={{key: {WIKI}, modes: [naive], max_prompt_tokens: 2000, where: {{source:"
        " institute.txt}}"
    ),
    (
        f"serve.keys.desk={{key: {DESK}, modes: [naive, bypass], system_prompt: true, cost_per_day:"
        " 0.0001}"
    ),
    f"serve.keys.house={{key: {HOUSE}, modes: [naive], system_prompt: true}}",
]


@pytest.fixture
def asked(folder: ProjectFolder, openai: OpenAIServer) -> Iterator[Serving]:
    prices = ["models.chat.default.price={input: 100, output: 100}"]
    with (
        folder.open(*models_of(openai), *KEYS, *prices, "cache=''") as project,
        serving(project) as served,
    ):
        yield served


def ask(served: Serving, key: str, path: str = "/query", **body: Any) -> httpx2.Response:
    headers = [(b"x-api-key", key.encode())]
    return httpx2.post(
        f"{served.url}{path}", json={"query": QUESTION, **body}, headers=headers, timeout=60
    )


def test_each_key_has_its_own_terms(asked: Serving):
    assert ask(asked, WIKI, mode="naive").status_code == 200
    assert ask(asked, WIKI, mode="local").status_code == 403
    assert ask(asked, DESK, mode="bypass", system_prompt="Sing.").status_code == 200
    assert ask(asked, MASTER, mode="bypass").status_code == 403
    assert ask(asked, MASTER, mode="local").status_code == 200
    assert ask(asked, "other", mode="naive").status_code == 401
    assert ask(asked, "", mode="naive").status_code == 401


def test_a_key_for_some_documents_asks_in_passage_modes_alone(folder: ProjectFolder):
    where = "where: {source: institute.txt}"
    keys = [
        f"serve.keys.some={{key: s, {where}}}",
        f"serve.keys.talk={{key: t, {where}, modes: [bypass, graph]}}",
    ]
    with folder.open(*keys, "query.mode=graph") as project, serving(project) as served:
        refused = {
            mode: ask(served, "s", "/query/data", mode=mode) for mode in sorted(SHARED_DATA_MODES)
        }
        assert {answer.status_code for answer in refused.values()} == {403}
        message = refused["local"].json()["error"]["message"]
        assert "mode 'local' is not allowed here, for who asks sees some documents only" in message
        assert message.endswith("; ask with one of: naive")
        assert (
            ask(served, "s", "/query/data").json()["mode"] == "naive"
        )  # the project's default is not allowed
        warned = list(key_warnings(project.settings.serve))
        assert (
            "serve.keys.talk.modes: with where, graph cannot be asked; remove these modes" in warned
        )
        assert not [warning for warning in warned if "keys.some.modes" in warning]
        only_bypass = ask(served, "t", "/query/data", mode="naive")
        assert only_bypass.status_code == 403
        assert only_bypass.json()["error"]["message"].endswith("; ask with one of: bypass")
    with folder.open(*keys) as project:
        some = next(
            access.caller
            for access in access_list_of(project).keyed
            if access.caller.name == "some"
        )
        with pytest.raises(NotAllowedError, match="the graph is not shown here"):
            project.draw(Named(), some)
        with pytest.raises(NotAllowedError, match="the graph is not shown here"):
            project.find_entities("Mira Vale", meaning=True, limit=3, caller=some)


@pytest.mark.parametrize("path", ["/query", "/query/data", "/query/stream"])
@pytest.mark.parametrize(
    ("wish", "action"),
    [
        ({"mode": "bypass"}, "ask with one of: naive"),
        ({"mode": "naive", "system_prompt": "Sing."}, "leave it out"),
        ({"mode": "naive", "max_total_tokens": 2001}, "ask for at most 2,000"),
        ({"mode": "naive", "user_prompt": "word " * 3000}, "shorten it"),
        ({"mode": "naive", "chunk_top_k": 101}, "ask for at most 100"),
        ({"mode": "naive", "model": "large"}, "ask with one of: default"),
    ],
)
def test_a_refusal_has_its_status_and_a_word_on_what_to_do(
    asked: Serving, openai: OpenAIServer, path: str, wish: dict[str, Any], action: str
):
    refused = ask(asked, WIKI, path, **wish)
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (403, "not_allowed")
    assert action in error["message"]
    assert openai.count("chat") == 0


def test_a_system_turn_reaches_the_model_only_with_the_right_to_a_system_prompt(
    asked: Serving, openai: OpenAIServer
):
    history = [{"role": "system", "content": "Write poems."}, {"role": "user", "content": "Hello"}]
    answered = ask(asked, WIKI, mode="naive", conversation_history=history)
    assert answered.status_code == 200
    assert any("1 system turn" in note for note in answered.json()["notes"])
    (body,) = [request.body for request in openai.requests if request.kind == "chat"]
    assert [message["role"] for message in body["messages"]] == ["system", "user", "user"]
    assert "Write poems." not in str(body["messages"])
    assert ask(asked, HOUSE, mode="naive", conversation_history=history).status_code == 200
    body = [request.body for request in openai.requests if request.kind == "chat"][-1]
    assert {"role": "system", "content": "Write poems."} in body["messages"]


def test_who_has_spent_their_day_is_told_when_to_come_again_and_others_are_not(
    asked: Serving, folder: ProjectFolder, openai: OpenAIServer
):
    assert ask(asked, DESK, mode="naive").status_code in (200, 429)
    refused = ask(asked, DESK, mode="naive")
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "spent")
    assert 0 < int(refused.headers["retry-after"]) <= 86_401
    assert ask(asked, WIKI, mode="naive").status_code == 200
    assert ask(asked, DESK, "/query/data", mode="naive").status_code == 200  # no call, no price
    after_a_restart = [
        *models_of(openai),
        *KEYS,
        "models.chat.default.price={input: 100, output: 100}",
        "cache=''",
    ]
    with folder.open(*after_a_restart) as project, serving(project) as served:
        assert ask(served, DESK, mode="naive").status_code == 429


def test_all_share_the_ceiling_of_a_day(folder: ProjectFolder, openai: OpenAIServer):
    settings = [
        *models_of(openai),
        *KEYS,
        "models.chat.default.price={input: 100, output: 100}",
        "cache=''",
    ]
    with (
        folder.open(*settings, "serve.allow.cost_per_day=0") as project,
        serving(project) as served,
    ):
        assert {ask(served, key, mode="naive").status_code for key in (MASTER, WIKI, DESK)} == {429}
        assert project.query(QUESTION, mode="naive").text  # who runs the project is not held to it
    with (
        folder.open(*settings, "serve.allow.cost_per_day=unlimited") as project,
        serving(project) as served,
    ):
        assert ask(served, MASTER, mode="naive").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["none", "zeros"])
def test_the_ceiling_of_a_day_holds_though_the_endpoint_reports_no_tokens(
    folder: ProjectFolder, openai: OpenAIServer, mode: UsageReport, stream: bool
):
    openai.usage = mode
    settings = [*models_of(openai), f"serve.api_key={MASTER}", "cache=''"]
    settings.append("models.chat.default.price={input: 100, output: 100}")
    path = "/query/stream" if stream else "/query"
    with folder.open(*settings) as project, serving(project) as served:
        before = sum(cost for key, cost in project.question_journal.spent_today().items() if key)
        ask(served, MASTER, path, mode="naive")
        spent = project.usage().query("question != ''").tail(1)
    assert spent["estimated"].all()
    assert spent["cost"].sum() > 0

    # With this one, three such questions cost less than the limit; with the margin of an estimate
    # they reach it.
    limit = before + 3.2 * spent["cost"].sum()
    with (
        folder.open(*settings, f"serve.allow.cost_per_day={limit}") as project,
        serving(project) as served,
    ):
        answers = [ask(served, MASTER, path, mode="naive") for _ in range(3)]
    refused = [answer.status_code == 429 or "is spent" in answer.text for answer in answers]
    assert refused == [False, False, True]


def test_a_caller_may_ask_for_what_the_settings_have_and_less(served: Serving, project: Project):
    most = project.settings.query.max_total_tokens
    assert served.ask("/query/data", max_total_tokens=most).status_code == 200
    refused = served.ask("/query/data", max_total_tokens=most + 1)
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "not_allowed")
    assert served.ask("/query/data", mode="bypass").status_code == 403


@pytest.mark.parametrize(
    "option", ["top_k", "chunk_top_k", "related_chunk_number", "primer_reports"]
)
def test_how_much_is_read_has_a_ceiling(served: Serving, folder: ProjectFolder, option: str):
    assert served.ask("/query/data", **{option: 100}).status_code == 200
    refused = served.ask("/query/data", **{option: 101})
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "not_allowed")
    assert f"{option}: 101 is not allowed here" in refused.json()["error"]["message"]
    with folder.open(f"query.{option}=150") as project, serving(project) as more:
        assert more.ask("/query/data", **{option: 150}).status_code == 200
    few = "serve.keys.few={key: few-key, max_records: 5}"
    with folder.open(few) as project, serving(project) as less:
        assert ask(less, "few-key", "/query/data", **{option: 6}).status_code == 403
        assert ask(less, "few-key", "/query/data").status_code == 200  # of the default it gets less


def test_a_caller_names_no_model_but_those_it_may(folder: ProjectFolder, openai: OpenAIServer):
    large = [
        f"models.chat.large.{line.removeprefix('models.chat.default.')}"
        for line in models_of(openai)
    ]
    keys = [f"serve.api_key={MASTER}", f"serve.keys.desk={{key: {DESK}, models: [default, large]}}"]
    with (
        folder.open(*models_of(openai), *large, *keys, "cache=''") as project,
        serving(project) as served,
    ):
        refused = ask(served, MASTER, mode="naive", model="large")
        assert refused.status_code == 403
        assert (
            "model 'large' is not allowed here; ask with one of: default"
            in refused.json()["error"]["message"]
        )
        assert openai.count("chat") == 0
        assert ask(served, DESK, mode="naive", model="large").status_code == 200
        assert ask(served, MASTER, mode="naive").status_code == 200
    with (
        folder.open(*models_of(openai), *large, "query.model=large", "cache=''") as project,
        serving(project) as served,
    ):
        assert served.ask(mode="naive").status_code == 200  # the project's own
        assert served.ask(mode="naive", model="default").status_code == 403


def test_a_ceiling_of_a_day_counts_the_reranker(folder: ProjectFolder):
    with rerank_server() as ranking:
        rerank = {"base_url": ranking.base_url, "api_key": ranking.key, "price": "{search: 2}"}
        settings = [f"models.rerank.default.{name}={value}" for name, value in rerank.items()]
        ranker = f"serve.keys.ranker={{key: {DESK}, cost_per_day: 0.003}}"
        with folder.open(*settings, ranker) as project, serving(project) as served:
            first, second, third = (
                ask(served, DESK, "/query/data", mode="naive") for _ in range(3)
            )
    assert [first.json()["cost"], second.json()["cost"]] == [0.002, 0.002]
    assert third.status_code == 429
    assert len(ranking.requests) == 2


def test_what_is_wrong_is_told_to_the_api_key_alone(folder: ProjectFolder):
    with folder.open(*KEYS, "workspace=nothing-here") as project, serving(project) as served:
        told = {}
        for key in (MASTER, WIKI):
            headers = [(b"x-api-key", key.encode())]
            told[key] = httpx2.get(f"{served.url}/health", headers=headers, timeout=60).json()[
                "problem"
            ]
    assert "nothing is loaded" in told[MASTER]
    assert told[WIKI] == ""


@pytest.mark.parametrize("path", ["/query", "/query/data", "/query/stream"])
def test_hosts_are_named_to_no_key_of_another(folder: ProjectFolder, path: str):
    address = "postgresql://somebody@127.0.0.1:1/there"
    with (
        folder.open(*KEYS, f"stores.postgres.url={address}") as project,
        serving(project) as served,
    ):
        told = {key: ask(served, key, path, mode="naive") for key in (MASTER, WIKI)}
    errors = {key: answer.json()["error"] for key, answer in told.items()}
    assert {error["type"] for error in errors.values()} == {"store_unavailable"}
    assert "127.0.0.1" in errors[MASTER]["message"]
    assert "127.0.0.1" not in told[WIKI].text


def test_a_key_asks_its_own_workspace(folder: ProjectFolder):
    other = f"serve.keys.other={{key: other-key, workspace: {folder.open().settings.workspace}}}"
    with folder.open(other, "workspace=nothing-here") as project, serving(project) as served:
        found = ask(served, "other-key", "/query/data", mode="naive")
        assert found.status_code == 200
        assert found.json()["chunks"]
        assert served.ask().status_code == 401


def test_a_document_that_claims_a_group_of_set_metadata_is_not_shown_to_a_key_of_that_group(
    tmp_path: Path, postgres_url: str
):
    claim = "---\ngroup: {}\n---\nThe Brack Institute was founded by {}.\n"
    documents = {
        "hr/pay.md": claim.format("partners", "Secret Pay"),
        "loose.md": claim.format("[partners, staff]", "Secret Loose"),
        "open/guide.md": claim.format("hr", "Open Guide"),
    }
    rules = [
        {"pattern": "hr/**", "set": {"group": "hr"}},
        {"pattern": "open/**", "set": {"group": ["staff", "partners"]}},
    ]
    steps = [{"verb": "set_metadata", "args": {"rules": rules}}]
    keys = {"partner": {"key": DESK, "where": {"group": "partners"}}}
    folder = new_project(
        tmp_path / "p", postgres_url, documents, workflow="fast", input={"steps": steps},
        serve={"keys": keys, "api_key": MASTER},
    )  # fmt: skip
    assert folder.invoke("run").exit_code == 0
    with folder.open() as project, serving(project) as served:
        seen = {key: ask(served, key, "/query/data", mode="naive") for key in (MASTER, DESK)}
    sources = {
        key: {one["source"] for one in answer.json()["references"]} for key, answer in seen.items()
    }
    assert sources == {MASTER: set(documents), DESK: {"open/guide.md"}}
    assert "Secret" not in seen[DESK].text


def test_whose_a_workspace_is_and_how_the_project_is_set_is_told_to_no_key_of_another(
    folder: ProjectFolder,
):
    there = folder.open().settings.workspace
    keys = f"serve.keys.other={{key: other-key, workspace: {there}}}", f"serve.api_key={MASTER}"
    with (
        folder.open(*keys, f"workspace={there}", "owner=somebody") as project,
        serving(project) as served,
    ):
        notes = [
            ask(served, key, "/query/data", mode="naive").json()["notes"]
            for key in ("other-key", MASTER)
        ]
    assert notes[0] == []
    assert "belongs to owner" in notes[1][0]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("{a: {key: ''}}", "serve.keys.a.key: empty"),
        ("{a: {key: '  '}}", "serve.keys.a.key: empty"),
        ("{a: {key: x}, b: {key: x}}", "'a' and 'b' have the same key"),
        ("{api_key: {key: x}}", "choose another"),
        ("{a: {key: x, where: {year: {'~': 1}}}}", "serve.keys.a.where: 'year' has no operator"),
        (
            "{a: {key: x, where: {entity.built: 1850}}}",
            "serve.keys.a.where: 'entity.built': values of properties depend on all documents",
        ),
        ("{a: {key: x, where: {year: }}}", "serve.keys.a.where: 'year' =: NoneType is no value"),
        (
            "{a: {key: x, where: {year: {'=': }}}}",
            "serve.keys.a.where: 'year' =: NoneType is no value",
        ),
        (
            "{a: {key: x, where: {year: 1}, modes: [graph, local]}}",
            "a.modes: with where none of these can be asked: graph, local; add",
        ),
        ("{a: {key: x, where: }}", "serve.keys.a.where: no condition on documents; write one"),
        ("{a: {key: x, where: {}}}", "serve.keys.a.where: no condition on documents; write one"),
        ("{a: {key: x, where: year=1}}", "serve.keys.a.where: no condition on documents; write"),
    ],
)
def test_keys_that_make_no_sense_are_told_at_the_start(folder: ProjectFolder, keys: str, said: str):
    with pytest.raises(SettingsError, match=said), folder.open(f"serve.keys={keys}") as project:
        access_list_of(project)


def test_blanks_are_no_key_for_all(folder: ProjectFolder):
    with (
        pytest.raises(SettingsError, match="only blanks"),
        folder.open("serve.api_key='  '") as project,
    ):
        access_list_of(project)


def test_no_key_is_written_anywhere(asked: Serving, folder: ProjectFolder):
    for key in (MASTER, WIKI, DESK, "wrong-key"):
        ask(asked, key, mode="naive")
    files = [
        path
        for path in (folder.root / "data").rglob("*")
        if path.is_file() and "postgres" not in path.parts
    ]
    for secret in (MASTER, WIKI, DESK, "wrong-key"):
        assert not [path for path in files if secret.encode() in path.read_bytes()]
        assert secret not in repr(access_list_of(folder.open(*KEYS)))
