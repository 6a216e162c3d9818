"""64 clients of a `graphmill serve`, first without and then with a hostile one among them
(`serving.py --hostile`).

The others ask `/query/data` by three keys, or by as many as `--keys` says, each client one question
after the other, and know each answer from before. Keys take turns, so that of N + 1 keys the
hostile one may have its share of the server: with three others a quarter, with 63 a 64th.

The hostile one has a key of its own: it keeps 130 questions open to a model that takes 20 seconds,
asks with conditions of 1,000 values, and hangs up on requests that have just begun. In the middle
of each part PostgreSQL is killed. Answers that were under way while it was down are counted apart,
as `over the restart`: times are of all others.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from harness import endpoint

from pipeline.project import Project

OTHERS = 63
HOSTILE = "hostile"
SLOW_QUESTIONS, SLOW_SECONDS = 130, 20.0
HANG_UP_SECONDS = 0.05
QUESTIONS = 200
MEGABYTE = 2**20


@dataclass
class Seen:
    """The answers that clients received.

    ``answers`` holds for each good answer the times of its request and of its arrival. ``others``
    counts other statuses and ``wrong`` wrong answers.
    """

    answers: list[tuple[float, float]] = field(default_factory=list)
    killed_at: float = 0.0
    others: Counter[int] = field(default_factory=Counter)
    wrong: int = 0

    @property
    def undisturbed(self) -> list[float]:
        """Return the seconds of the answers that were not under way while PostgreSQL was down."""
        came_after = [came for begun, came in self.answers if begun > self.killed_at]
        up_at = min(came_after, default=self.killed_at)
        return [
            came - begun for begun, came in self.answers if came < self.killed_at or begun > up_at
        ]


@dataclass
class Asking:
    """One part of the measurement. ``known``: the ids of the passages by question."""

    url: str
    known: dict[str, list[str]]
    until: float
    at_once: int
    keys: Sequence[str]
    seen: Seen = field(default_factory=Seen)
    hostile: Counter[str] = field(default_factory=Counter)

    def client(self, key: str) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=None)
        headers = {"X-API-Key": f"key-of-{key}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=300, limits=limits)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until

    async def ask(self, http: httpx2.AsyncClient, place: int) -> None:
        """Ask one question after the other, as one client does."""
        choice = random.Random(place)
        questions = list(self.known)
        while not self.over:
            question = choice.choice(questions)
            begun = time.monotonic()
            answer = await http.post("/query/data", json={"query": question, "mode": "naive"})
            if answer.status_code != 200:
                self.seen.others[answer.status_code] += 1
                await asyncio.sleep(0.2)
                continue
            self.seen.answers.append((begun, time.monotonic()))
            self.seen.wrong += ids_in(answer) != self.known[question]

    async def attack(self, http: httpx2.AsyncClient) -> None:
        tasks = [self._ask_slowly(http) for _ in range(SLOW_QUESTIONS)]
        tasks += [self._filter(http, place) for place in range(self.at_once)]
        tasks += [self._hang_up(http) for _ in range(self.at_once)]
        await asyncio.gather(*tasks)

    async def _ask_slowly(self, http: httpx2.AsyncClient) -> None:
        for question in itertools.cycle(self.known):
            if self.over:
                return
            with suppress(TimeoutError, httpx2.HTTPError):
                async with asyncio.timeout_at(self.until):
                    answer = await http.post(
                        "/query", json={"query": f"{question} {random.random()}", "mode": "naive"}
                    )
                    self.hostile[f"slow question {answer.status_code}"] += 1
                    await asyncio.sleep(0.2)

    async def _filter(self, http: httpx2.AsyncClient, place: int) -> None:
        for turn in itertools.count():
            if self.over:
                return
            where = {"title": [f"title {place} {turn} {number}" for number in range(1000)]}
            answer = await http.post(
                "/query/data", json={"query": "Who is it?", "mode": "naive", "where": where}
            )
            self.hostile[f"1,000 values {answer.status_code}"] += 1

    async def _hang_up(self, http: httpx2.AsyncClient) -> None:
        for question in itertools.cycle(self.known):
            if self.over:
                return
            with suppress(httpx2.TimeoutException):
                body = {"query": question, "mode": "graph"}
                await http.post("/query/data", json=body, timeout=HANG_UP_SECONDS)
            self.hostile["hang-up"] += 1


async def ask_all(asking: Asking, hostile: bool) -> None:
    clients = {key: asking.client(key) for key in (*asking.keys, HOSTILE)}
    try:
        keys = list(islice(itertools.cycle(asking.keys), OTHERS))
        tasks = [asking.ask(clients[key], place) for place, key in enumerate(keys)]
        if hostile:
            tasks.append(asking.attack(clients[HOSTILE]))
        else:
            tasks.append(asking.ask(clients[asking.keys[0]], OTHERS))
        await asyncio.gather(*tasks)
    finally:
        for client in clients.values():
            await client.aclose()


async def watched(
    asking: Asking, hostile: bool, server: psutil.Process, database: Path
) -> list[float]:
    """Ask, kill PostgreSQL in the middle, and return the server's memory in MB, once a second."""
    memory: list[float] = []
    middle = time.monotonic() + (asking.until - time.monotonic()) / 2

    async def watch() -> None:
        killed = False
        while not asking.over:
            memory.append(server.memory_info().rss / MEGABYTE)
            if not killed and time.monotonic() >= middle:
                kill_postgres(database)
                asking.seen.killed_at = time.monotonic()
                killed = True
            await asyncio.sleep(1)

    await asyncio.gather(ask_all(asking, hostile), watch())
    return memory


def kill_postgres(folder: Path) -> None:
    """Stop the embedded server at once by a signal; the next question starts it again."""
    os.kill(postmaster(folder), signal.SIGKILL)


def postmaster(folder: Path) -> int:
    """Return the process id of the embedded server."""
    return int((folder / "postmaster.pid").read_text().split()[0])


def keep_apart(servers: Sequence[int]) -> None:
    """Give the last core to this process and its other children, and the others to the servers.

    Then the CPU of the clients, which would be on other machines, is not taken from the server.
    """
    *of_servers, of_clients = sorted(os.sched_getaffinity(0))
    if not of_servers:
        raise SystemExit("--apart: this machine has a single core; leave the option out")
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        set_cores(process, {of_clients})
    for pid in servers:
        server = psutil.Process(pid)
        for process in [server, *server.children(recursive=True)]:
            set_cores(process, set(of_servers))


def set_cores(process: psutil.Process, cores: set[int]) -> None:
    """Move all threads of a process to some cores. Processes that it starts later inherit them."""
    for thread in process.threads():
        os.sched_setaffinity(thread.id, cores)


def ids_in(answer: httpx2.Response) -> list[str]:
    return [chunk["id"] for chunk in answer.json()["chunks"]]


def key_names(number: int) -> list[str]:
    """Return the names of the keys of the other clients."""
    return [f"other-{place}" for place in range(number)]


def values_row(url: str, key: str) -> dict[str, Any]:
    """Return how long a question takes with a condition of 10 and of 1,000 values; no condition
    comes twice."""
    seconds: dict[int, list[float]] = {10: [], 1000: []}
    with httpx2.Client(base_url=url, headers={"X-API-Key": f"key-of-{key}"}, timeout=300) as client:
        for turn in range(25):
            for number, taken in seconds.items():
                where = {"title": [f"title {turn} {place}" for place in range(number)]}
                body = {"query": "Who is it?", "mode": "naive", "where": where}
                begun = time.monotonic()
                client.post("/query/data", json=body).raise_for_status()
                taken.append(time.monotonic() - begun)
    few, many = (statistics.median(taken[5:]) * 1000 for taken in seconds.values())
    return {"10 values ms": few, "1,000 values ms": many, "ratio": many / few}


def hostile_rows(
    root: Path, options: argparse.Namespace, questions: Sequence[str], serving: Any
) -> list[dict[str, Any]]:
    """Return a row without and one with the hostile client, and print what else was seen."""
    settings = root / "settings.yaml"
    before = settings.read_text(encoding="utf-8")
    keys = key_names(options.keys)
    of_keys = ", ".join(f"{key}: {{key: key-of-{key}}}" for key in (*keys, HOSTILE))
    settings.write_text(
        before.replace("\nserve:", f"\nserve:\n  keys: {{{of_keys}}}", 1), encoding="utf-8"
    )
    try:
        with endpoint(delay=SLOW_SECONDS) as model, Project.open(root) as project:
            assert project.embedded_folder is not None
            os.environ.update(model.env)
            with serving(root, options.serve) as (server, url):
                if options.apart:
                    keep_apart([server.pid, postmaster(project.embedded_folder)])
                known = known_answers(url, questions, keys[0])
                rows = [_row(url, known, options, hostile, server, project.embedded_folder)
                        for hostile in (False, True)]  # fmt: skip
                ratio = rows[1]["p95 ms"] / rows[0]["p95 ms"]
                print(f"p95 of the others with the hostile one: {ratio:.2f} times that without it")
                print(
                    "a condition:",
                    {name: round(value, 2) for name, value in values_row(url, keys[0]).items()},
                )
                return rows
    finally:
        settings.write_text(before, encoding="utf-8")


def known_answers(url: str, questions: Sequence[str], key: str) -> dict[str, list[str]]:
    with httpx2.Client(base_url=url, headers={"X-API-Key": f"key-of-{key}"}, timeout=300) as client:
        known = {}
        for question in islice(questions, QUESTIONS):
            known[question] = ids_in(
                client.post("/query/data", json={"query": question, "mode": "naive"})
            )
        return known


def _row(
    url: str,
    known: dict[str, list[str]],
    options: argparse.Namespace,
    hostile: bool,
    server: psutil.Process,
    database: Path,
) -> dict[str, Any]:
    until, keys = time.monotonic() + options.hostile, key_names(options.keys)
    asking = Asking(url, known, until, options.hostile_at_once, keys)
    memory = asyncio.run(watched(asking, hostile, server, database))
    seen = asking.seen
    seconds_of = seen.undisturbed
    quarter = max(1, len(memory) // 4)
    if hostile:
        print("the hostile one:", dict(asking.hostile))
    return {
        "clients": "63 and a hostile one" if hostile else "64",
        "answers": len(seconds_of),
        "p50 ms": float(np.percentile(seconds_of, 50)) * 1000,
        "p95 ms": float(np.percentile(seconds_of, 95)) * 1000,
        "max ms": max(seconds_of) * 1000,
        "over the restart": len(seen.answers) - len(seconds_of),
        "wrong": seen.wrong,
        "503": seen.others[503],
        "other failures": sum(seen.others.values()) - seen.others[503],
        "MB, first quarter": statistics.mean(memory[:quarter]),
        "MB, last quarter": statistics.mean(memory[-quarter:]),
        "MB at most": max(memory),
    }
