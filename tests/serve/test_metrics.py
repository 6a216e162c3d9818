"""/metrics: who may read it, and what it counts."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator

import httpx2
import pytest

from pipeline.errors import UsageError
from pipeline.serve.app import api_of
from pipeline.serve.metrics import (
    BOUNDS,
    SIZE,
    Counts,
    MetricsPage,
    metrics_at_port,
    shared_counts,
)
from pipeline.serve.server import Server, address_of, listen, make_ready
from tests.projects import ProjectFolder, new_project
from tests.runs.test_metrics import values
from tests.serve.serving import QUESTION, bearer, in_thread, wait_until
from tests.servers.openai_server import OpenAIServer, Reply

KEY, METRICS_KEY = "the-key-of-questions", "the-key-of-metrics"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    made = new_project(tmp_path_factory.mktemp("metrics") / "p", postgres_url, workflow="fast")
    assert made.invoke("run").exit_code == 0
    return made


@pytest.fixture(scope="module")
def url(folder: ProjectFolder) -> Iterator[str]:
    keys = [f"serve.api_key={KEY}", f"serve.metrics_key={METRICS_KEY}"]
    with folder.open(*keys) as project, listen("127.0.0.1", 0) as listening:
        make_ready(project)
        api = api_of(project, counts=Counts())
        with in_thread(Server(api.app, project.settings.serve, api.queries.end), listening):
            yield address_of(listening)


def read(url: str) -> dict[str, float]:
    answer = httpx2.get(f"{url}/metrics", headers=bearer(METRICS_KEY))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return values(answer.text)


def test_only_its_own_key_opens_it_and_it_opens_nothing_else(url: str):
    for given in ("", KEY, "wrong"):
        assert httpx2.get(f"{url}/metrics", headers=bearer(given)).status_code == 401
    assert httpx2.get(f"{url}/metrics", headers=bearer(METRICS_KEY)).status_code == 200
    assert httpx2.post(f"{url}/metrics", headers=bearer(METRICS_KEY)).status_code == 405
    asked = httpx2.post(f"{url}/query/data", json={"query": QUESTION}, headers=bearer(METRICS_KEY))
    assert asked.status_code == 401


def test_it_counts_answers_and_their_time_by_mode(url: str):
    before = read(url)
    body = {"query": QUESTION, "mode": "naive"}
    for path in ("/query/data", "/query/data"):
        answer = httpx2.post(f"{url}{path}", json=body, headers=bearer(KEY))
        assert answer.status_code == 200
    wrong = httpx2.post(f"{url}/query/data", json={}, headers=bearer(KEY))
    assert wrong.status_code == 422
    after = read(url)

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert more('graphmill_http_answers_total{status="200"}') == 2
    assert more('graphmill_http_answers_total{status="422"}') == 1
    assert more('graphmill_query_duration_seconds_count{mode="naive"}') == 2
    assert more('graphmill_query_duration_seconds_bucket{mode="naive",le="+Inf"}') == 2
    assert more('graphmill_query_duration_seconds_sum{mode="naive"}') > 0
    # The queue is looked at twice a second.
    wait_until(lambda: read(url)["graphmill_queries_running"] == 0)
    assert after["graphmill_queries_waiting"] == 0
    assert after['graphmill_run_last_state{workflow="fast",state="completed"}'] == 1


def test_it_counts_what_a_question_spent_that_then_failed(
    folder: ProjectFolder, openai: OpenAIServer
):
    of_chat = {"base_url": openai.base_url, "api_key": openai.key, "price": {"input": 1}}
    overrides = [
        f"serve.api_key={KEY}",
        f"serve.metrics_key={METRICS_KEY}",
        f"models.chat.default={json.dumps(of_chat)}",
    ]
    # The keywords are found, and then the model refuses to answer.
    statuses = iter([200])
    openai.reply = lambda messages, body: Reply(status=next(statuses, 400))
    with folder.open(*overrides) as project, listen("127.0.0.1", 0) as listening:
        api = api_of(project, counts=Counts())
        server = Server(api.app, project.settings.serve, api.queries.end)
        with in_thread(server, listening):
            url = address_of(listening)
            body = {"query": QUESTION, "mode": "local"}
            answer = httpx2.post(f"{url}/query", json=body, headers=bearer(KEY))
            found = read(url)
    assert answer.status_code >= 500
    assert found["graphmill_question_model_calls_total"] == openai.count("chat") == 2
    tokens = found['graphmill_question_tokens_total{direction="input"}']
    assert found["graphmill_question_cost_total"] == pytest.approx(tokens / 1e6)
    assert tokens > 0


def test_no_question_and_no_name_is_in_it(url: str):
    answer = httpx2.get(f"{url}/metrics", headers=bearer(METRICS_KEY)).text
    assert not any(word in answer for word in (KEY, METRICS_KEY, "Brack", "harbour", "api_key"))


def test_it_is_off_unless_it_is_set(folder: ProjectFolder):
    with folder.open(f"serve.api_key={KEY}") as project, listen("127.0.0.1", 0) as listening:
        api = api_of(project)
        server = Server(api.app, project.settings.serve, api.queries.end)
        with in_thread(server, listening):
            answer = httpx2.get(f"{address_of(listening)}/metrics", headers=bearer(KEY))
    assert answer.status_code == 404


@pytest.mark.parametrize("key", ["", METRICS_KEY])
def test_a_port_of_its_own_serves_nothing_else(folder: ProjectFolder, key: str):
    counts = Counts()
    counts.count_status(200)
    with (
        folder.open(f"serve.metrics_key={key}") as project,
        metrics_at_port(MetricsPage(project, counts), "127.0.0.1", 0) as port,
    ):
        at = f"http://127.0.0.1:{port}"

        def status(path: str, given: str) -> int:
            headers = {"Authorization": f"Bearer {given}"} if given else {}
            request = urllib.request.Request(f"{at}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request) as answer:
                    text = answer.read().decode()
                    assert values(text)['graphmill_http_answers_total{status="200"}'] == 1
                    return answer.status
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        assert status("/metrics", key) == 200
        assert status("/metrics", "") == (401 if key else 200)
        assert status("/query", key) == 404


def test_a_port_that_others_reach_needs_a_key(folder: ProjectFolder):
    with folder.open() as project:
        page = MetricsPage(project, Counts())
        with (
            pytest.raises(UsageError, match=r"metrics_key is not set; set it, or pass --no-key"),
            metrics_at_port(page, "0.0.0.0", 0),
        ):
            pass
        with metrics_at_port(page, "0.0.0.0", 0, no_key=True) as port:
            assert port
        with folder.open(f"serve.metrics_key={METRICS_KEY}") as keyed:
            page = MetricsPage(keyed, Counts())
            with metrics_at_port(page, "0.0.0.0", 0) as port:
                assert port


def test_workers_are_counted_together():
    counts = shared_counts(2)
    assert len(counts.values) == 2 * SIZE
    for worker in (0, 1):
        own = counts.of_worker(worker)
        own.count_status(200)
        own.count_status(0)
        own.count_seconds("mix", 0.3)
        own.count_seconds("mix", BOUNDS[-1] + 1)
        own.count_seconds("no-mode", 1)
    found = {
        (metric.name + sample.suffix, *sample.labels.values()): sample.value
        for metric in counts.metrics()
        for sample in metric.samples
    }
    assert found["graphmill_http_answers_total", "200"] == 2
    assert found["graphmill_http_answers_total", "499"] == 2
    name = "graphmill_query_duration_seconds"
    below = [found[f"{name}_bucket", "mix", f"{bound:g}"] for bound in BOUNDS]
    assert below == [0, 0, 0, *[2] * (len(BOUNDS) - 3)]
    assert found[f"{name}_count", "mix"] == found[f"{name}_bucket", "mix", "+Inf"] == 4


def test_the_same_key_for_questions_is_refused(folder: ProjectFolder):
    same = (f"serve.api_key={KEY}", f"serve.metrics_key={KEY}")
    refused = folder.invoke_refused("serve", "--port=0", *(f"--set={one}" for one in same))
    assert "serve.metrics_key: 'api_key' has the same key" in refused


def test_a_server_of_two_workers_shows_the_counts_of_both(folder: ProjectFolder):
    command = folder.command_line(
        "serve", "--port", "0", "--workers", "2",
        f"--set=serve.api_key={KEY}", f"--set=serve.metrics_key={METRICS_KEY}",
    )  # fmt: skip
    process = subprocess.Popen(
        command, env=folder.environment, text=True, stderr=subprocess.PIPE, bufsize=1
    )
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "serving" in line)
        url = line.rpartition(" on ")[2].partition(";")[0].strip()
        for _ in range(12):
            httpx2.get(f"{url}/health")
        name = 'graphmill_http_answers_total{status="200"}'
        wait_until(lambda: read(url).get(name) == 12)
        assert read(url)[name] == 12
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
