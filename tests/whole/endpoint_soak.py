"""A soak of the endpoint: runs that are killed and restarted while the endpoint has every fault,
drawn by a seed.

``python -m tests.whole.endpoint_soak --minutes 30 --documents 500 --seed 7`` goes through one round
after another, each a new project with a seed of its own. A round ends with faults off and retries;
then its tables are compared with those that a well-behaved endpoint gives, and its bill with the
endpoint's ledger.
"""

import argparse
import math
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from pipeline.models.endpoint.chat import TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY
from pipeline.project import Project
from pipeline.stores.postgres.embedded import start_embedded
from pipeline.text.tokens import tokenizer
from tests.corpora import voyage
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_faults import TRANSPORT, Faults
from tests.servers.openai_phases import Phases, bad_day
from tests.servers.openai_replies import ENDED
from tests.servers.openai_sentences import reply_by_sentences
from tests.servers.openai_server import Counting, OpenAIServer, Request, openai_server
from tests.servers.postgres_server import make_database, server_folder
from tests.states import models, set_args, table_hashes
from tests.whole.soak_bill import UNANSWERED, Bill, compare

WORKFLOW = "index"
MODEL = "gpt-4o-mini"
CONCURRENCY = 4
TIMEOUT = 4
"""Seconds a call may take: each silent answer costs a place for as long."""
PATIENCE = 300
"""Seconds after which a command hangs, however busy the machine is."""
EXIT_CODES = {"run": {0, 1, 3}, "retry": {0, 1, 3}, "budget": {0, 1, 3, 5}, "query": {0, 1}}
"""Those that docs/after-a-failure.md and docs/query.md name for what can happen here."""
SHARES = {
    "bad_gateway": 0.02, "unavailable": 0.02, "gateway_timeout": 0.02, "loading": 0.02,
    "too_many": 0.03,
    "too_many_until": 0.02, "silent": 0.01, "dropped": 0.02, "broken": 0.02, "garbage": 0.02,
    "empty": 0.02,
    "content_filter": 0.02, "cut_inside": 0.04, "cut_between": 0.04, "no_usage": 0.05,
    "zero_usage": 0.05,
    "plain": 0.02,
}  # fmt: skip
WHERE_NOBODY_CAN_SEE_A_CUT = TRANSPORT | {"empty", "content_filter"}
"""Faults of a summary and of an answer, which have no form that a cut would break."""
LONGEST_ROUND = 300
"""Seconds after which the faults of a round end, so that half an hour has several rounds."""
RETRIES = 6
"""So many nights without faults must be enough for every row."""
BATCHES = 8
"""So many batches the documents of a round come in: each command has something new to do."""
LEAST_BUDGET, MOST_BUDGET = 2_000, 20_000


@dataclass(frozen=True)
class Plan:
    """One round. ``seconds``: the longest that faults go on; ``phase``: how long each phase of the
    endpoint takes, from and to, in seconds; ``delay``: seconds that each answer takes; ``kills``:
    the share of runs that are killed, each after a drawn number of requests."""

    seed: int
    documents: int
    seconds: float
    phase: tuple[float, float] = (1.0, 6.0)
    delay: float = 0.05
    kills: float = 0.6
    format: str = "records"


@dataclass
class Round:
    """What has happened in one round, and how its bill compares with the ledger."""

    plan: Plan
    commands: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    recovered: int = 0
    tables: int = 0
    bill: Bill | None = None

    def __str__(self) -> str:
        rows = [
            f"{self.plan}: {self.tables} equal tables",
            f"  commands by exit code {dict(self.commands)}, killed {self.killed}",
            f"  phases {dict(self.phases)}",
            f"  faults {dict(self.faults)}",
            (
                f"  after the last day with faults {self.rejected} rows were rejected and"
                f" {self.recovered} recovered"
            ),
            f"  {self.bill}",
        ]
        return "\n".join(rows)


def soak(root: Path, postgres_url: str, plan: Plan) -> Round:
    """Go through one round. Raises AssertionError where something was lost or is billed otherwise
    than it was."""
    with openai_server(reply=reply_by_sentences) as endpoint:
        endpoint.counting = Counting(tokenizer(MODEL).count, TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY)
        folder = project_folder(root / "soaked", postgres_url, endpoint, plan, {})
        found = Round(plan)
        endpoint.delay = plan.delay
        go_through_faults(folder, endpoint, found)
        endpoint.delay = 0
        with folder.open() as project:
            settle(project, found)
            found.bill = compare(project.usage(), endpoint.requests)
            found.bill.check()
            asks_nothing_more(project, endpoint)
            assert project.verify(WORKFLOW).agrees
            soaked = table_hashes(project)
        found.faults = Counter(request.fault for request in endpoint.requests if request.fault)
        with project_folder(
            root / "calm", postgres_url, endpoint, plan, documents_of(plan)
        ).open() as project:
            assert project.run(WORKFLOW).outcome == "completed"
            calm = table_hashes(project)
        differing = sorted(name for name in calm if calm[name] != soaked.get(name))
        assert soaked == calm, f"seed {plan.seed}: tables that differ: {differing}"
        found.tables = len(calm)
    return found


def project_folder(
    root: Path, postgres_url: str, endpoint: OpenAIServer, plan: Plan, documents: Mapping[str, str]
) -> ProjectFolder:
    settings = models(
        endpoint, model=MODEL, concurrency=CONCURRENCY, timeout=TIMEOUT, max_retries=2
    )
    settings["embedding"]["default"] |= {"timeout": TIMEOUT, "max_retries": 2}
    database = make_database(postgres_url, f"soak_{root.name}_{plan.seed}_{plan.format}")
    folder = new_project(root, database, documents, models=settings)
    set_args(
        folder, extract_graph={"format": plan.format}, summarize_descriptions={"max_tokens": 100}
    )
    return folder


def documents_of(plan: Plan) -> dict[str, str]:
    """Return documents of two sentences each; the same captains and ports are in many of them.

    Replies to longer ones would reach the limit that a run sets for replies, and would be read in
    halves for ever.
    """
    first = plan.seed * 10_000
    numbers = range(first, first + plan.documents)
    return {f"log-{number}.txt": f"{voyage(number)}\n" for number in numbers}


def go_through_faults(folder: ProjectFolder, endpoint: OpenAIServer, found: Round) -> None:
    """Run, retry, ask and kill while documents come, until all is in or the time is over."""
    plan = found.plan
    faults = Faults(
        plan.seed,
        error=0.02,
        malformed=0.02,
        truncated=0.04,
        shares=SHARES,
        only=faults_of,
        embeddings=True,
    )
    phases = Phases(endpoint, faults, plan.seed, plan.phase)
    found.phases = phases.seen
    draw = random.Random(plan.seed)
    day = Day(folder, endpoint, draw, found, list(documents_of(plan).items()))
    until = time.monotonic() + plan.seconds
    with bad_day(phases):
        while time.monotonic() < until and not day.all_is_in:
            day.act()
    day.bring(len(day.coming))
    with folder.open() as project:
        kinds = rejects_of(project)["kind"] if day.has_tables else pd.Series(dtype=str)
        found.recovered = int((kinds == "recovered").sum())
        found.rejected = len(kinds) - found.recovered


def faults_of(prompt: str) -> frozenset[str] | None:
    """Return the names of the faults that this prompt may get; None stands for all."""
    is_extraction = ENDED in prompt or "Types to look for" in prompt
    return None if is_extraction else WHERE_NOBODY_CAN_SEE_A_CUT


@dataclass
class Day:
    """What the owner of the project does while the endpoint has faults.

    ``coming``: documents that are not in the project yet, (name, text).
    """

    folder: ProjectFolder
    endpoint: OpenAIServer
    draw: random.Random
    found: Round
    coming: list[tuple[str, str]]
    all_is_in: bool = False
    has_tables: bool = False
    questions: int = 0

    def bring(self, count: int) -> None:
        """Write so many of the documents that are coming."""
        for name, text in self.coming[:count]:
            self.folder.write(name, text)
        del self.coming[:count]

    def act(self) -> None:
        self.bring(math.ceil(self.found.plan.documents / BATCHES))
        weights = {"run": 4, "budget": 1} | ({"retry": 2, "query": 1} if self.has_tables else {})
        kind = self.draw.choices(list(weights), list(weights.values()))[0]
        if kind == "query":
            self.ask()
        elif kind == "budget":
            self.run_within_budget()
        else:
            code = self.command(kind, kind, WORKFLOW, "--json")
            self.all_is_in = code == 0 and not self.coming and self.nothing_is_rejected()

    def ask(self) -> None:
        """Ask a question that was not asked before; the answer is streamed."""
        self.questions += 1
        self.command(
            "query", "query", f"Where did ship {self.questions} sail to?", "--mode", "naive"
        )

    def run_within_budget(self) -> None:
        limit = self.draw.randrange(LEAST_BUDGET, MOST_BUDGET)
        before = len(self.endpoint.requests)
        self.command("budget", "run", WORKFLOW, "--json", "--max-tokens", str(limit))
        paid = [
            tokens_of(request)
            for request in self.endpoint.requests[before:]
            if request.fault not in UNANSWERED
        ]
        largest = max(paid, default=0)
        assert sum(paid) <= limit + CONCURRENCY * largest, (
            f"--max-tokens {limit}: {sum(paid)} tokens were paid for"
        )

    def nothing_is_rejected(self) -> bool:
        with self.folder.open() as project:
            return rejects_of(project).empty

    def command(self, kind: str, *arguments: str) -> int:
        """Return the exit code of the command, which may be killed after some requests."""
        is_killed = self.draw.random() < self.found.plan.kills
        requests = (
            self.draw.randrange(1, 10 + self.found.plan.documents // 4) if is_killed else None
        )
        before = len(self.endpoint.requests)
        with TemporaryDirectory() as folder, (Path(folder) / "said").open("w+") as said:
            process = subprocess.Popen(
                self.folder.command_line(*arguments), env=self.folder.environment, text=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.wait(process, None if requests is None else before + requests)
            said.seek(0)
            words = said.read()
        code = process.returncode
        self.found.commands[f"{kind}: {code}"] += 1
        assert "Traceback" not in words, words
        if code == -9:
            self.found.killed += 1
            self.endpoint.await_silence()
        else:
            assert code in EXIT_CODES[kind], f"{arguments}: exit code {code}\n{words}"
        self.has_tables |= code in (0, 3) and kind != "query"
        return code

    def wait(self, process: subprocess.Popen[str], requests: int | None) -> None:
        """Wait for the end of the process; kill it when the endpoint has heard so many requests."""
        until = time.monotonic() + PATIENCE
        while process.poll() is None:
            if requests is not None and len(self.endpoint.requests) >= requests:
                process.kill()
                process.wait()
                return
            if time.monotonic() > until:
                process.kill()
                process.wait()
                raise AssertionError(f"{process.args}: hangs")
            time.sleep(0.02)


def tokens_of(request: Request) -> int:
    return request.prompt_tokens + request.completion_tokens


def settle(project: Project, found: Round) -> None:
    """Run, and retry, with a well-behaved endpoint until nothing is rejected, read in parts or
    without an end mark."""
    report = project.run(WORKFLOW)
    for _ in range(RETRIES):
        if rejects_of(project).empty:
            return
        report = project.retry(WORKFLOW, recovered=True, unended=True)
    left = rejects_of(project)
    raise AssertionError(
        f"seed {found.plan.seed}: {report.outcome}, never answered:\n{left.to_string()}"
    )


def rejects_of(project: Project) -> pd.DataFrame:
    return project.table("rejects", WORKFLOW)


def asks_nothing_more(project: Project, endpoint: OpenAIServer) -> None:
    before = len(endpoint.requests)
    assert project.run(WORKFLOW).outcome == "completed"
    later = [request for request in endpoint.requests[before:] if request.kind != "models"]
    assert not later, f"{len(later)} calls though all is known"


def rounds(minutes: float, documents: int, seed: int) -> Iterable[Round]:
    """Yield one round after another until the time is over; every second one asks for JSON."""
    until = time.monotonic() + 60 * minutes
    with server_folder() as server, TemporaryDirectory() as folder:
        url = start_embedded(server)
        number = 0
        while time.monotonic() < until:
            format = ("records", "json")[number % 2]
            root = Path(folder) / str(number)
            root.mkdir()
            seconds = min(LONGEST_ROUND, until - time.monotonic())
            yield soak(root, url, Plan(seed + number, documents, seconds, format=format))
            number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=30,
        help="no round begins, and no fault is drawn, after them",
    )
    parser.add_argument("--documents", type=int, default=500, help="of each round")
    parser.add_argument(
        "--seed",
        type=int,
        default=7,
        help="of the first round; each further round has the next one",
    )
    options = parser.parse_args()
    for found in rounds(options.minutes, options.documents, options.seed):
        print(found, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
