"""The commands ontology adopt and import ontology: the types of ontology.yaml in the prompt, and
ontology.yaml made of the ontologies of other tools."""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.build import show_plan
from pipeline.cli.options import (
    Folder,
    Json,
    Name,
    Overrides,
    Yes,
    ask,
    open_project,
    print_aside,
    print_json,
)
from pipeline.errors import SettingsError, UsageError, counted

if TYPE_CHECKING:
    from pipeline.project import Project

VOCABULARY = "prompts/vocabulary.yaml"
SECTION = "vocabulary"
"""The settings of a verb whose prompt names the types."""


def adopt(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, yes: Yes = False,
    only_plan: Annotated[bool, typer.Option("--plan",
        help="Only say what the next run would cost then.")] = False,
) -> None:  # fmt: skip
    """Let the prompt name the types of ontology.yaml: say what the next run costs then, and ask."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.engine.run_options import Selection

        text = project.vocabulary_to_adopt()
        if text is None:
            print_aside(f"ontology: {VOCABULARY} has the types of ontology.yaml; nothing to adopt")
            return
        asking = _list_asking_workflows(project)
        planned = name or project.settings.workflow
        if planned not in asking:
            raise UsageError(
                f"ontology: '{planned}' asks no model with these types; name a workflow that does"
                f" ({', '.join(asking) or 'there is none'})"
            )
        with project.with_vocabulary(text) as changed:
            forecasts = changed.forecast(name)
            show_plan(changed, name, forecasts, Selection(), as_json)
        for other in project.snapshots.workflows():
            if other in asking and other != planned:
                print_aside(
                    f"ontology: '{other}' has been run, too, and asks with these types;"
                    f" 'graphmill ontology adopt {other} --plan' says its price"
                )
        if only_plan:
            return
        if not yes:
            ask(f"Write {VOCABULARY}? The next run asks as planned above.")
        project.adopt_ontology(text)
    print_aside(f"ontology: {VOCABULARY} written; the next run asks with these types")


def _list_asking_workflows(project: "Project") -> list[str]:
    """Return the names of the workflows whose prompts name the types of the vocabulary."""
    found: list[str] = []
    for path in sorted((project.root / "workflows").glob("*.yaml")):
        # A workflow with a mistake asks nothing, and its next run tells the mistake.
        with suppress(SettingsError):
            steps = project.workflow(path.stem).steps
            if any(step.verb.settings == SECTION for step in steps):
                found.append(path.stem)
    return found


def import_ontology(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="FILE",
        help="RDF (.ttl, .owl, .rdf), a schema of neo4j-graphrag (.json, .yaml), or .py with"
        " classes of pydantic, which is executed.")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    force: Annotated[bool, typer.Option("--force", help="Write over ontology.yaml.")] = False,
) -> None:  # fmt: skip
    """Write ontology.yaml from an ontology of another form; list what was not understood."""
    with open_project(context, folder, overrides, as_json) as project:
        imported = project.import_ontology(source, force)
    if as_json:
        print_json(asdict(imported))
        return
    print(
        f"ontology.yaml: {counted(imported.entity_types, 'entity type')},"
        f" {counted(imported.relationship_types, 'relationship type')},"
        f" {counted(imported.patterns, 'pattern')}"
    )
    for line in imported.not_understood:
        print(f"not understood: {line}")
