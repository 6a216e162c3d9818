"""A week of nights from the shipped schedule: what fails is told, and every account agrees.

1 good; 2 the database is down; 3 three new documents beside seven; 4 the project is lost and
restored by day, and its night is killed; 5 good; 6 the budget is spent; 7 good, with ``gc``.
"""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from pipeline.runs.metrics import TEXTFILE
from pipeline.runs.reports import RunEntry, Runs
from pipeline.serve.metrics import Counts, MetricsPage
from tests.projects import NO_STORE, ProjectFolder, new_project, read_yaml
from tests.runs.test_metrics import values
from tests.schedules import cron_environment, run_line, schedule_of
from tests.serve.serving import wait_until
from tests.servers.openai_server import OpenAIServer, Reply

ROOT = Path(__file__).parents[2]
KILLED = 128 + signal.SIGKILL
PEOPLE = ("Ada", "Bea", "Cleo", "Dora", "Edith", "Fay", "Gwen", "Hilda", "Ines", "Jutta", "Karla")
BUDGET_PRICE = 1_000_000.0
"""A price at which one call costs more than the schedule lets a night spend."""


@dataclass
class Week:
    """A project with its schedule; ``codes`` are the exit codes of its nights."""

    folder: ProjectFolder
    home: Path
    store: str
    codes: list[int] = field(default_factory=list)

    def configure(self, store: str) -> None:
        """Write .env, where a schedule finds keys and addresses: cron gives it none."""
        lines = {**self.folder.env, "GRAPHMILL_STORE": store}
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.folder.root / ".env").write_text(text, encoding="utf-8")

    def set_price(self, price: float) -> None:
        models = read_yaml(self.folder.root / "settings.yaml")["models"]
        models["chat"]["default"]["price"] = {"input": price, "output": price}
        # Calls that are under way when the budget is reached are not taken back.
        models["chat"]["default"]["concurrency"] = 1
        self.folder.edit_settings(models=models)

    def add(self, *people: str) -> None:
        for name in people:
            self.folder.write(
                f"{name}.txt", f"{name} Vale\n\n{name} Vale keeps the Harrow Light.\n"
            )

    def lose_and_restore(self) -> None:
        """Back the project up, delete it, and restore it to its place, with its keys."""
        file = str(self.home / "backup.zip")
        assert self.folder.invoke("backup", file, "--with-keys").exit_code == 0
        shutil.rmtree(self.folder.root)
        done = self.folder.invoke("restore", file, str(self.folder.root))
        # Its database was not lost: the load is left to the next night.
        assert "workspace" in done.stderr
        assert (self.folder.root / ".env").is_file()

    @property
    def alert(self) -> Path:
        return self.home / "alert"

    @property
    def environment(self) -> dict[str, str]:
        return cron_environment(self.home, ALERT=f"cat >>{self.alert}")

    @property
    def lines(self) -> list[str]:
        return schedule_of(self.folder.root).lines

    def night(self) -> None:
        """Run the schedule's line of the night; only a failure may be told."""
        self.alert.unlink(missing_ok=True)
        done = run_line(self.lines[0], self.environment)
        assert (done.stdout, done.stderr) == ("", "")
        self.end(done.returncode)

    def killed_night(self, openai: OpenAIServer) -> None:
        """Run the same line, and kill graphmill during its first call."""
        self.alert.unlink(missing_ok=True)
        asked = openai.count("chat")
        openai.reply = lambda messages, body: Reply(hold=True)
        shell = subprocess.Popen(
            ["/bin/sh", "-c", self.lines[0]], env=self.environment, cwd=self.home
        )
        wait_until(lambda: openai.count("chat") > asked, 60)
        for process in psutil.Process(shell.pid).children(recursive=True):
            # The shell is the other process with these words.
            if "--max-cost" in process.cmdline() and "/bin/sh" not in process.cmdline():
                process.kill()
        self.end(shell.wait(60))

    def end(self, code: int) -> None:
        """Note the exit code of a night, and hold all accounts of it against each other."""
        self.codes.append(code)
        self.hold_alert(code)
        entries = Runs.of(self.folder.root).entries()
        assert bool(re.fullmatch(states_that_fire(), entries[0].outcome)) == (code != 0)
        with self.folder.open() as project:
            served = values(MetricsPage(project, Counts()).text())
        hold_metrics(served, entries)
        written = values((self.folder.root / "data/runs" / TEXTFILE).read_text(encoding="utf-8"))
        if entries[0].outcome != "killed":
            assert written.items() <= served.items()
        hold_log(self.folder.root, entries[0])

    def hold_alert(self, code: int) -> None:
        if code == 0:
            assert not self.alert.exists()
            return
        first = self.alert.read_text(encoding="utf-8").splitlines()[0]
        assert first == f"graphmill run in {self.folder.root}: exit code {code}"


def states_that_fire() -> str:
    """Return the pattern of the states at which the shipped rule on the last run fires."""
    rules = ROOT / "examples" / "alerts" / "graphmill.yaml"
    expression = rules.read_text(encoding="utf-8").partition("GraphmillRunFailed")[2]
    found = re.search(r'last_state\{state=~"([^"]+)"\}', expression)
    assert found
    return found[1]


def hold_metrics(found: Mapping[str, float], entries: list[RunEntry]) -> None:
    """Hold /metrics against the list of runs."""
    last = entries[0]
    of = '{workflow="index"}'
    states = [name for name, value in found.items() if "last_state" in name and value]
    assert states == [f'graphmill_run_last_state{{workflow="index",state="{last.outcome}"}}']
    assert found.get(f"graphmill_run_last_exit_code{of}") == last.exit_code
    assert found[f"graphmill_run_last_model_calls{of}"] == last.calls
    assert found[f"graphmill_run_last_cost{of}"] == last.cost
    good = next(entry for entry in entries if entry.outcome == "completed")
    newest = found[f"graphmill_run_last_success_timestamp_seconds{of}"]
    assert newest == datetime.fromisoformat(good.ended).timestamp()


def hold_log(root: Path, entry: RunEntry) -> None:
    """Hold the log of a run against the list of runs."""
    text = Runs.of(root).log_path(entry.run_id).read_text(encoding="utf-8")
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert {line["run"] for line in lines} == {entry.run_id}
    last = lines[-1]
    if entry.outcome == "killed":
        assert last["event"] != "run_ended"
        return
    assert (last["event"], last["outcome"]) == ("run_ended", entry.outcome)
    assert (last["exit_code"], last["message"]) == (entry.exit_code, entry.message)
    assert (last["calls"], last["cost"]) == (entry.calls, entry.cost)
    assert last["level"] == ("error" if entry.exit_code else "info")


def test_a_week(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(
        tmp_path / "our notes", postgres_url, {}, openai,
        stores={"postgres": {"url": "${GRAPHMILL_STORE}"}},
    )  # fmt: skip
    week = Week(folder, tmp_path / "home", postgres_url)
    week.home.mkdir()
    week.configure(postgres_url)
    assert folder.invoke("init", "--nightly").exit_code == 0
    answers = openai.reply

    week.add(*PEOPLE[:6])
    week.night()

    week.add(PEOPLE[6])
    week.configure(NO_STORE)
    week.night()

    week.configure(postgres_url)
    week.add(*PEOPLE[7:10])
    week.night()

    week.lose_and_restore()
    week.add(PEOPLE[10])
    week.killed_night(openai)

    openai.reply = answers
    week.night()

    paid = openai.count("chat")
    week.set_price(BUDGET_PRICE)
    week.add("Lena", "Mira", "Nora")
    week.night()

    week.set_price(0.15)
    week.night()
    done = run_line(week.lines[1], week.environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    assert week.codes == [0, 1, 0, KILLED, 0, 5, 0]
    assert [entry.outcome for entry in reversed(Runs.of(folder.root).entries())] == [
        "completed", "failed", "completed", "killed", "completed", "stopped", "completed",
    ]  # fmt: skip
    assert openai.count("chat") > paid
    prompts = [json.dumps(request.messages) for request in openai.requests if request.messages]
    # The call that was under way when the night was killed is asked once more.
    assert len(prompts) - len(set(prompts)) == 1
    assert folder.invoke("verify").exit_code == 0
