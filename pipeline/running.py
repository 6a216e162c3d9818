"""The runs of a project: what one would do and cost, the run itself, and what it has made.

Each method imports the modules that it needs, so that a plan loads no database.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import UsageError
from pipeline.runs.services import Services

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from pipeline.engine.bill.forecast import Forecast
    from pipeline.engine.plan import PlannedStep
    from pipeline.engine.run_options import Rows, RunOptions, Selection
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.runs.conversions import ConversionReport, SampleEstimate
    from pipeline.runs.events import OnEvent
    from pipeline.runs.reports import RunEntry
    from pipeline.runs.run_details import RunDetails
    from pipeline.runs.stages import Stage
    from pipeline.snapshots.store import Manifest


class Running(Services):
    """The runs of a project."""

    def plan(self, name: str | None = None) -> list[PlannedStep]:
        """Return what ``index`` would do in each step, and why; no model is called."""
        from pipeline.engine.plan import plan

        return plan(self.workflow(name), self.resources, self.snapshots)

    def forecast(
        self, name: str | None = None, selection: Selection | None = None
    ) -> list[Forecast]:
        """Return what ``index`` would do in each step, and what it would cost.

        No network is used. Only hashes of files are written, so that the run need not read these
        again.
        """
        from pipeline.engine.bill.forecast import forecast
        from pipeline.engine.run_options import ALL

        return forecast(
            self.workflow(name), self.resources, self.snapshots, self.usage(), selection or ALL,
            speed_of=self.reply_speed,
        )  # fmt: skip

    def convert(self, name: str | None = None) -> ConversionReport:
        """Convert the files that a run of the workflow would convert, and keep the results; no
        model is asked. A plan knows afterwards what all files say."""
        from pipeline.runs.conversions import convert_files

        with self.runs.alone():
            return convert_files(self, name)

    def forecast_by_sample(
        self, sample: int, name: str | None = None, selection: Selection | None = None
    ) -> tuple[list[Forecast], SampleEstimate]:
        """Convert a sample of the files that are not converted, and return the forecast with what
        the other files would add to it. No model is asked."""
        from pipeline.engine.bill.forecast import totals
        from pipeline.runs.conversions import convert_files, estimate_rest

        before = totals(self.forecast(name, selection))["expected"]
        with self.runs.alone():
            converted = convert_files(self, name, sample)
        forecasts = self.forecast(name, selection)
        return forecasts, estimate_rest(converted, before, totals(forecasts)["expected"])

    def note_on_layout(self, name: str | None = None) -> str:
        """Return a note if an earlier version of graphmill has run the workflow last, whose tables
        in the stores are of another layout; else ""."""
        from pipeline.stores.base import LAYOUT

        version = self.snapshots.schema_version(self.workflow(name).name)
        if version is None or version >= LAYOUT:
            return ""
        return (
            f"the last run was one of an earlier graphmill (schema {version}): the next load writes"
            " the text units again, and asks no model; questions wait for it"
        )

    def index(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Bring the snapshots up to date with the documents. See ``run``."""
        from pipeline.runs.stages import index_stage

        return self._run_alone(name, progress, on_event, options, index_stage)

    def load(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Bring the stores up to date with the snapshots.

        With ``options.manifest``, a run id or an unambiguous beginning of one, bring them back to
        the end of that run; the next load brings back the newest tables.

        Raises UsageError for an unknown run, DataError if its snapshots are no longer kept.
        """
        from pipeline.runs.stages import load_stage

        return self._run_alone(name, progress, on_event, options, load_stage)

    def run(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
    ) -> RunReport:
        """Index, then load.

        The stores stay unchanged, and the exit code is 3, if more rows of a step than
        ``max_reject_ratio``, or all, were rejected. The stores must answer before any endpoint is
        called. Raises UsageError, before any work, for a workflow whose tables cannot be loaded.

        ``on_event`` is called with every event but heartbeats as a dict (see
        pipeline/runs/events.py), one at a time, possibly from another thread. If it raises an
        error, the run ends; after an OSError it is not called again, and the run goes on.
        ``progress``, if given, receives everything instead.

        Raises DeletionError if more documents are missing than ``max_delete_ratio``, BudgetError if
        the options' limits are reached, WaitingError while a batch is not ready. The next run
        continues from there.
        """
        from pipeline.runs.stages import index_stage, load_stage

        return self._run_alone(name, progress, on_event, options, index_stage, load_stage)

    def retry(
        self,
        name: str | None = None,
        progress: Progress | None = None,
        on_event: OnEvent | None = None,
        options: RunOptions | None = None,
        recovered: bool = False,
        unended: bool = False,
    ) -> RunReport:
        """Run the workflow, by default the one that ``table`` reads, and ask again for lost or cut
        rows.

        ``recovered`` includes rows whose replies were incomplete or repaired. ``unended`` includes
        rows of which a reply lacks its end mark; only a reply with the mark replaces it. A workflow
        that cannot be loaded is only indexed.
        """
        from pipeline.engine.run_options import RunOptions

        workflow = self.workflow(name or self.shown_workflow()).name
        run = self.index if self.why_not_loadable(workflow) else self.run
        again, without_end = self._asked_again(workflow, recovered, unended)
        wanted = replace(options or RunOptions(), again=again, unended=without_end)
        report = run(workflow, progress, on_event, wanted)
        if again:
            return report
        note = "no row was lost or cut, so no row was asked again"
        return replace(report, notes=(note, *report.notes))

    def forecast_retry(
        self, name: str | None = None, recovered: bool = False, unended: bool = False
    ) -> list[Forecast]:
        """Return what each step would do and cost in a ``retry``; no model is called."""
        from pipeline.engine.bill.forecast import forecast

        workflow = self.workflow(name or self.shown_workflow())
        again, without_end = self._asked_again(workflow.name, recovered, unended)
        return forecast(
            workflow, self.resources, self.snapshots, self.usage(), again=again,
            unended=without_end,
            speed_of=self.reply_speed,
        )  # fmt: skip

    def _asked_again(self, workflow: str, recovered: bool, unended: bool) -> tuple[Rows, Rows]:
        """Return the rows that a retry asks for, by step, and those of them that need an end
        mark."""
        from pipeline.engine.losses import ASKED_AGAIN, RECOVERED, UNENDED

        rejects = self.rejects(workflow)
        lost = rejects["kind"].isin(ASKED_AGAIN) & (rejects["class"] == "lost")
        without_end = (rejects["kind"] == UNENDED) & unended
        repaired = (rejects["kind"] == RECOVERED) & recovered
        chosen = lost | without_end | repaired
        return _rows_by_step(rejects[chosen]), _rows_by_step(rejects[without_end])

    def usage(self) -> pd.DataFrame:
        """Return one row for every call of every run; engine/usage/journal.py lists the columns."""
        from pipeline.engine.usage.journal import read_usage

        return read_usage(self.usage_folder)

    def status(self) -> dict[str, Any] | None:
        """Return the report of the last run that began, or None before the first.

        Its ``refused`` tells of a later run that did not begin; see ``Runs.status``.
        """
        return self.runs.status()

    def list_runs(self, of: Sequence[str] | None = None) -> list[RunEntry]:
        """Return all runs, or those of these ids, the newest first.

        Runs that were killed and the one under way are included.
        """
        from pipeline.runs.run_details import list_runs

        return list_runs(self, of)

    def run_details(self, run: str | None = None) -> RunDetails:
        """Return everything that is known of a run, by default of the newest.

        ``run`` is its id or an unambiguous beginning of it. Raises UsageError if no run, or
        several, match.
        """
        from pipeline.runs.run_details import run_details

        return run_details(self, run)

    def table(self, name: str, workflow: str | None = None) -> pd.DataFrame:
        """Return a table of the workflow's last completed run.

        The workflow is by default the one that the workspace shows, or else the one that settings
        name. Relationships have their ranks (snapshots/ranks.py). Raises UsageError if there is no
        such table.
        """
        from pipeline.snapshots.ranks import degrees, lack_ranks, with_ranks

        manifest = self._manifest(workflow)
        if not manifest.tables:
            advice = self.snapshots.advise_without_tables(manifest.workflow, "workflow")
            raise UsageError(f"workflow '{manifest.workflow}': no tables yet; {advice}")
        if name not in manifest.tables:
            have = ", ".join(sorted(manifest.tables))
            others = ", ".join(sorted(set(self.snapshots.workflows()) - {manifest.workflow}))
            or_name = ""
            if others and workflow is None:
                or_name = f"; or name another workflow: {others}"
            raise UsageError(
                f"workflow '{manifest.workflow}': no table '{name}'; have: {have}{or_name}"
            )
        found = self.snapshots.tables.read(manifest.tables[name])
        if lack_ranks(name, found.columns, manifest, self.snapshots):
            return with_ranks(found, degrees(manifest, self.snapshots))
        return found

    def rejects(self, workflow: str | None = None) -> pd.DataFrame:
        """Return the rejects of the last completed run (by default as in ``table``) with a column
        ``class``.

        The class is "lost", or "decided" for rows that a rule left out or only remarked on
        (contract/reasons.py).
        """
        from pipeline.engine.losses import classes_of_steps
        from pipeline.runs.run_details import own_reasons

        found = self.table("rejects", workflow)
        own = own_reasons(self, workflow or self.shown_workflow())
        return found.assign(**{"class": classes_of_steps(found, own)})

    def _manifest(self, workflow: str | None) -> Manifest:
        return self.snapshots.manifest(workflow or self.shown_workflow())

    def _run_alone(
        self,
        name: str | None,
        progress: Progress | None,
        on_event: OnEvent | None,
        options: RunOptions | None,
        *stages: Stage,
    ) -> RunReport:
        from pipeline.engine.run_options import RunOptions
        from pipeline.engine.run_report import Progress
        from pipeline.persons.intention import ErasureIntents
        from pipeline.purge.intention import PurgeIntents
        from pipeline.runs.events import Events
        from pipeline.runs.stages import run_stages

        progress = progress or (Events(on_event) if on_event else Progress())
        self.workflow(name)
        with self.runs.alone():
            PurgeIntents(self.root).refuse_broken_off()
            unended = ErasureIntents(self.root).describe_unended()
            if unended:
                progress.told(unended)
            return run_stages(self, name, progress, options or RunOptions(), *stages)


def _rows_by_step(rejects: pd.DataFrame) -> Rows:
    return {str(step): frozenset(rows) for step, rows in rejects.groupby("step")["row_id"]}
