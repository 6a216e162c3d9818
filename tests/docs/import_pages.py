"""Follow the commands of a page about an import, in their order."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.projects import ProjectFolder, workspace_of


def follow(
    lines: Iterable[str], home: Path, settings: dict[str, Any], asking: Sequence[str], shown: str
) -> None:
    """Run the lines in the folder ``home``, which is also ``~``.

    A line with ``cd`` enters the project, which then gets ``settings`` and a workspace of its own.
    Questions get the options ``asking``, and their output must hold ``shown``. No plan may ask a
    model.
    """
    folder = ProjectFolder(home)
    for line in lines:
        program, *arguments = shlex.split(line.replace("~", str(home)))
        if program == "cd":
            folder = ProjectFolder(home / arguments[0])
            folder.edit_settings(workspace=workspace_of(folder.root), **settings)
            continue
        assert program == "graphmill"
        if arguments[0] == "query":
            # The answer takes a model; what it would be asked with is what the command shows here.
            arguments += ["--context-only", *asking]
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        if arguments[0] == "query":
            assert shown in done.stdout
        if arguments[0] == "plan":
            assert "no model is asked" in done.stdout, done.stdout
