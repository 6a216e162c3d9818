"""Take over an index of LightRAG into a project, before a workflow reads it."""

from pathlib import Path

from pipeline.documents.lightrag import copy_index
from pipeline.errors import UsageError
from pipeline.runs.services import Services
from pipeline.settings.schema import LightragSettings


def take_index(project: Services, source: Path) -> None:
    """Copy the index in a folder to the project, so that later runs need LightRAG no more.

    Nothing is copied if settings name this folder as ``lightrag.path``. Raises UsageError if they
    name another one, which may be in use by LightRAG. Raises as ``read_files``.
    """
    target = project.lightrag_folder
    if source.resolve() == target.resolve():
        return
    if project.settings.lightrag.path != LightragSettings().path:
        raise UsageError(
            f"lightrag.path: it names {target}, another folder than {source}; import that one, or"
            " remove lightrag.path from settings.yaml"
        )
    copy_index(source, target)
