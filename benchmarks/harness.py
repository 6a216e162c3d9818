"""Provide what the benchmarks share.

There are projects over the synthetic corpus, an endpoint in a process of its own, measurements of
one run in a process of its own, and tables of results.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import figures  # noqa: E402
from benchmarks.corpus import write_corpus  # noqa: E402
from pipeline.settings.init import init_project  # noqa: E402
from pipeline.stores.postgres.embedded import stop_embedded  # noqa: E402
from tests.servers.neo4j_server import neo4j_server  # noqa: E402

RECORDS = figures.take_option()
"""Whether the tables that are printed go into figures.json."""
UNIT_TOKENS = 150
"""Size of a text unit where a document has several passages: each becomes a unit of its own."""


@dataclass(frozen=True)
class Endpoint:
    """``env``: what a command needs to talk to it."""

    env: Mapping[str, str]


@contextmanager
def endpoint(delay: float = 0.0, requests_file: Path | None = None) -> Iterator[Endpoint]:
    """Start the endpoint of the tests in a process of its own.

    At the end it writes the chat requests that it received to ``requests_file``.
    """
    command = [sys.executable, str(ROOT / "benchmarks" / "endpoint.py"), "--delay", str(delay)]
    command += ["--requests-file", str(requests_file)] if requests_file else []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        yield Endpoint(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait()


@contextmanager
def new_project(units: int, passages: int = 1, workers: int = 1) -> Iterator[Path]:
    """Make a project over a synthetic corpus in a temporary folder, with the builtin embeddings."""
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name) / "project"
        init_project(root)
        write_corpus(root / "data" / "input", units, passages)
        settings = root / "settings.yaml"
        settings.write_text(settings.read_text().replace("workers: 1 ", f"workers: {workers} "))
        if passages > 1:
            for path in (root / "workflows").glob("*.yaml"):
                path.write_text(path.read_text().replace("size: 1200", f"size: {UNIT_TOKENS}"))
        try:
            yield root
        finally:
            stop_embedded(root / "data" / "postgres")


def resolving(root: Path) -> None:
    """Put entity resolution with a judge into the project's ``index``, and its claims behind it
    into ``claims``, as docs/resolution.md says."""
    index = root / "workflows" / "index.yaml"
    text = index.read_text(encoding="utf-8")
    merged = ("merged_entities", "merged_relationships", "mentions")
    apart = {name: f"{name}_apart" for name in merged}
    resolved = {
        name.replace("merged", "resolved") if "_" in name else f"resolved_{name}": name
        for name in merged
    }
    steps = [
        {"verb": "merge_graphs", "outputs": apart},
        {
            "verb": "resolve_entities", "inputs": apart, "outputs": resolved,
            "prompts": {"judge": "resolve_entities"}, "models": {"chat": "default"},
        },
    ]  # fmt: skip
    index.write_text(text.replace("  - verb: merge_graphs\n", _as_steps(steps)), encoding="utf-8")
    claims = root / "workflows" / "claims.yaml"
    followed = {
        "verb": "resolve_claims", "after": "extract_claims",
        "inputs": {"covariates": "claims_apart", "resolved_entities": "merged_entities"},
        "outputs": {"resolved_covariates": "covariates"},
    }  # fmt: skip
    text = claims.read_text(encoding="utf-8")
    extracted = "  - verb: extract_claims\n"
    text = text.replace(extracted, f"{extracted}    outputs: {{covariates: claims_apart}}\n")
    claims.write_text(text + _as_steps([followed]), encoding="utf-8")


def _as_steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """Write a workflow's list of steps as lines of JSON, which is YAML too."""
    return "".join(f"  - {json.dumps(step)}\n" for step in steps)


def without_index(root: Path) -> None:
    """Set the project up so that no load builds an HNSW index."""
    settings = root / "settings.yaml"
    settings.write_text(
        settings.read_text().replace("exact_below: 5000 ", "exact_below: 1000000000 ")
    )


@contextmanager
def graph_in_neo4j(root: Path) -> Iterator[dict[str, str]]:
    """Start a Neo4j server for the project's graph; yield the variables that a command needs."""
    settings = root / "settings.yaml"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("graph: postgres", "graph: neo4j"),
        encoding="utf-8",
    )
    with neo4j_server(options=()) as address:
        yield {
            "NEO4J_URI": address.uri,
            "NEO4J_USER": address.user,
            "NEO4J_PASSWORD": address.password,
        }


def measure(
    root: Path, workflow: str, stage: str = "index", env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Measure one run in a process of its own; see measure.py for the figures."""
    return _json_of("measure.py", str(root), workflow, stage, env=env)


def measure_bare(requests_file: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Send the chat requests again with the client alone, and measure it; see bare.py."""
    return _json_of("bare.py", str(requests_file), env=env)


def measure_load(script: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Measure loads in a process of their own; ``script`` describes figures and ``spec``."""
    return _json_of(script, json.dumps(spec), env=None)


def command(root: Path, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a graphmill command and return the JSON that it prints."""
    line = [sys.executable, "-m", "pipeline", "-C", str(root), *arguments, "--json"]
    return _run_json(line, env)


def print_compared(
    description: str | None, compare: Callable[[int, int], list[dict[str, Any]]]
) -> None:
    """Run a benchmark from the command line and print its rows.

    ``compare`` receives the number of text units and the number of tries.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=5_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = compare(options.units, options.tries)
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows with the same keys as a table in Markdown; record them where that was asked."""
    if RECORDS:
        figures.record(rows)
    names = list(rows[0])
    cells = [names, *([_shown(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        lines.append(f"| {' | '.join(padded)} |")
    rule = "|".join("-" * (width + 2) for width in widths)
    print("\n".join([lines[0], f"|{rule}|", *lines[1:]]), flush=True)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)


def _json_of(script: str, *arguments: str, env: Mapping[str, str] | None) -> dict[str, Any]:
    return _run_json([sys.executable, str(ROOT / "benchmarks" / script), *arguments], env)


def _run_json(line: Sequence[str], env: Mapping[str, str] | None) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    if done.returncode or not done.stdout:
        raise SystemExit(
            f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
        )
    return json.loads(done.stdout)
