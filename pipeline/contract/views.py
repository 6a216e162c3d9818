"""Views: the documents of a project that satisfy conditions, with a graph of their own
(``serve.views``).

A view is made by further steps of the workflow. What belongs to it has its name behind an @: the
step ``merge_graphs@public`` writes the table ``merged_entities@public``, and the workspace
``default--public`` shows the workflow ``index@public``.
"""

from collections.abc import Mapping
from typing import Any

from pipeline.contract.conditions import operators
from pipeline.contract.fingerprint import fingerprint

MARK = "@"
DOCUMENTS_STEP = "documents"
"""What the step of a view is called, before the @, that chooses its documents."""
DIGITS = 16
"""Of the fingerprint of a view's conditions: enough to tell any two apart."""


def in_view(name: str, view: str) -> str:
    """Return what a table, a step or a workflow is called in a view."""
    return f"{name}{MARK}{view}"


def split_name(name: str) -> tuple[str, str]:
    """Return the name without its view, and the view: "" where it has none."""
    own, _, view = name.partition(MARK)
    return own, view


def conditions_digest(where: Mapping[str, Any]) -> str:
    """Return what stands for the conditions of a view, however they are written.

    Raises ValueError for a condition that makes no sense.
    """
    return fingerprint({field: operators(field, wanted) for field, wanted in where.items()})[
        :DIGITS
    ]


def with_conditions(version: str, digest: str) -> str:
    """Return the version of a load of a view: it tells those who read by which conditions the view
    was made."""
    return f"{version}-{digest}"


def is_made_by(version: str, where: Mapping[str, Any]) -> bool:
    """Check that a loaded version is that of a view with these conditions."""
    return version.endswith(f"-{conditions_digest(where)}")
