"""Questions a second of a `graphmill serve`, and what one costs: so many askers at once, each with
a question under way all the time, over HTTP from this process.

    python benchmarks/serving.py --units 5000
    python benchmarks/serving.py --project PROJECT --modes naive hybrid --workers 2
    python benchmarks/serving.py --units 5000 --hostile 60

``--hostile`` asks for so many seconds without, and as many with a hostile client among the others
(`hostile.py`). With ``--apart`` the clients have a core of their own, as if on another machine.

Without ``--project`` it makes a corpus, runs ``fast`` over it, and asks that. The questions are of
``/query/data``: no chat model is waited for. ``serve ms`` and ``PostgreSQL ms`` are CPU of one
question, of all processes of either; one over their sum is what a core of its own would answer in a
second, whatever else this machine does: ``a second of a core``.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from harness import ROOT, command, new_project, print_table

from benchmarks.hostile import QUESTIONS, hostile_rows
from benchmarks.server_time import postgres_cpu
from pipeline.project import Project

KEY = "the-key-of-this-benchmark"
WARM_UP = 10


def served(root: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    questions = questions_of(root)
    with Project.open(root) as project, serving(root, options.serve) as (server, url):
        assert project.embedded_folder is not None
        project.stores.live()  # it stays up while this process uses it
        asked = {"top_k": options.top_k, "chunk_top_k": options.chunk_top_k}
        rows = []
        for mode in options.modes:
            body = {"mode": mode, **asked}
            ask(url, islice(questions, WARM_UP), body, options.askers)
            asked_now = list(islice(questions, options.questions))
            rows.append(
                _measured(url, server, project.embedded_folder, asked_now, body, options.askers)
            )
    return rows


def _measured(
    url: str,
    server: psutil.Process,
    database: Path,
    questions: Sequence[str],
    body: dict[str, Any],
    askers: int,
) -> dict[str, Any]:
    begun, of_serve, of_database, own = (
        time.perf_counter(),
        cpu_of(server),
        postgres_cpu(database),
        time.process_time(),
    )
    seconds = ask(url, questions, body, askers)
    wall = time.perf_counter() - begun
    spent = {
        "serve ms": (cpu_of(server) - of_serve) / len(questions) * 1000,
        "PostgreSQL ms": (postgres_cpu(database) - of_database) / len(questions) * 1000,
    }
    return {
        "mode": body["mode"],
        "a second": len(questions) / wall,
        "p50 ms": float(np.percentile(seconds, 50)) * 1000,
        "p95 ms": float(np.percentile(seconds, 95)) * 1000,
        **spent,
        "a second of a core": 1000 / sum(spent.values()),
        "asker ms": (time.process_time() - own) / len(questions) * 1000,
    }


def ask(
    url: str, questions: Iterator[str] | Sequence[str], body: dict[str, Any], askers: int
) -> list[float]:
    """Ask the questions with some clients at once and return the seconds of each."""
    client = httpx2.Client(base_url=url, headers={"X-API-Key": KEY}, timeout=300)
    threads = ThreadPoolExecutor(askers)
    with client, threads:
        return list(threads.map(partial(_ask, client, body), questions))


def _ask(client: httpx2.Client, body: dict[str, Any], question: str) -> float:
    begun = time.perf_counter()
    client.post("/query/data", json={**body, "query": question}).raise_for_status()
    return time.perf_counter() - begun


def questions_of(root: Path) -> Iterator[str]:
    """Yield questions without end, no two alike, each of words of two documents."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((root / "data" / "input").rglob("*.txt"))
    ]
    choice = random.Random(3)
    for number in count():
        title = choice.choice(texts).splitlines()[0]
        passage = choice.choice(texts).split("\n\n")[1]
        place = title.partition(",")[0]
        words = " ".join(passage.split()[1:9])
        yield f"{number}: what has {place} to do with {words}?"


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children, also of those that have ended."""
    children = sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))
    return children + sum(process.cpu_times()[:4])


@contextmanager
def serving(root: Path, arguments: Sequence[str]) -> Iterator[tuple[psutil.Process, str]]:
    line = [sys.executable, "-m", "pipeline", "-C", str(root), "serve", "--port", "0", *arguments]
    environment = {**os.environ, "GRAPHMILL_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told = next(said for said in process.stderr if "serving" in said or "Error" in said)
        with ThreadPoolExecutor(1) as reading:
            reading.submit(process.stderr.read)  # else its log fills the pipe
            try:
                yield psutil.Process(process.pid), told.partition(" on ")[2].partition(";")[0]
            finally:
                process.terminate()


@contextmanager
def made_project(units: int) -> Iterator[Path]:
    with new_project(units) as root:
        command(root, "run", "fast")
        yield root


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", type=Path, help="one of text files, loaded")
    parser.add_argument("--units", type=int, default=5_000)
    parser.add_argument(
        "--modes", nargs="+", default=["naive", "local", "global", "hybrid", "mix", "graph"]
    )
    parser.add_argument("--askers", type=int, default=16)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--top-k", type=int, default=60)
    parser.add_argument("--chunk-top-k", type=int, default=20)
    parser.add_argument(
        "--hostile", type=float, help="seconds, each without and with a hostile client"
    )
    parser.add_argument(
        "--hostile-at-once", type=int, default=8, help="its large conditions, and its hang-ups"
    )
    parser.add_argument(
        "--keys", type=int, default=3, help="with --hostile: by how many keys the others ask"
    )
    parser.add_argument(
        "--apart", action="store_true", help="with --hostile: the clients have a core of their own"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, options.serve = parser.parse_known_args()
    with nullcontext(options.project) if options.project else made_project(options.units) as root:
        if options.hostile:
            rows = hostile_rows(root, options, list(islice(questions_of(root), QUESTIONS)), serving)
        else:
            rows = served(root, options)
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
