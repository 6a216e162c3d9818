"""graphmill: documents to a knowledge graph every night, and answers over it.

from pipeline import Project
with Project.open("my-project") as project:
    project.run("fast")
    print(project.query("Who built the lighthouse?").text)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.project import Project

__all__ = ["Project"]


def __getattr__(name: str) -> Any:
    """Project on first use: importing a single verb does not have to import the stores."""
    if name == "Project":
        from pipeline.project import Project

        return Project
    raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
