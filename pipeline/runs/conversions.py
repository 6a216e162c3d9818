"""Convert files without a run and without a model, all of them or a sample; estimate from a sample
what the others cost."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from pipeline.contract.conversion import (
    ConversionRules,
    Converted,
    Converter,
    FileToConvert,
    NotConverted,
)
from pipeline.engine.bill.counting_models import mark_unconverted
from pipeline.engine.bill.duration import span_in_words
from pipeline.engine.plan import examine_source
from pipeline.engine.resources import Asked, WrappedConverter
from pipeline.engine.workflow import Step
from pipeline.errors import counted
from pipeline.models.base import Repeats
from pipeline.text.ids import digest

if TYPE_CHECKING:
    from pipeline.runs.services import Services

TWO_SIDED_95 = 1.96
"""Standard deviations on both sides of the mean that hold 95 % of a normal distribution."""
COUNTED = ("calls", "cost")


@dataclass
class Collected:
    """The files that a run would convert, each with its rules."""

    files: list[tuple[FileToConvert, ConversionRules]] = field(default_factory=list)

    def wrapped(self, asked: Asked) -> Asked:
        """Return a converter so that it notes its files; a model as it is."""
        if isinstance(asked, Converter):
            return CollectingConverter(asked, self)
        return asked


@dataclass(frozen=True)
class CollectingConverter(WrappedConverter):
    """A converter that converts nothing, and notes the files that it would convert."""

    collected: Collected

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: object = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        results = self.converter.known(files, rules)
        for file, known in zip(files, results, strict=True):
            if known is None:
                self.collected.files.append((file, rules))
        return mark_unconverted(results)


@dataclass
class Unpacked:
    """The chosen files of archives, repositories and buckets, and what became of them.

    They exist only while the step that lists them is called, so they are converted within it.
    """

    names: Collection[str]
    results: list[Converted] = field(default_factory=list)
    seconds: float = 0.0

    def wrapped(self, asked: Asked) -> Asked:
        """Return a converter so that it converts the chosen files; a model as it is."""
        if isinstance(asked, Converter):
            return UnpackedConverter(asked, self)
        return asked


@dataclass(frozen=True)
class UnpackedConverter(WrappedConverter):
    """A converter that converts the chosen unpacked files, and no others."""

    unpacked: Unpacked

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: object = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        chosen = [file for file in files if file.name in self.unpacked.names]
        began = time.monotonic()
        self.unpacked.results += self.converter.convert(chosen, rules) if chosen else []
        self.unpacked.seconds += time.monotonic() - began
        return mark_unconverted(self.converter.known(files, rules))


@dataclass(frozen=True)
class ConversionReport:
    """The result of conversions: ``failed`` of the ``converted`` files gave no text. ``remaining``
    were not converted. ``tokens``: those of each converted file. ``seconds``: the time it took."""

    converted: int
    failed: int
    remaining: int
    seconds: float
    tokens: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "converted": self.converted, "failed": self.failed, "remaining": self.remaining,
            "seconds": self.seconds, "tokens": sum(self.tokens),
        }  # fmt: skip


def convert_files(
    project: "Services", name: str | None = None, sample: int | None = None
) -> ConversionReport:
    """Convert the files that a run of the workflow would convert, and keep the results.

    With ``sample`` only so many, drawn by a hash of their names, so that the draw is the same each
    time. No model is asked.
    """
    workflow = project.workflow(name)
    previous = project.snapshots.manifest(workflow.name)
    sources: list[Step] = []
    for step in workflow.steps:
        converts_files = step.verb.roles_of(Converter) and not step.inputs
        if converts_files:
            sources.append(examine_source(step, previous.steps, project.snapshots))
    collected = Collected()
    for step in sources:
        project.resources.call(step, {}, collected.wrapped)
    drawn = sorted(collected.files, key=lambda entry: digest(entry[0].name))
    chosen = drawn if sample is None else drawn[:sample]
    # What a step has unpacked or fetched is gone after its call.
    unpacked = Unpacked({file.name for file, _ in chosen if not file.path.exists()})
    if unpacked.names:
        for step in sources:
            project.resources.call(step, {}, unpacked.wrapped)
    on_disk = [(file, rules) for file, rules in chosen if file.name not in unpacked.names]
    results = unpacked.results
    began = time.monotonic()
    for rules, files in _group_by_rules(on_disk):
        results += project.converter.convert(files, rules)
    seconds = unpacked.seconds + time.monotonic() - began
    failed = sum(isinstance(result, NotConverted) for result in results)
    tokens = tuple(project.tokenizer.count(_text_of(result)) for result in results)
    return ConversionReport(
        converted=len(results),
        failed=failed,
        remaining=len(drawn) - len(chosen),
        seconds=seconds,
        tokens=tokens,
    )


def _group_by_rules(
    files: Sequence[tuple[FileToConvert, ConversionRules]],
) -> list[tuple[ConversionRules, list[FileToConvert]]]:
    """Return the files that are converted by equal rules together.

    Rules are compared one by one, as they have no hash; a project has few.
    """
    groups: list[tuple[ConversionRules, list[FileToConvert]]] = []
    for file, rules in files:
        for rules_of_group, files_of_group in groups:
            if rules_of_group == rules:
                files_of_group.append(file)
                break
        else:
            groups.append((rules, [file]))
    return groups


def _text_of(result: Converted) -> str:
    """Return all text of a conversion; "" if it failed."""
    if isinstance(result, NotConverted):
        return ""
    parts = [part.text for part in result.documents]
    return "\n".join([result.text, *parts])


@dataclass(frozen=True)
class SampleEstimate:
    """The calls and the cost of the files that are not converted, estimated by those of a sample.

    ``amounts``: least, expected and most of calls and cost, with 95 % of the cases between; of cost
    None without a price. ``seconds``: how long their conversion would take.
    """

    sample: ConversionReport
    amounts: Mapping[str, tuple[float, float, float] | None]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        amounts = {name: list(one) if one else None for name, one in self.amounts.items()}
        return {"sample": self.sample.to_json(), "seconds": self.seconds, **amounts}

    def in_words(self) -> str:
        """Return the estimate as a note below the bill of a plan."""
        drawn = counted(self.sample.converted, "file")
        fact = f"{drawn} of a sample are converted and in this bill"
        if not self.sample.remaining:
            return f"{fact}; no other file is to be converted"
        parts: list[str] = []
        calls, cost = self.amounts["calls"], self.amounts["cost"]
        if calls is not None:
            least, expected, most = calls
            parts.append(f"{least:,.0f} to {most:,.0f} calls ({expected:,.0f} expected)")
        if cost is not None:
            least, expected, most = cost
            parts.append(f"{least:,.2f} to {most:,.2f} ({expected:,.2f})")
        parts.append(f"{span_in_words(self.seconds, self.seconds)} of conversion and OCR")
        others = counted(self.sample.remaining, "file")
        return f"{fact}; for the other {others} add, with 95 % probability: {'; '.join(parts)}"


def estimate_rest(
    sample: ConversionReport, before: Mapping[str, Any], after: Mapping[str, Any]
) -> SampleEstimate:
    """Return what the remaining files cost, by what the sample has added to the bill.

    ``before``, ``after``: the expected amounts of the plan without the sample and with it. Calls
    grow with the text, so the tokens of each file tell how far the remaining ones may differ.
    """
    scale = _rest_by_sample(sample)
    amounts: dict[str, tuple[float, float, float] | None] = {}
    for name in COUNTED:
        if before[name] is None or after[name] is None:
            amounts[name] = None
            continue
        added = max(after[name] - before[name], 0.0)
        least, expected, most = (added * factor for factor in scale)
        amounts[name] = (least, expected, most)
    per_file = sample.seconds / sample.converted if sample.converted else 0.0
    return SampleEstimate(sample, amounts, per_file * sample.remaining)


def _rest_by_sample(sample: ConversionReport) -> tuple[float, float, float]:
    """Return how many times the text of the sample the remaining files have: least, expected and
    most."""
    drawn, rest = len(sample.tokens), sample.remaining
    tokens_of_sample = sum(sample.tokens)
    if not tokens_of_sample or not rest:
        return 0.0, 0.0, 0.0
    tokens_of_a_file = mean(sample.tokens)
    expected_tokens = rest * tokens_of_a_file
    # One file tells nothing of how files differ; usual ones differ by about their mean.
    spread = stdev(sample.tokens) if drawn > 1 else tokens_of_a_file
    # The mean of the sample is uncertain, and so is the sum of the remaining files around it.
    error = TWO_SIDED_95 * spread * math.sqrt(rest**2 / drawn + rest)
    least_tokens = max(expected_tokens - error, 0.0)
    most_tokens = expected_tokens + error
    return (
        least_tokens / tokens_of_sample,
        expected_tokens / tokens_of_sample,
        most_tokens / tokens_of_sample,
    )
