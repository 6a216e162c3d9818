import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.runs.events import Events
from tests.projects import new_project
from tests.servers.openai_server import OpenAIServer


def test_a_long_step_gives_a_heartbeat():
    told: list[dict[str, Any]] = []
    events = Events(told.append)
    events.beat()
    events.step_started("embed", 1, 1)
    events.step_advanced("embed", 1000, 2000)
    events.pulse.said -= 60
    events.pulse.started -= 60
    events.beat()
    events.beat()
    assert told[1:] == [
        {"event": "heartbeat", "step": "embed", "done": 1000, "expected": 2000, "seconds": 60.0}
    ]


def test_a_run_tells_its_events(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url)
    told: list[dict[str, Any]] = []
    with folder.open() as project:
        report = project.run("fast", on_event=told.append)
    assert [event["event"] for event in told if not event["event"].endswith("_advanced")] == [
        "run_started",
        *["step_started", "step_finished"] * len(report.steps), "load_started", "load_finished",
        "run_ended",
    ]  # fmt: skip
    finished = [event for event in told if event["event"] == "step_finished"]
    assert [{"event": "step_finished", **step} for step in report.to_json()["steps"]] == finished
    assert told[-2]["load"] == report.load
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("at", ["step_started", "step_advanced", "step_finished"])
def test_an_error_of_the_callback_ends_the_run(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, at: str
):
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)

    def fall_over(event: dict[str, Any]) -> None:
        if event["event"] == at:
            raise RuntimeError("enough")

    with folder.open(*folder.endpoint_overrides) as project:
        with pytest.raises(RuntimeError, match="enough"):
            project.index("index", on_event=fall_over)
        last = project.status()
        assert last
        assert (last["outcome"], last["message"]) == ("failed", "enough")
        assert project.index("index").outcome == "completed"
