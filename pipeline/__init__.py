"""graphmill: documents to a knowledge graph every night, and answers over it.

from pipeline import Project
with Project.open("my-project") as project:
    project.run("fast")
    print(project.query("Who built the lighthouse?").text)

To write a verb of your own, use ``verb``, ``Params`` and the schemas of the tables that it reads
and writes (docs/verbs.md).
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# pyarrow reads this when it is imported. Its default pool keeps freed memory: that is a fifth of
# the peak of a build.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

if TYPE_CHECKING:
    from pipeline.contract.laws import Uses
    from pipeline.contract.prompts import Prompt
    from pipeline.contract.registry import UNTRACKED, Params, Tracker, verb
    from pipeline.contract.schemas import TableSchema, at_least, table
    from pipeline.models.base import ChatModel, EmbeddingModel, Reply, Tokenizer
    from pipeline.project import Project

__all__ = [
    "UNTRACKED",
    "ChatModel",
    "EmbeddingModel",
    "Params",
    "Project",
    "Prompt",
    "Reply",
    "TableSchema",
    "Tokenizer",
    "Tracker",
    "Uses",
    "at_least",
    "table",
    "verb",
]
ROOMS = {
    "pipeline.contract.laws": ("Uses",),
    "pipeline.contract.prompts": ("Prompt",),
    "pipeline.contract.registry": ("UNTRACKED", "Params", "Tracker", "verb"),
    "pipeline.contract.schemas": ("TableSchema", "at_least", "table"),
    "pipeline.models.base": ("ChatModel", "EmbeddingModel", "Reply", "Tokenizer"),
    "pipeline.project": ("Project",),
}
"""The public names of each module. ``__getattr__`` imports a module when one of its names is
used."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that importing one verb does not import the stores."""
    for room, names in ROOMS.items():
        if name in names:
            return getattr(import_module(room), name)
    raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
