"""The figures of a project's runs for Prometheus, in its text format.

``graphmill serve`` shows them at /metrics, and each run writes them to a file for the textfile
collector of node_exporter. Labels are the project's folder, workflows, and words of closed lists.
No document, user or key is named.

The official client is not used. Its registry counts in one process, and these figures are read from
reports; what is left of it is the text format, which is the function ``exposition``.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pipeline.engine.run_report import RunReport
from pipeline.errors import GraphmillError, in_words
from pipeline.files import new_file, tell
from pipeline.runs.reports import KILLED, UNDER_WAY, RunEntry, Runs

TEXTFILE = "graphmill.prom"
"""The file for node_exporter in data/runs, unless settings name another."""
STATES = (
    "completed", "completed_with_rejects", "failed", "stopped", "waiting",
    UNDER_WAY, KILLED,
)  # fmt: skip
_NAME = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True)
class Sample:
    """A value with its labels; ``suffix`` is that of a part of a histogram."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True)
class Metric:
    """A metric with its samples; ``about`` is its help text."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    about: str
    samples: Sequence[Sample]


def exposition(metrics: Iterable[Metric]) -> str:
    """Return metrics in the text format of Prometheus, version 0.0.4."""
    lines = []
    for metric in metrics:
        assert _NAME.fullmatch(metric.name), metric.name
        if not metric.samples:
            continue
        about = metric.about.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {metric.name} {about}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for sample in metric.samples:
            labels = [f'{name}="{_quoted(text)}"' for name, text in sample.labels.items()]
            in_braces = f"{{{','.join(labels)}}}" if labels else ""
            lines.append(f"{metric.name}{sample.suffix}{in_braces} {_number(sample.value)}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """Return the text of a label with its backslashes, quotes and line ends escaped."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """Return a number as Prometheus reads it: whole numbers have no point."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


@dataclass(frozen=True)
class _KnownRun:
    """A run as the metrics show it; ``succeeded`` is when it did, None if it did not."""

    entry: RunEntry
    succeeded: float | None = None


@dataclass
class RunMetrics:
    """The figures of the runs of a project, read from their reports.

    ``read`` keeps what is known of reported runs, whose reports never change.
    """

    folder: Path
    runs: Runs
    read: dict[str, _KnownRun] = field(default_factory=dict)

    def metrics(self) -> list[Metric]:
        """Return the metrics of the last run of each workflow, and of its last success.

        A run that was refused replaces no other. It is shown beside that.
        """
        last: dict[str, RunEntry] = {}
        refused: dict[str, RunEntry] = {}
        successes: dict[str, float] = {}
        for known in self._known_runs():
            workflow = known.entry.workflow
            if not known.entry.was_refused:
                last.setdefault(workflow, known.entry)
            elif workflow not in last:
                refused.setdefault(workflow, known.entry)
            if known.succeeded is not None:
                successes.setdefault(workflow, known.succeeded)
        built = Sample({"project": self._project, "version": version("graphmill")}, 1)
        succeeded = [Sample(self._of(name), when) for name, when in successes.items()]
        last_refused: list[Sample] = []
        for name, entry in refused.items():
            when = _seconds(entry.ended)
            if when is not None:
                last_refused.append(Sample(self._of(name), when))
        return [
            Metric("graphmill_build_info", "gauge", "The version of graphmill.", [built]),
            Metric(
                "graphmill_run_last_success_timestamp_seconds",
                "gauge",
                "When the last run that worked on all steps ended with exit code 0.",
                succeeded,
            ),
            Metric(
                "graphmill_run_last_refused_timestamp_seconds",
                "gauge",
                "When a run was refused, if it is the newest.",
                last_refused,
            ),
            # Where all runs were refused, the newest is all that there is to see.
            *self._of_last_runs({**refused, **last}),
        ]

    def _known_runs(self) -> list[_KnownRun]:
        """Return what is known of all runs of known workflows, the newest first."""
        # A run without a report may have written one, and may be over, at the next look.
        unread = [run_id for run_id in self.runs.known_ids() if run_id not in self.read]
        fresh: dict[str, _KnownRun] = {}
        for entry, report in self.runs.entries_and_reports(unread):
            if report:
                known = _KnownRun(entry, _success(report))
                self.read[entry.run_id] = known
            else:
                known = _KnownRun(entry)
            fresh[entry.run_id] = known
        found: list[_KnownRun] = []
        for run_id in self.runs.known_ids():
            known = fresh.get(run_id) or self.read.get(run_id)
            # The report of a damaged run does not say which workflow it was.
            if known is not None and known.entry.workflow:
                found.append(known)
        return found

    def _of_last_runs(self, last: Mapping[str, RunEntry]) -> list[Metric]:
        states: list[Sample] = []
        rejects: list[Sample] = []
        tokens: list[Sample] = []
        for workflow, entry in last.items():
            labels = self._of(workflow)
            for state in STATES:
                is_state = 1.0 if state == entry.outcome else 0.0
                states.append(Sample({**labels, "state": state}, is_state))
            rejects.append(Sample({**labels, "class": "lost"}, entry.rejects))
            rejects.append(Sample({**labels, "class": "decided"}, entry.decided))
            tokens.append(Sample({**labels, "direction": "input"}, entry.input_tokens))
            tokens.append(Sample({**labels, "direction": "output"}, entry.output_tokens))
        figures: dict[str, tuple[str, dict[str, float | None]]] = {
            "start_timestamp_seconds": (
                "When the last run began.",
                {name: _seconds(entry.began) for name, entry in last.items()},
            ),
            "end_timestamp_seconds": (
                "When the last run ended; missing while it goes on, and if it was killed.",
                {name: _seconds(entry.ended) for name, entry in last.items()},
            ),
            "duration_seconds": (
                "How long the last run took.",
                {name: entry.seconds for name, entry in last.items()},
            ),
            "exit_code": (
                "The exit code of the last run, if it has reported.",
                {name: entry.exit_code for name, entry in last.items()},
            ),
            "model_calls": (
                "Calls of models in the last run, without those answered by the cache.",
                {name: entry.calls for name, entry in last.items()},
            ),
            "cost": (
                "The cost of the last run by the models' prices; missing without a price.",
                {name: entry.cost for name, entry in last.items()},
            ),
            "rows_written": (
                "Rows of the stores that the last run inserted, changed or deleted.",
                {name: entry.rows_written for name, entry in last.items()},
            ),
        }
        metrics = [
            Metric("graphmill_run_last_state", "gauge", "1 for the state of the last run.", states),
            Metric(
                "graphmill_run_last_rejects", "gauge", "Rejects of the last run by class.", rejects
            ),
            Metric("graphmill_run_last_tokens", "gauge", "Tokens of the last run.", tokens),
        ]
        for name, (about, values) in figures.items():
            samples = [
                Sample(self._of(workflow), value)
                for workflow, value in values.items()
                if value is not None
            ]
            metrics.append(Metric(f"graphmill_run_last_{name}", "gauge", about, samples))
        return metrics

    @property
    def _project(self) -> str:
        return str(self.folder.absolute())

    def _of(self, workflow: str) -> dict[str, str]:
        return {"project": self._project, "workflow": workflow}


def _success(report: Mapping[str, Any]) -> float | None:
    """Return when a run succeeded, or None.

    A load alone is no success, since it looks at no document. Nor is a run of some steps, for the
    others may have been the ones that fail. Nor is a run that asked no model and left replies to
    the next one.
    """
    indexed = bool(report["steps"])
    waits = any(step["waiting"] for step in report["steps"])
    if report["exit_code"] != 0 or not indexed or waits or report["not_selected"]:
        return None
    return _seconds(RunEntry.of(report).ended)


def _seconds(moment: str) -> float | None:
    """Return a time in ISO 8601 as seconds since 1970; None for ""."""
    return datetime.fromisoformat(moment).timestamp() if moment else None


def write_textfile(folder: Path, runs: Runs, path: str, report: RunReport) -> None:
    """Replace the file for node_exporter: at ``path``, or in data/runs where that is empty.

    ``report`` is that of the run that ends, which a full disk may have kept out of the folder.
    Every user may read it, since node_exporter has a user of its own. A file that cannot be written
    is told on stderr, and ends no run.
    """
    target = folder / path if path else runs.folder / TEXTFILE
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(2, "no such folder", str(target.parent))
        content = report.to_json()
        ended = _KnownRun(RunEntry.of(content), _success(content))
        text = exposition(RunMetrics(folder, runs, {report.run_id: ended}).metrics())
        with new_file(target) as temporary:
            # A folder's name may hold bytes that are no UTF-8.
            temporary.write_text(text, encoding="utf-8", errors="replace")
            temporary.chmod(0o644)
    except (OSError, GraphmillError) as error:
        tell(f"metrics.textfile: {in_words(error)}; the figures of this run are not written there")
