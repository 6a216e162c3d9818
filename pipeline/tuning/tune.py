"""Tune a workflow's prompts to its documents: a sample of it, what it would cost, and the doing of
it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.engine.bill.counting_models import RehearsedChat, Tally
from pipeline.engine.bill.expected_calls import Amount, Estimate
from pipeline.engine.kept_documents import with_kept
from pipeline.engine.plan import ALL, Planner, tables_of
from pipeline.engine.resources import Resources
from pipeline.engine.usage.budget import Budget, Meter, MeteredChat
from pipeline.engine.usage.journal import Journal, settle
from pipeline.engine.workflow import Workflow
from pipeline.errors import ModelError, UsageError
from pipeline.models.base import Tokenizer, Tokens
from pipeline.runs.services import DEFAULT, Services
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.stores.base import silent
from pipeline.text.ids import digest
from pipeline.tuning.prompts import (
    EXTRACT_ROLE,
    Passages,
    SampleFindings,
    TunePrompts,
    TuningBrief,
    extract_step,
    questions,
    tuned_texts,
    write_prompts,
)
from pipeline.verbs.graph_prompt import RECORDS, Format
from pipeline.verbs.join_descriptions import cut

TEXT_UNITS = "text_units"


def text_units_of(
    workflow: Workflow, resources: Resources, snapshots: SnapshotStore
) -> pd.DataFrame:
    """The table of text units as the workflow would make it now: no model is asked, and nothing is
    written but hashes of files.

    Raises UsageError for a workflow that makes none, or only by way of a model.
    """
    previous = snapshots.manifest(workflow.name)
    planner = Planner(workflow, resources, snapshots, ALL, (), previous.steps)
    known: dict[str, Snapshot] = {}
    frames: dict[str, pd.DataFrame] = {}

    def table(name: str) -> pd.DataFrame:
        return frames[name] if name in frames else snapshots.read(known[name])

    for step in workflow.steps:
        planned = planner.plan(step, known)
        if planned.record and planned.action == "reuse":
            known |= tables_of(step, planned.record)
        elif step.models:
            break
        else:
            made = with_kept(
                step, resources.call(planned.step, step.inputs_from(table)), previous, snapshots
            )
            frames |= {step.outputs[name]: made[name] for name in step.verb.outputs if name in made}
        if TEXT_UNITS in step.outputs.values():
            return table(TEXT_UNITS)
    raise UsageError(
        f"workflow '{workflow.name}': no step makes text units without a model; tune another"
        " workflow"
    )


def sample(text_units: pd.DataFrame, size: int) -> list[str]:
    """Texts of up to ``size`` text units: one of each document in turn, documents and their units
    by digest."""
    rows = pd.DataFrame(
        {
            "text": text_units["text"],
            "document": [digest(id) for id in text_units["document_id"]],
            "unit": [digest(id) for id in text_units["id"]],
        }
    )
    rows = (
        rows[rows["text"].str.strip() != ""]
        .sort_values(["document", "unit"])
        .drop_duplicates("text")
    )
    rows = rows.assign(turn=rows.groupby("document").cumcount())
    return rows.sort_values(["turn", "document"], kind="stable")["text"].head(size).tolist()


TUNE = "tune"
SHORT_REPLIES, SHORT_REPLY = 4, (2, 150)
"""Questions beside the examples, and tokens of a reply to one."""
RECORDS_PER_TEXT = 2
"""How many times as long as its text the records of an example may be."""
PLACEHOLDERS = {
    "domain": Placeholders(("texts",)),
    "language": Placeholders(("texts",)),
    "persona": Placeholders(("domain",)),
    "entity_types": Placeholders(("texts", "max_types"), ("persona", "domain")),
}


@dataclass(frozen=True)
class TuneOptions:
    """``sample``: text units that the model reads, ``examples`` of them to extract from, cut to
    ``example_tokens``; ``max_input_tokens``: of all passages in one question. ``wanted``: what is
    known and not asked for; ``model``: which of models.chat answers; ``max_cost, max_tokens``: see
    RunOptions."""

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
    """``prompts``: each prompt of the workflow -> the new one; ``snippet``: what to write into the
    workflow's file and settings.yaml; ``calls`` that were made, and ``known``: replies that needed
    none."""

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
    """What ``tune`` would ask and cost; no network is used, and nothing is written but hashes of
    files."""
    workflow = project.workflow(name)
    prompts = _prompts(project, workflow)
    chat, tally = project.chat(options.model), Tally(project.tokenizer)
    RehearsedChat(chat, tally).converse(
        [questions(_passages(project, workflow, options), options.wanted, prompts)]
    )
    examples = min(options.examples, tally.calls)
    low = tally.calls * SHORT_REPLY[0]
    high = tally.calls * SHORT_REPLY[1] + examples * RECORDS_PER_TEXT * options.example_tokens
    asked = (tally.input_tokens, tally.input_tokens + tally.calls * SHORT_REPLIES * SHORT_REPLY[1])
    least, most = chat.cost(Tokens(asked[0], low)), chat.cost(Tokens(asked[1], high))
    cost = None if least is None or most is None else (least, most)
    middle = Tokens(sum(asked) // 2, (low + high) // 2)
    expected = Amount(tally.calls, *middle[:2], chat.cost(middle))
    calls = (tally.calls, tally.calls)
    return Estimate(
        tally.calls + tally.known,
        tally.known,
        calls,
        asked,
        (low, high),
        cost,
        expected,
        guessed=True,
    )


def tune(project: Services, name: str | None, options: TuneOptions) -> Tuning:
    """Ask, and write the tuned prompts as new files in prompts/. Only for a caller who holds the
    project.

    Raises ModelError, with nothing written, where a reply is of no use; BudgetError when the
    options' limits are reached: what was answered is kept, and the next time goes on from there.
    """
    workflow = project.workflow(name)
    prompts = _prompts(project, workflow)
    passages = _passages(project, workflow, options)
    chat = replace(
        project.chat(options.model), wait_for_model=0.0
    )  # somebody waits for this command
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
    new = write_prompts(project.root / "prompts", texts)
    return Tuning(
        workflow.name, findings, new, _snippet(workflow, findings, new),
        meter.calls, meter.cached_calls, meter.input_tokens, meter.output_tokens, meter.cost,
    )  # fmt: skip


def _passages(project: Services, workflow: Workflow, options: TuneOptions) -> Passages:
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


def _prompts(project: Services, workflow: Workflow) -> TunePrompts:
    if not any(step.prompts for step in workflow.steps):
        raise UsageError(
            f"tune: workflow '{workflow.name}' has no prompts; name one that has, as index"
        )
    found: dict[str, Prompt] = {}
    for role, placeholders in PLACEHOLDERS.items():
        found[role] = project.prompt(f"tune_{role}")
        found[role].check(placeholders)
    step = extract_step(workflow)
    extract = project.resources.prompts_of(step)[EXTRACT_ROLE] if step else None
    format: Format = getattr(step.params, "format", RECORDS) if step else RECORDS
    return TunePrompts(
        found["domain"], found["language"], found["persona"], found["entity_types"], extract, format
    )


def _snippet(workflow: Workflow, findings: SampleFindings, new: dict[str, str]) -> str:
    """The steps of the workflow that have a tuned prompt, as they are to be in its file, and the
    setting."""
    lines = [f"# workflows/{workflow.name}.yaml"]
    for step in workflow.steps:
        if set(step.prompts.values()) & set(new):
            lines.append(
                f"  - verb: {step.verb.name}"
                + (f"\n    id: {step.id}" if step.id != step.verb.name else "")
            )
            if "entity_types" in type(step.params).model_fields:
                lines.append(
                    "    args: {entity_types:"
                    f" {json.dumps(list(findings.entity_types), ensure_ascii=False)}}}"
                )
            prompts = ", ".join(
                f"{role}: {new.get(name, name)}" for role, name in step.prompts.items()
            )
            lines.append(f"    prompts: {{{prompts}}}")
    return "\n".join(
        [
            *lines,
            "# settings.yaml",
            f"language: {json.dumps(findings.language, ensure_ascii=False)}",
        ]
    )
