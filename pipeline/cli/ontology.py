"""The commands ontology adopt and import ontology: the types of ontology.yaml in the prompt, and
ontology.yaml made of the ontologies of other tools."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
from pipeline.errors import counted

VOCABULARY = "prompts/vocabulary.yaml"


def adopt(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, yes: Yes = False,
    only_plan: Annotated[bool, typer.Option("--plan",
        help="Only say what the next run would cost then.")] = False,
) -> None:  # fmt: skip
    """Let the prompt name the types of ontology.yaml: say what the next run costs then, and ask."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.engine.plan import Selection

        text = project.vocabulary_to_adopt()
        if text is None:
            print_aside(f"ontology: {VOCABULARY} has the types of ontology.yaml; nothing to adopt")
            return
        with project.with_vocabulary(text) as changed:
            forecasts = changed.forecast(name)
            show_plan(changed, name, forecasts, Selection(), as_json)
        if only_plan:
            return
        if not yes:
            ask(f"Write {VOCABULARY}? The next run asks as planned above.")
        project.adopt_ontology(text)
    print_aside(f"ontology: {VOCABULARY} written; the next run asks with these types")


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
