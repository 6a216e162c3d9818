"""Measure how long a document that is sent over HTTP takes until an answer cites it.

    python benchmarks/freshness.py --units 5000 --minutes 4
    python benchmarks/freshness.py --units 5000 --minutes 4 --workflow index --delay 1

One client sends documents to ``graphmill serve`` at an even rate, and requests a run after each.
Others ask about the documents, the oldest first, until an answer cites each. The time is that from
the answer 202 to this answer. Runs follow each other all the time, so documents are also sent
during runs. With ``--delay`` the chat model, of runs and of answers, is a scripted endpoint whose
replies take so many seconds; the first build is done without the delay. A run that fails ends the
measurement.
"""

import argparse
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
from harness import command, endpoint, new_project, print_table
from serving import serving

KEY = "the-writers-key-of-this-benchmark"
ASK_SECONDS = 0.5
"""The time between two questions about a document that no answer cites yet."""
ASKERS = 8
"""Most questions at once. Answers one after another would take as long as the documents come."""
LATEST_SECONDS = 300.0
"""The time after the last document after which those that are missing are given up."""
WELL_ENDED = (None, 0)
"""Exit codes of a run that has not ended yet, and of one that has ended well."""


@dataclass
class Sent:
    """A document: the moment of its answer 202, and that of the answer that cites it."""

    id: str
    title: str
    question: str
    accepted: float
    cited: float | None = None


@dataclass
class Measured:
    """The documents that were sent, and the runs that were requested."""

    sent: list[Sent] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    ended: bool = False
    loads: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--rate", type=float, default=50, help="Documents a minute.")
    parser.add_argument("--workflow", default="fast")
    parser.add_argument("--delay", type=float, default=0.0, help="Seconds of a model's reply.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    row = freshness(options)
    if options.json:
        print(json.dumps(row))
    else:
        print_table([row])


def freshness(options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of the table: times of the documents, runs, and the machine's load."""
    with new_project(options.units) as root, ExitStack() as stack:
        with endpoint() as quick:
            command(root, "run", options.workflow, env=quick.env)
        env: dict[str, str] = {}
        if options.delay:
            env = dict(stack.enter_context(endpoint(options.delay)).env)
        _, url = stack.enter_context(_served(root, options.workflow, env))
        measured, loads = Measured(), os.getloadavg()[0]
        asking = threading.Thread(target=_ask_all, args=(url, measured), daemon=True)
        asking.start()
        _send_all(url, measured, options)
        measured.ended = True
        asking.join(LATEST_SECONDS)
    times = [one.cited - one.accepted for one in measured.sent if one.cited is not None]
    p50, p95 = np.percentile(times, [50, 95]) if times else (float("nan"), float("nan"))
    return {
        "workflow": options.workflow, "units": options.units, "sent": len(measured.sent),
        "cited": len(times), "p50 s": float(p50), "p95 s": float(p95),
        "most s": max(times, default=float("nan")), "runs": len(measured.runs),
        "load before": loads, "load meanwhile": float(np.mean(measured.loads)),
        "cores": psutil.cpu_count() or 0,
    }  # fmt: skip


@contextmanager
def _served(root: Path, workflow: str, env: Mapping[str, str]) -> Iterator[tuple[Any, str]]:
    """Serve the project with a key that may write; the endpoint's variables reach its runs."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    settings = root / "settings.yaml"
    text = settings.read_text(encoding="utf-8")
    # Runs of the workflow of the settings alone can be requested.
    text = re.sub(r"^workflow: \w+", f"workflow: {workflow}", text, count=1, flags=re.MULTILINE)
    # A run with a limit of its cost needs the price of each model that it asks.
    text = text.replace(
        "model: gpt-4o-mini\n", "model: gpt-4o-mini\n      price: {input: 0, output: 0}\n"
    )
    text = text.replace("read_only: true ", "read_only: false ")
    text = text.replace(
        "  # keys: ", f"  keys: {{bench: {{key: {KEY}, writer: true}}}}\n  # keys: "
    )
    settings.write_text(text, encoding="utf-8")
    try:
        with serving(root, ()) as served:
            yield served
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _send_all(url: str, measured: Measured, options: argparse.Namespace) -> None:
    """Send documents at an even rate, each followed by a request for a run."""
    began, number = time.monotonic(), 0
    run = {"workflow": options.workflow, "max_cost": 100.0}
    with httpx2.Client(base_url=url, headers={"X-API-Key": KEY}, timeout=60) as client:
        while time.monotonic() - began < 60 * options.minutes:
            name = f"Quorl{number:05d}ax"
            text = f"{name} was built by Osric Hale{number} at the Tollen Quay in {1500 + number}."
            document = {"id": name, "text": text, "title": name}
            answer = client.post("/v1/documents", json={"documents": [document]})
            if not answer.is_success:
                raise SystemExit(answer.text)
            measured.sent.append(
                Sent(f"posted/{name}.md", name, f"Who built {name}?", time.monotonic())
            )
            asked = client.post("/v1/runs", json=run)
            asked.raise_for_status()
            requested = asked.json()["id"]
            if requested not in measured.runs:
                _refuse_failed(client, measured.runs)
                measured.runs.append(requested)
            measured.loads.append(os.getloadavg()[0])
            number += 1
            time.sleep(max(0.0, began + number * 60 / options.rate - time.monotonic()))


def _refuse_failed(client: httpx2.Client, runs: Sequence[str]) -> None:
    """End the measurement if one of the last two runs was refused or has failed."""
    for id in runs[-2:]:
        state = client.get(f"/v1/runs/{id}").json()
        if state["state"] in ("refused", "killed") or state["exit_code"] not in WELL_ENDED:
            raise SystemExit(f"run {id}: {state['state']}, {state['message']}")


def _ask_all(url: str, measured: Measured) -> None:
    """Ask about the documents, the oldest first, until an answer cites each.

    While nothing is found only the oldest is asked about. Once it is cited, the next ones are asked
    about together, for the same run has brought them.
    """
    at_once, last = 1, time.monotonic()
    with (
        httpx2.Client(base_url=url, headers={"X-API-Key": KEY}, timeout=60) as client,
        ThreadPoolExecutor(ASKERS) as askers,
    ):
        while True:
            waiting = [one for one in measured.sent if one.cited is None]
            given_up = time.monotonic() - last > LATEST_SECONDS
            if measured.ended and (not waiting or given_up):
                return
            asked = waiting[:at_once]
            list(askers.map(partial(_ask, client), asked))
            if asked and all(one.cited is not None for one in asked):
                at_once, last = ASKERS, time.monotonic()
                continue
            at_once = 1
            time.sleep(ASK_SECONDS)


def _ask(client: httpx2.Client, one: Sent) -> None:
    """Ask about a document, and note the moment if the answer cites it."""
    # The texts are much alike. The condition keeps the measure from being one of recall.
    body = {"query": one.question, "mode": "naive", "where": {"title": one.title}}
    response = client.post("/query", json=body)
    if not response.is_success:
        return
    answer = response.json()
    cited = [entry["source"] for entry in answer["references"] if entry["id"] in answer["cited"]]
    if one.id in cited:
        one.cited = time.monotonic()


if __name__ == "__main__":
    main()
