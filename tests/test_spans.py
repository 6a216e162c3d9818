import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from pipeline import spans
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer


class Made(trace.NonRecordingSpan):
    """Stand for a span of the SDK, which is no part of the development environment."""

    def __init__(self, name: str, attributes: dict[str, Any], context: Any):
        super().__init__(trace.SpanContext(1, 1, False))
        self.name, self.attributes, self.status, self.ended = name, attributes, None, False
        parent = trace.get_current_span(context)
        self.parent = parent if isinstance(parent, Made) else None

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.ended = True


class Tracer:
    def __init__(self) -> None:
        self.made: list[Made] = []

    def start_span(
        self, name: str, context: Any = None, attributes: Any = None, start_time: int = 0
    ) -> Made:
        self.made.append(Made(name, dict(attributes), context))
        return self.made[-1]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    made = Tracer()
    spans.use(made)
    yield made
    spans.use(None)


def test_a_run_and_its_questions_make_spans_without_contents(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, tracer: Tracer
):
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    with folder.open(*folder.endpoint_overrides) as project:
        report = project.run("index")
        project.query("Who built the Harrow Light?", mode="naive")
        list(project.query_stream("Who drew the Harrow Light?", mode="naive"))
    run, *others = tracer.made
    assert (run.name, run.attributes) == (
        "graphmill.run", {"workflow": "index", "run": report.run_id},
    )  # fmt: skip
    steps = [one for one in others if one.name == "graphmill.step"]
    assert [one.attributes["step"] for one in steps] == [step.step for step in report.steps]
    assert {one.parent for one in steps} == {run}
    calls = [one for one in others if one.name == "graphmill.model_call" and one.parent in steps]
    assert len(calls) == report.totals["calls"]
    asked = [one for one in others if one.name == "graphmill.query"]
    assert [one.attributes for one in asked] == [
        {"mode": "naive"}, {"mode": "naive", "streamed": True},
    ]  # fmt: skip
    of_questions = [
        one for one in others if one.name == "graphmill.model_call" and one not in calls
    ]
    assert {one.parent for one in of_questions} == set(asked)
    assert all(one.ended and one.status is None for one in tracer.made)
    shown = " ".join(str(one.attributes) for one in tracer.made)
    assert not any(word in shown for word in ("Harrow", *DOCUMENTS))


def test_runs_of_two_projects_at_a_time_keep_their_steps_apart(
    tmp_path: Path, openai: OpenAIServer, tracer: Tracer
):
    folders = [new_project(tmp_path / name, NO_STORE, endpoint=openai) for name in "ab"]
    for folder in folders:
        with folder.open(*folder.endpoint_overrides) as project:
            # What is known of the verbs' code is read here: two threads at once make Python 3.11
            # fail in ast.parse.
            project.plan("index")
    # Each waits within its first call for one of the other project.
    both = threading.Barrier(2, timeout=60)
    met: set[int] = set()

    def run(folder: ProjectFolder) -> str:
        with folder.open(*folder.endpoint_overrides) as project:
            return project.index("index", on_event=meet).run_id

    def meet(event: Mapping[str, Any]) -> None:
        if event["event"] == "step_started" and threading.get_ident() not in met:
            met.add(threading.get_ident())
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        ids = list(threads.map(run, folders))
    runs = {one.attributes["run"]: one for one in tracer.made if one.name == "graphmill.run"}
    assert set(runs) == set(ids)
    for id in ids:
        steps = [one for one in tracer.made if one.parent is runs[id]]
        assert len(steps) == len({one.attributes["step"] for one in steps}) > 10
    calls = [one for one in tracer.made if one.name == "graphmill.model_call"]
    assert len(calls) == openai.count("chat") + openai.count("embeddings")
    of_run = {step: step.parent for step in tracer.made if step.name == "graphmill.step"}
    for run_span in runs.values():
        of_calls = [one for one in calls if one.parent and of_run[one.parent] is run_span]
        assert len(of_calls) == len(calls) / 2


def test_a_stream_that_is_not_read_to_its_end_ends_its_span(tracer: Tracer):
    def events() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            spans.note_call("graphmill.model_call", 0.1)

    streamed = spans.question_events(events(), "naive")
    assert next(streamed) == 1
    assert not isinstance(trace.get_current_span(), Made)
    assert isinstance(streamed, Generator)
    streamed.close()
    question, call = tracer.made
    assert (question.ended, question.status, call.parent) == (True, None, question)


def test_a_failed_span_has_the_kind_of_its_error_alone(tracer: Tracer):
    with pytest.raises(ValueError, match="secret"), spans.span("graphmill.step", step="load"):
        raise ValueError("secret")
    status = tracer.made[0].status
    assert status is not None
    assert status.description == "ValueError"


def test_without_the_setting_nothing_of_opentelemetry_is_imported():
    code = (
        "import sys\nfrom pipeline import spans\n"
        "with spans.span('a'), spans.question_span('mix'):\n    spans.note_call('b', 1.0)\n"
        "print([name for name in sys.modules if 'telemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_spans_reach_a_collector(tmp_path: Path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel")
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/v1/traces"
        folder = new_project(tmp_path / "p", "postgresql://nobody@127.0.0.1:9/x", workflow="fast")
        done = folder.command("index", "--set", f"tracing.endpoint={address}")
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    sent = b"".join(bodies)
    assert b"graphmill.run" in sent
    assert b"chunk_documents" in sent
