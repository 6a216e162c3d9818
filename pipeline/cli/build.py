"""The commands init, plan, index, load, run, retry, tune and convert: make a project, its tables
and stores."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import print_bill, print_forecast, print_report
from pipeline.cli.options import (
    STOPPED,
    STOPPED_LOOKING,
    Folder,
    Json,
    Log,
    Name,
    Overrides,
    Shown,
    TakeOver,
    Yes,
    confirm_take_over,
    find_root,
    open_project,
    open_project_at,
    print_aside,
    print_json,
    report_errors,
    split_list,
)
from pipeline.cli.progress import run_progress
from pipeline.cli.run_pages import page_of_run
from pipeline.engine.run_report import Progress, RunReport, StepReport
from pipeline.errors import GraphmillError, counted
from pipeline.files import SETTINGS
from pipeline.settings.init import FIRST_WORKFLOW, SAMPLE_QUESTIONS, init_project

if TYPE_CHECKING:
    from pipeline.engine.bill.forecast import Forecast
    from pipeline.engine.run_options import Selection
    from pipeline.project import Project
    from pipeline.runs.conversions import SampleEstimate
    from pipeline.tuning.tune import Tuning


SAMPLE_QUERY = 'query "Who designed the Skarrow Light?" --mode naive --chunk-top-k 3'
"""A question whose answer stands in one passage, in the mode and with the number of passages that
show it without a chat model."""
Steps = list[str] | None
Start = Annotated[
    str | None, typer.Option("--from", metavar="STEP", help="Leave the steps before as they are.")
]
Only = Annotated[
    Steps, typer.Option("--only", metavar="STEP", help="Leave all other steps as they are.")
]
Skip = Annotated[Steps, typer.Option("--skip", metavar="STEP", help="Leave this step as it is.")]
Force = Annotated[
    Steps, typer.Option("--force", metavar="STEP", help="Run this step though nothing has changed.")
]
MaxCost = Annotated[
    float | None, typer.Option(min=0, help="Stop, with exit code 5, when so much is spent.")
]
MaxTokens = Annotated[
    int | None, typer.Option(min=0, help="Stop, with exit code 5, when so many are used.")
]
AllowDeletes = Annotated[
    bool,
    typer.Option(
        "--allow-deletes", help="Go on even if more documents are gone than max_delete_ratio."
    ),
]
AllowDeletesOf = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-deletes-of",
        metavar="INPUT",
        help="Go on however many documents of this input are gone; '.' is the input folder.",
    ),
]
MemoryProfile = Annotated[
    bool, typer.Option("--memory-profile", help="Note the peak of memory of each step.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Load also where the workspace shows another workflow.")
]
ReEmbed = Annotated[
    bool, typer.Option("--re-embed", help="Load also where its vectors are another model's.")
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", help="Write a page on the run there, however it ends."
    ),
]
Reconvert = Annotated[
    bool, typer.Option("--reconvert", help="Convert every PDF, DOCX, HTML, ... again.")
]
Full = Annotated[
    bool, typer.Option("--full", help="Compare contents, not the hashes stored beside them.")
]
Manifest = Annotated[
    str | None, typer.Option("--manifest", metavar="RUN", help="Load the tables of that run.")
]


def init(
    context: typer.Context, folder: Annotated[Path | None, typer.Argument(metavar="DIR",
        help="The folder to make; else this one.")] = None,
    workflow: Annotated[str | None, typer.Option(metavar="NAME",
        help="The workflow that runs when none is named; else 'fast'.")] = None,
    sample: Annotated[bool, typer.Option("--sample",
        help="With documents to try it on, and questions.")] = False,
    nightly: Annotated[bool, typer.Option("--nightly",
        help="With nightly/: cron, systemd, Kubernetes, with the paths of here.")] = False,
    ontology: Annotated[bool, typer.Option("--ontology",
        help="With ontology.yaml: which types the graph may have.")] = False,
    language: Annotated[str, typer.Option(metavar="CODE",
        help="Prompts in German (de) or Chinese (zh).")] = "",
) -> None:  # fmt: skip
    """Make a project: settings, workflows, prompts, data/input. Existing files are kept."""
    root = (context.obj or Path()) / (folder or "")
    with report_errors(root):
        try:
            written, kept = init_project(
                root, workflow or FIRST_WORKFLOW, sample, nightly, ontology, language
            )
        except OSError as error:
            raise GraphmillError(
                f"{error.filename}: {error.strerror}; choose a folder you may write to"
            ) from None
    print(f"{root}: {counted(len(written), 'file')} written, {len(kept):,} kept")
    if kept and written:
        # After an upgrade these are what the new version has added.
        print(f"new: {', '.join(written)}")
    if workflow and SETTINGS in kept:
        print_aside(
            f"{root / SETTINGS} was there and is as it was; set 'workflow: {workflow}' in it"
        )
    command = "graphmill" if root == Path() else f"graphmill -C {shlex.quote(str(root))}"
    if sample:
        print(f"Next: {command} run")
        print(f"then: {command} {SAMPLE_QUERY}")
        print(f"      {command} eval {shlex.quote(str(root / SAMPLE_QUESTIONS))}")
    elif nightly:
        print(f"Next: graphmill docs nightly says which of {root / 'nightly'} is for what")
    else:
        print(f"Next: put documents into {root / 'data/input'}, then run: {command} run")


def plan(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, start: Start = None, only: Only = None, skip: Skip = None,
    force: Force = None,
    sample: Annotated[int | None, typer.Option("--sample", min=2, metavar="N",
        help="Convert N of the files that are not converted, and estimate the others.")] = None,
) -> None:  # fmt: skip
    """Say per step what it would do and why, and what that would cost. No network is used."""
    # A plan by a sample keeps the files that it has converted.
    stopped = STOPPED_LOOKING if sample is None else STOPPED
    with open_project(context, folder, overrides, as_json, stopped) as project:
        selection = _selection(start, only, skip, force)
        if sample is None:
            show_plan(project, name, project.forecast(name, selection), selection, as_json)
            return
        forecasts, rest = project.forecast_by_sample(sample, name, selection)
        show_plan(project, name, forecasts, selection, as_json, rest)


def convert(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Convert files such as PDF without a run and without a model. A plan is exact then."""
    with open_project(context, folder, overrides, as_json, STOPPED) as project:
        report = project.convert(name)
    if as_json:
        print_json(report.to_json())
        return
    failed = f", {report.failed:,} of them without text" if report.failed else ""
    print(f"{counted(report.converted, 'file')} converted in {report.seconds:.0f} s{failed}")


def show_plan(
    project: "Project",
    name: str | None,
    forecasts: "list[Forecast]",
    selection: "Selection",
    as_json: bool,
    rest: "SampleEstimate | None" = None,
) -> None:
    """Print what a run or a retry would do and cost, and why it would be refused.

    ``rest``: what the files add that are not converted, by a sample.
    """
    from pipeline.engine.bill.forecast import totals
    from pipeline.engine.extraction_notes import extraction_notes

    planned = project.workflow(name)
    workflow = planned.name
    sums = totals(forecasts)
    refusal = project.why_not_loadable(name)
    health_notes = extraction_notes(project.runs.last_health(workflow), planned)
    trades = project.trades(name)
    changes = next((entry.documents for entry in forecasts if entry.documents), None)
    counts = changes.counts if changes else {}
    if refusal:
        refusal = f"{refusal}; until then 'graphmill index {workflow}' alone runs it"
    else:
        refusal = project.refusal_of_model(planned, selection)
    notes = _plan_notes(workflow, forecasts, refusal, counts, project.runs.reports())
    sizes = project.view_sizes(workflow)
    notes += [rest.in_words()] if rest else []
    notes += _notes_on_unset_models(project, forecasts)
    notes += trades
    notes += [f"the last run: {note}" for note in health_notes]
    if layout_note := project.note_on_layout(name):
        notes.append(layout_note)
    notes += [size.line() for size in sizes]
    if not as_json:
        print_forecast(forecasts, sums, notes)
        return
    steps = tuple(map(_planned, forecasts))
    report = RunReport("", workflow, "completed", 0, steps, notes=tuple(notes))
    views = {}
    for size in sizes:
        views[size.view] = {
            "documents": size.documents,
            "text_units": size.text_units,
            "entities": size.entities,
        }
    by_sample = {"by_sample": rest.to_json()} if rest else {}
    bill = {"estimate": sums, **by_sample, "documents": counts, "views": views}
    print_json({**report.to_json(), **bill})


def _notes_on_unset_models(project: "Project", forecasts: "list[Forecast]") -> list[str]:
    """Return a note on each chat model that the run would ask, and that has no key or address."""
    names: dict[str, None] = {}
    for entry in forecasts:
        if entry.estimate.calls[1]:
            names |= dict.fromkeys(project.resources.chat_names(entry.planned.step))
    return [
        f"models.chat.{name}: no api_key and no base_url, so a run would be refused; 'graphmill"
        " doctor' says what to set"
        for name in names
        if not project.settings.models.chat[name].configured
    ]


def _plan_notes(
    workflow: str,
    forecasts: "list[Forecast]",
    refusal: str,
    documents: Mapping[str, int],
    reports: Iterable[Mapping[str, Any]],
) -> list[str]:
    """Return the notes below the bill of a plan.

    ``refusal`` says why the run would be refused, or is "". ``documents`` counts the changed
    documents by kind of change. ``reports`` are those of earlier runs, the newest first.
    """
    from pipeline.engine.bill.forecast import times_in_words

    notes = []
    if documents:
        changed = ", ".join(f"{count:,} {what}" for what, count in documents.items())
        notes.append(f"documents: {changed}")
    to_convert, time = times_in_words(workflow, forecasts, reports)
    if to_convert:
        notes.append(to_convert)
    guessed = [entry.planned.step.id for entry in forecasts if entry.estimate.guessed]
    if guessed:
        notes.append(
            f"{', '.join(guessed)}: the most is an estimate, no bound: no former run tells how long"
            " replies are, or what comes of them"
        )
    undecided = [entry.planned.step.id for entry in forecasts if _needs_a_trial(entry)]
    if undecided:
        notes.append(
            f"{', '.join(undecided)}: format: auto is not decided yet: one call before the first"
            " extraction tries records, and a second one JSON where records fail; the price is"
            " that of records"
        )
    return notes + [note for note in (time, refusal) if note]


def _needs_a_trial(forecast: "Forecast") -> bool:
    """Check whether the run would first try in which format the step's chat model replies."""
    return forecast.planned.step.format_undecided and forecast.planned.action != "reuse"


def index(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto", start: Start = None, only: Only = None,
    skip: Skip = None,
    force: Force = None, max_cost: MaxCost = None, max_tokens: MaxTokens = None,
    allow_deletes: AllowDeletes = False, allow_deletes_of: AllowDeletesOf = None,
    memory_profile: MemoryProfile = False,
    reconvert: Reconvert = False,
    page: Page = None,
) -> None:  # fmt: skip
    """Read the documents and make the tables of the graph (snapshots); nothing is loaded."""
    from pipeline.engine.run_options import RunOptions

    selection = _selection(start, only, skip, force)
    options = RunOptions(
        selection,
        max_cost,
        max_tokens,
        allow_deletes,
        memory_profile,
        reconvert=reconvert,
        allow_deletes_of=tuple(allow_deletes_of or ()),
    )

    def index_documents(project: "Project", progress: Progress) -> RunReport:
        return project.index(name, progress, options=options)

    carry_out(index_documents, context, folder, overrides, as_json, log, page=page)


def load(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto", manifest: Manifest = None, full: Full = False,
    replace: Replace = False, re_embed: ReEmbed = False, take_over: TakeOver = None,
    yes: Yes = False,
    page: Page = None,
) -> None:  # fmt: skip
    """Bring the databases (stores) up to date with the tables of the last run."""
    from pipeline.engine.run_options import RunOptions

    owners = tuple(take_over or ())
    options = RunOptions(
        manifest=manifest, full=full, replace=replace, re_embed=re_embed, take_over=owners
    )

    def load_tables(project: "Project", progress: Progress) -> RunReport:
        return project.load(name, progress, options=options)

    carry_out(load_tables, context, folder, overrides, as_json, log, owners, yes, page=page)


def run(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto", start: Start = None, only: Only = None,
    skip: Skip = None,
    force: Force = None, max_cost: MaxCost = None, max_tokens: MaxTokens = None,
    allow_deletes: AllowDeletes = False, allow_deletes_of: AllowDeletesOf = None,
    memory_profile: MemoryProfile = False,
    reconvert: Reconvert = False, replace: Replace = False, re_embed: ReEmbed = False,
    take_over: TakeOver = None,
    yes: Yes = False, page: Page = None,
) -> None:  # fmt: skip
    """Read the documents, make the graph, and load it into the databases: index, then load."""
    from pipeline.engine.run_options import RunOptions

    owners = tuple(take_over or ())
    options = RunOptions(
        _selection(start, only, skip, force),
        max_cost,
        max_tokens,
        allow_deletes,
        memory_profile,
        reconvert=reconvert,
        replace=replace,
        re_embed=re_embed,
        take_over=owners,
        allow_deletes_of=tuple(allow_deletes_of or ()),
    )

    def run_workflow(project: "Project", progress: Progress) -> RunReport:
        return project.run(name, progress, options=options)

    carry_out(run_workflow, context, folder, overrides, as_json, log, owners, yes, page=page)


def retry(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto",
    recovered: Annotated[bool, typer.Option("--recovered",
        help="Also rows answered by halves or repair.")] = False,
    unended: Annotated[bool, typer.Option("--unended",
        help="Also rows of which a reply lacks its end mark.")] = False,
    only_plan: Annotated[bool, typer.Option("--plan",
        help="Only say what would be asked, and its cost.")] = False,
    max_cost: MaxCost = None, max_tokens: MaxTokens = None,
    allow_deletes: AllowDeletes = False, allow_deletes_of: AllowDeletesOf = None,
    memory_profile: MemoryProfile = False,
    replace: Replace = False, re_embed: ReEmbed = False, take_over: TakeOver = None,
    yes: Yes = False,
    page: Page = None,
) -> None:  # fmt: skip
    """Run, and ask again for exactly the rows that were lost or cut."""
    from pipeline.engine.run_options import RunOptions

    if only_plan:
        with open_project(context, folder, overrides, as_json) as project:
            shown = name or project.shown_workflow()
            forecasts = project.forecast_retry(shown, recovered, unended)
            show_plan(project, shown, forecasts, _selection(), as_json)
        return

    owners = tuple(take_over or ())
    options = RunOptions(
        max_cost=max_cost,
        max_tokens=max_tokens,
        allow_deletes=allow_deletes,
        memory_profile=memory_profile,
        replace=replace,
        re_embed=re_embed,
        take_over=owners,
        allow_deletes_of=tuple(allow_deletes_of or ()),
    )

    def retry_lost_rows(project: "Project", progress: Progress) -> RunReport:
        return project.retry(name, progress, options=options, recovered=recovered, unended=unended)

    carry_out(retry_lost_rows, context, folder, overrides, as_json, log, owners, yes, page=page)


def _selection(
    start: str | None = None,
    only: list[str] | None = None,
    skip: list[str] | None = None,
    force: list[str] | None = None,
) -> "Selection":
    from pipeline.engine.run_options import Selection

    return Selection(start, tuple(only or ()), tuple(skip or ()), tuple(force or ()))


def _planned(forecast: "Forecast") -> StepReport:
    """Return the report of a step that is only planned: its numbers are the least to expect."""
    planned, estimate = forecast.planned, forecast.estimate
    return StepReport(
        planned.step.id,
        planned.step.verb.name,
        planned.action,
        planned.reason,
        calls=estimate.calls[0],
        cached_calls=estimate.known,
        input_tokens=estimate.input_tokens[0],
        output_tokens=estimate.output_tokens[0],
        cost=estimate.cost[0] if estimate.cost else None,
        estimate={**asdict(estimate), "seconds": forecast.seconds},
    )


WORKFLOW = "{workflow}"
"""The place of the workflow's name in a text that is written before the run."""


def carry_out(
    stages: "Callable[[Project, Progress], RunReport]", context: typer.Context, folder: Path | None,
    overrides: list[str] | None, as_json: bool, log: str, owners: Sequence[str] = (),
    yes: bool = False,
    then: str = "", page: Path | None = None,
) -> None:  # fmt: skip
    """Run the stages, show their progress and the result, and exit with the run's exit code.

    ``owners`` are the owners whose workspace may be taken over. ``then`` is printed at the end for
    people, with the name of the workflow for ``WORKFLOW``. ``page`` is the file for a page about
    the run.
    """
    root = find_root(context, folder)
    with (
        report_errors(root, as_json, log=log),
        page_of_run(root, overrides, page),
        open_project_at(root, overrides) as project,
    ):
        confirm_take_over(project, owners, yes)
        with run_progress(log, root) as progress:
            report = stages(project, progress).to_json()
        rejects = project.rejects(report["workflow"]) if report["totals"]["rejects"] else None
    if as_json:
        print_json(report)
    else:
        print_report(report, rejects)
        print(then.replace(WORKFLOW, report["workflow"]), end="")
    raise typer.Exit(report["exit_code"])


def tune(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    only_plan: Annotated[bool, typer.Option("--plan",
        help="Only say what would be asked, and its cost.")] = False,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Text units to read.")] = 15,
    examples: Annotated[int, typer.Option(min=0, metavar="N",
        help="Examples in the extraction prompt.")] = 3,
    max_types: Annotated[int, typer.Option(min=1, metavar="N", help="Entity types at most.")] = 10,
    domain: Annotated[str, typer.Option(help="The field, where it is known.")] = "",
    language: Annotated[str, typer.Option(help="The language, where it is known.")] = "",
    types: Annotated[str,
        typer.Option(help="The entity types, comma-separated, where they are known.")] = "",
    model: Annotated[str, typer.Option(help="Which of models.chat answers.")] = "default",
    max_cost: MaxCost = None, max_tokens: MaxTokens = None,
) -> None:  # fmt: skip
    """Read a sample of the documents, and write prompts for them beside the present ones."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.tuning.questions import TuningBrief
        from pipeline.tuning.tune import TuneOptions

        wanted = TuningBrief(domain, language, split_list(types), max_types)
        options = TuneOptions(
            sample, examples, wanted=wanted, model=model, max_cost=max_cost, max_tokens=max_tokens
        )
        if only_plan:
            estimate = asdict(project.forecast_tuning(name, options))
            if as_json:
                print_json(estimate)
            else:
                print_bill("tune", estimate)
            return
        tuning = project.tune(name, options)
    if as_json:
        print_json(tuning.to_json())
    else:
        _print_tuning(tuning)


def _print_tuning(tuning: "Tuning") -> None:
    """Print what was found of the documents, the prompts that were written, and the cost."""
    found = tuning.findings
    print(f"domain: {found.domain}")
    print(f"language: {found.language}")
    print(f"persona: {found.persona}")
    print(f"entity types: {', '.join(found.entity_types)}")
    print(f"examples: {len(found.examples)}")
    for old, new in tuning.prompts.items():
        print(f"prompts/{new}.md  (was {old})")
    cost = "" if tuning.cost is None else f", cost {tuning.cost:.4f}"
    tokens = f"{tuning.input_tokens:,} + {tuning.output_tokens:,} tokens"
    print(f"{counted(tuning.calls, 'model call')} ({tuning.known:,} known), {tokens}{cost}")
    print(f"\nTo use them:\n{tuning.snippet}")
