"""graphmill: documents to a knowledge graph every night, and answers over it.

from graphmill import Project
with Project.open("my-project") as project:
    project.run("fast")
    print(project.query("Who built the lighthouse?").text)

``import graphmill`` and ``import pipeline`` give this same module. To write a verb of your own, use
``verb``, ``Params`` and the schemas of the tables that it reads and writes (docs/verbs.md).
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
    from pipeline.engine.run_options import RunOptions
    from pipeline.errors import (
        AuthError,
        BudgetError,
        CacheFullError,
        DamagedError,
        DataError,
        DeletionError,
        DiskFullError,
        GraphmillError,
        LeaseLostError,
        LockedError,
        LostConnectionError,
        ModelError,
        NoSuchModelError,
        NotAllowedError,
        NothingLoadedError,
        ObjectStoreAuthError,
        ObjectStoreError,
        OtherOwnerError,
        OtherVectorsError,
        PromptTooLongError,
        RequestEndedError,
        SettingsError,
        StoreAuthError,
        StoreError,
        UnstampedReadError,
        UsageError,
        VerbError,
        WaitingError,
        WorkerError,
    )
    from pipeline.models.base import ChatModel, EmbeddingModel, Reply, Tokenizer
    from pipeline.project import Project
    from pipeline.query.answer import Answer
    from pipeline.query.request import QueryRequest
    from pipeline.settings.query_keywords import QueryKeywords

    __version__: str

__all__ = [
    "UNTRACKED",
    "Answer",
    "AuthError",
    "BudgetError",
    "CacheFullError",
    "ChatModel",
    "DamagedError",
    "DataError",
    "DeletionError",
    "DiskFullError",
    "EmbeddingModel",
    "GraphmillError",
    "LeaseLostError",
    "LockedError",
    "LostConnectionError",
    "ModelError",
    "NoSuchModelError",
    "NotAllowedError",
    "NothingLoadedError",
    "ObjectStoreAuthError",
    "ObjectStoreError",
    "OtherOwnerError",
    "OtherVectorsError",
    "Params",
    "Project",
    "Prompt",
    "PromptTooLongError",
    "QueryKeywords",
    "QueryRequest",
    "Reply",
    "RequestEndedError",
    "RunOptions",
    "SettingsError",
    "StoreAuthError",
    "StoreError",
    "TableSchema",
    "Tokenizer",
    "Tracker",
    "UnstampedReadError",
    "UsageError",
    "Uses",
    "VerbError",
    "WaitingError",
    "WorkerError",
    "at_least",
    "table",
    "verb",
]
ROOMS: dict[str, tuple[str, ...]] = {
    "pipeline.contract.laws": ("Uses",),
    "pipeline.contract.prompts": ("Prompt",),
    "pipeline.contract.registry": ("UNTRACKED", "Params", "Tracker", "verb"),
    "pipeline.contract.schemas": ("TableSchema", "at_least", "table"),
    "pipeline.engine.run_options": ("RunOptions",),
    "pipeline.errors": (
        "AuthError", "BudgetError", "CacheFullError", "DamagedError", "DataError", "DeletionError",
        "DiskFullError", "GraphmillError", "LeaseLostError", "LockedError", "LostConnectionError",
        "ModelError", "NoSuchModelError", "NotAllowedError", "NothingLoadedError",
        "ObjectStoreAuthError", "ObjectStoreError", "OtherOwnerError", "OtherVectorsError",
        "PromptTooLongError", "RequestEndedError", "SettingsError", "StoreAuthError", "StoreError",
        "UnstampedReadError", "UsageError", "VerbError", "WaitingError", "WorkerError",
    ),
    "pipeline.models.base": ("ChatModel", "EmbeddingModel", "Reply", "Tokenizer"),
    "pipeline.project": ("Project",),
    "pipeline.query.answer": ("Answer",),
    "pipeline.query.request": ("QueryRequest",),
    "pipeline.settings.query_keywords": ("QueryKeywords",),
}  # fmt: skip
"""The public names of each module. ``__getattr__`` imports a module when one of its names is
used."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that importing one verb does not import the stores."""
    if name == "__version__":
        from importlib.metadata import version

        return version("graphmill")
    for room, names in ROOMS.items():
        if name in names:
            return getattr(import_module(room), name)
    raise AttributeError(f"module 'pipeline' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Return the public names, also those that no use has imported yet, for a notebook."""
    return [*__all__, "__version__"]
