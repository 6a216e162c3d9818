"""tune: prompts for one corpus."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.build import MaxCost, MaxTokens
from pipeline.cli.console import print_bill
from pipeline.cli.options import Folder, Json, Name, Overrides, open_project, print_json
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.tuning.tune import Tuning


def tune(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    only_plan: Annotated[bool, typer.Option("--plan", help="Only say what would be asked, and its cost.")] = False,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Text units to read.")] = 15,
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="Examples in the extraction prompt.")] = 3,
    max_types: Annotated[int, typer.Option(min=1, metavar="N", help="Entity types at most.")] = 10,
    domain: Annotated[str, typer.Option(help="The field, where it is known.")] = "",
    language: Annotated[str, typer.Option(help="The language, where it is known.")] = "",
    types: Annotated[str, typer.Option(help="The entity types, comma-separated, where they are known.")] = "",
    model: Annotated[str, typer.Option(help="Which of models.chat answers.")] = "default",
    max_cost: MaxCost = None, max_tokens: MaxTokens = None,
) -> None:  # fmt: skip
    """Read a sample of the documents, and write prompts for them beside the present ones."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.tuning.ask import Wanted
        from pipeline.tuning.tune import TuneOptions

        known = tuple(part.strip() for part in types.split(",") if part.strip())
        wanted = Wanted(domain, language, known, max_types)
        options = TuneOptions(sample, examples, wanted=wanted, model=model, max_cost=max_cost, max_tokens=max_tokens)
        if only_plan:
            estimate = project.forecast_tuning(name, options)
            print_json(asdict(estimate)) if as_json else print_bill("tune", asdict(estimate))
            return
        tuning = project.tune(name, options)
    print_json(tuning.to_json()) if as_json else _print_tuning(tuning)


def _print_tuning(tuning: "Tuning") -> None:
    found = tuning.findings
    print(f"domain: {found.domain}\nlanguage: {found.language}\npersona: {found.persona}")
    print(f"entity types: {', '.join(found.entity_types)}\nexamples: {len(found.examples)}")
    for old, new in tuning.prompts.items():
        print(f"prompts/{new}.md  (was {old})")
    cost = "" if tuning.cost is None else f", cost {tuning.cost:.4f}"
    tokens = f"{tuning.input_tokens:,} + {tuning.output_tokens:,} tokens"
    print(f"{counted(tuning.calls, 'model call')} ({tuning.known:,} known), {tokens}{cost}")
    print(f"\nTo use them:\n{tuning.snippet}")
