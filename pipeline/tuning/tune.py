"""Tune the prompts of a workflow to its documents: the sample, the forecast of the cost, and the
tuning."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.engine.bill.counting_models import RehearsedChat, Tally
from pipeline.engine.bill.expected_calls import Amount, Estimate
from pipeline.engine.documents.kept_documents import with_kept
from pipeline.engine.plan import Planner, tables_of
from pipeline.engine.resources import Resources
from pipeline.engine.run_options import ALL
from pipeline.engine.usage.journal import Journal, settle
from pipeline.engine.usage.run_budget import Budget, Meter, MeteredChat
from pipeline.engine.workflow import FILE_TEXT_UNITS, Workflow
from pipeline.errors import ModelError, UsageError
from pipeline.models.base import Tokenizer, Tokens
from pipeline.runs.services import DEFAULT, Services
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.stores.base import silent
from pipeline.text.ids import digest
from pipeline.tuning.questions import (
    Passages,
    SampleFindings,
    TunePrompts,
    TuningBrief,
    questions,
)
from pipeline.tuning.tuned_prompts import EXTRACT_ROLE, extract_step, tuned_texts, write_prompts
from pipeline.verbs.graph_prompt import RECORDS, Format
from pipeline.verbs.join_descriptions import cut

TEXT_UNITS = "text_units"


def text_units_of(
    workflow: Workflow, resources: Resources, snapshots: SnapshotStore
) -> pd.DataFrame:
    """Return the table of text units as the workflow would make it now.

    No model is called, and nothing is written but hashes of files. Raises UsageError if no step
    makes text units, or only after a step with a model.
    """
    previous = snapshots.manifest(workflow.name)
    planner = Planner(workflow, resources, snapshots, ALL, (), previous.steps)
    known: dict[str, Snapshot] = {}
    frames: dict[str, pd.DataFrame] = {}

    def read_table(name: str) -> pd.DataFrame:
        return frames[name] if name in frames else snapshots.tables.read(known[name])

    # A prompt is tuned to texts that a model will read, not to rows of tables.
    written = {table for step in workflow.steps for table in step.outputs.values()}
    wanted = FILE_TEXT_UNITS if FILE_TEXT_UNITS in written else TEXT_UNITS
    for step in workflow.steps:
        planned = planner.plan(step, known)
        if planned.record and planned.action == "reuse":
            known |= tables_of(step, planned.record)
        elif step.models:
            break
        else:
            computed = resources.call(planned.step, step.inputs_from(read_table))
            computed = with_kept(step, computed, previous, snapshots)
            for name in step.verb.outputs:
                if name in computed:
                    frames[step.outputs[name]] = computed[name]
        if wanted in step.outputs.values():
            return read_table(wanted)
    raise UsageError(
        f"workflow '{workflow.name}': no step makes text units without a model; tune another"
        " workflow"
    )


def sample(text_units: pd.DataFrame, size: int) -> list[str]:
    """Return the texts of up to ``size`` text units, in an order that looks random but is always
    the same.

    Each document in turn gives one text unit. Documents and their units are ordered by a digest of
    their ids. Blank and repeated texts are left out.
    """
    rows = pd.DataFrame(
        {
            "text": text_units["text"],
            "document": [digest(id) for id in text_units["document_id"]],
            "unit": [digest(id) for id in text_units["id"]],
        }
    )
    rows = rows[rows["text"].str.strip() != ""]
    rows = rows.sort_values(["document", "unit"]).drop_duplicates("text")
    # The first unit of each document has turn 0, the second one turn 1, ...
    rows = rows.assign(turn=rows.groupby("document").cumcount())
    rows = rows.sort_values(["turn", "document"], kind="stable")
    return rows["text"].head(size).tolist()


TUNE = "tune"
"""Name of the tuning in the usage records."""
SHORT_REPLIES, SHORT_REPLY = 4, (2, 150)
"""Number of questions besides the examples, and the least and most tokens of a reply to one."""
RECORDS_PER_TEXT = 2
"""Greatest ratio between the tokens of an example's records and those of its text."""
PLACEHOLDERS = {
    "domain": Placeholders(("texts",)),
    "language": Placeholders(("texts",)),
    "persona": Placeholders(("domain",)),
    "entity_types": Placeholders(("texts", "max_types"), ("persona", "domain")),
}
"""Placeholders of the prompts of the tuning, by role: the required and the optional ones."""


@dataclass(frozen=True)
class TuneOptions:
    """Options of the tuning.

    ``sample``: the number of text units that the model reads. ``examples``: the number of them to
    extract from, each cut to ``example_tokens``. ``max_input_tokens``: the tokens of all passages
    in one question. ``wanted``: known answers, which are not requested. ``model``: the model of
    models.chat that answers. ``max_cost`` and ``max_tokens``: see RunOptions.
    """

    sample: int = 15
    examples: int = 3
    example_tokens: int = 250
    max_input_tokens: int = 8000
    wanted: TuningBrief = TuningBrief()
    model: str = DEFAULT
    max_cost: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.sample < 1 or self.examples < 0 or self.wanted.max_types < 1:
            raise UsageError("tune: --sample and --max-types start at 1, --examples at 0")


@dataclass(frozen=True)
class Tuning:
    """Result of the tuning.

    ``prompts``: the new prompts by the names of the old ones. ``snippet``: the lines to write into
    the workflow's file and settings.yaml. ``calls``: the number of calls. ``known``: the number of
    replies that needed no call.
    """

    workflow: str
    findings: SampleFindings
    prompts: dict[str, str]
    snippet: str
    calls: int
    known: int
    input_tokens: int
    output_tokens: int
    cost: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def forecast_tuning(project: Services, name: str | None, options: TuneOptions) -> Estimate:
    """Return the expected requests and cost of ``tune``.

    No network is used, and nothing is written but hashes of files.
    """
    workflow = project.workflow(name)
    prompts = _load_prompts(project, workflow)
    chat = project.chat(options.model)
    tally = Tally(project.tokenizer)
    passages = _select_passages(project, workflow, options)
    RehearsedChat(chat, tally).converse([questions(passages, options.wanted, prompts)])
    least_of_reply, most_of_reply = SHORT_REPLY
    # A prompt may contain the replies to the questions before it.
    most_of_replies = tally.calls * SHORT_REPLIES * most_of_reply
    input_range = (tally.input_tokens, tally.input_tokens + most_of_replies)
    examples = min(options.examples, tally.calls)
    tokens_of_examples = examples * RECORDS_PER_TEXT * options.example_tokens
    output_range = (
        tally.calls * least_of_reply,
        tally.calls * most_of_reply + tokens_of_examples,
    )
    least_cost = chat.cost(Tokens(input_range[0], output_range[0]))
    most_cost = chat.cost(Tokens(input_range[1], output_range[1]))
    cost = None if least_cost is None or most_cost is None else (least_cost, most_cost)
    middle = Tokens(sum(input_range) // 2, sum(output_range) // 2)
    expected = Amount(tally.calls, middle.input, middle.output, chat.cost(middle))
    return Estimate(
        rows=tally.calls + tally.known,
        known=tally.known,
        calls=(tally.calls, tally.calls),
        input_tokens=input_range,
        output_tokens=output_range,
        cost=cost,
        expected=expected,
        guessed=True,
    )


def tune(project: Services, name: str | None, options: TuneOptions) -> Tuning:
    """Ask the model about the sample, and write the tuned prompts as new files in prompts/.

    The caller must hold the project's lock. Raises ModelError, with nothing written, if a reply
    cannot be used. Raises BudgetError when the options' limits are reached: replies are kept, and
    the next call continues from there.
    """
    workflow = project.workflow(name)
    prompts = _load_prompts(project, workflow)
    passages = _select_passages(project, workflow, options)
    # A user waits for this command, so it does not wait for a server that is starting.
    chat = replace(project.chat(options.model), wait_for_model=0.0)
    budget = Budget(options.max_cost, options.max_tokens)
    if options.max_cost is not None and chat.cost(Tokens(1, 1)) is None:
        raise UsageError(
            f"--max-cost: model '{chat.model}' has no price; set its price in settings.yaml, or use"
            " --max-tokens"
        )
    chat.preflight()
    settle(project.usage_folder)
    with Journal(project.usage_folder, project.runs.new_id(), workflow.name) as journal:
        meter = Meter(TUNE, silent, budget, journal)
        (findings,) = MeteredChat(chat, meter).converse(
            [questions(passages, options.wanted, prompts)]
        )
    if findings.problems:
        raise ModelError(
            f"tune: {'; '.join(findings.problems)}; nothing is written: try again, or another model"
        )
    texts = tuned_texts(workflow, project.resources, findings)
    new_prompts = write_prompts(project.root / "prompts", texts)
    return Tuning(
        workflow=workflow.name,
        findings=findings,
        prompts=new_prompts,
        snippet=_snippet(workflow, findings, new_prompts),
        calls=meter.calls,
        known=meter.cached_calls,
        input_tokens=meter.input_tokens,
        output_tokens=meter.output_tokens,
        cost=meter.cost,
    )


def _select_passages(project: Services, workflow: Workflow, options: TuneOptions) -> Passages:
    """Return the texts of the sample, cut to their limits. Raise UsageError if there is no text."""
    texts = sample(text_units_of(workflow, project.resources, project.snapshots), options.sample)
    if not texts:
        raise UsageError(f"tune: {project.input_folder}: no text to read; put documents there")
    share = max(options.max_input_tokens // len(texts), 1)
    return Passages(
        _cut(texts, share, project.tokenizer),
        _cut(texts[: options.examples], options.example_tokens, project.tokenizer),
    )


def _cut(texts: Sequence[str], tokens: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    return tuple(cut(text, tokens, tokenizer) for text in texts)


def _load_prompts(project: Services, workflow: Workflow) -> TunePrompts:
    """Load and check the prompts of the tuning. Raise UsageError if the workflow has no prompts."""
    if not any(step.prompts for step in workflow.steps):
        raise UsageError(
            f"tune: workflow '{workflow.name}' has no prompts; name one that has, as index"
        )
    found: dict[str, Prompt] = {}
    for role, placeholders in PLACEHOLDERS.items():
        found[role] = project.prompt(f"tune_{role}")
        found[role].check(placeholders)
    step = extract_step(workflow)
    extract: Prompt | None = None
    format: Format = RECORDS
    if step:
        extract = project.resources.prompts_of(step)[EXTRACT_ROLE]
        format = getattr(step.params, "format", RECORDS)
    return TunePrompts(
        domain=found["domain"],
        language=found["language"],
        persona=found["persona"],
        entity_types=found["entity_types"],
        extract=extract,
        format=format,
    )


def _snippet(workflow: Workflow, findings: SampleFindings, new: dict[str, str]) -> str:
    """Return the lines for the workflow's file and settings.yaml that use the tuned prompts.

    They contain each step of the workflow that has a tuned prompt, and the language.
    """
    lines = [f"# workflows/{workflow.name}.yaml"]
    for step in workflow.steps:
        if new.keys().isdisjoint(step.prompts.values()):
            continue
        lines.append(f"  - verb: {step.verb.name}")
        if step.id != step.verb.name:
            lines.append(f"    id: {step.id}")
        if "entity_types" in type(step.params).model_fields:
            # JSON is valid YAML, whatever characters the types have.
            types = json.dumps(list(findings.entity_types), ensure_ascii=False)
            lines.append(f"    args: {{entity_types: {types}}}")
        prompts = ", ".join(f"{role}: {new.get(name, name)}" for role, name in step.prompts.items())
        lines.append(f"    prompts: {{{prompts}}}")
    lines.append("# settings.yaml")
    lines.append(f"language: {json.dumps(findings.language, ensure_ascii=False)}")
    return "\n".join(lines)
