"""The commands `import graphrag` and `import lightrag`, for the indexes of these programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.build import WORKFLOW, AllowDeletes, carry_out
from pipeline.cli.options import Folder, Json, Log, Overrides

if TYPE_CHECKING:
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.project import Project

Theirs = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder GraphRAG wrote its tables to.")
]
Importing = Annotated[
    str,
    typer.Option(
        "--workflow",
        metavar="NAME",
        help="By default graphrag_cache if the index has its replies, otherwise graphrag.",
    ),
]
LightragIndex = Annotated[
    str,
    typer.Argument(
        metavar="DIR|URL",
        help="The working folder of LightRAG 1.5.7, or the address of its PostgreSQL.",
    ),
]
OfWorkspace = Annotated[
    str, typer.Option("--of-workspace", metavar="NAME", help="Of LightRAG, if the URL has several.")
]
ImportingLightrag = Annotated[
    str, typer.Option("--workflow", metavar="NAME", help="One that begins with read_lightrag.")
]


def import_graphrag(
    context: typer.Context, source: Theirs, name: Importing = "", folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto",
    allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index what Microsoft GraphRAG has written: documents, the graph, communities, reports and
    claims."""
    from pipeline.engine.run_options import RunOptions

    options = RunOptions(allow_deletes=allow_deletes)

    def import_tables(project: "Project", progress: "Progress") -> "RunReport":
        return project.import_graphrag(source, name, progress, options)

    then = (
        f"Next: graphmill rejects {WORKFLOW}, which lists all that was not taken,"
        f" and graphmill load {WORKFLOW}\n"
    )
    carry_out(import_tables, context, folder, overrides, as_json, log, then=then)


def import_lightrag(
    context: typer.Context, source: LightragIndex, name: ImportingLightrag = "lightrag",
    folder: Folder = None, of_workspace: OfWorkspace = "",
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto",
    allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index what LightRAG has paid for: documents, passages, and the replies about each of them."""
    from pipeline.engine.run_options import RunOptions

    options = RunOptions(allow_deletes=allow_deletes)

    def import_replies(project: "Project", progress: "Progress") -> "RunReport":
        return project.import_lightrag(source, name, progress, options, of_workspace)

    then = (
        "Vectors of LightRAG are not taken: the steps embed_* make them anew.\n"
        f"Next: graphmill rejects {name}, which lists all that was not taken,"
        f" and graphmill load {name}\n"
    )
    carry_out(import_replies, context, folder, overrides, as_json, log, then=then)
