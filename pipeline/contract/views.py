"""Views: documents of a project that satisfy conditions, with a graph of their own
(``serve.views``).

A view is computed by further steps of the workflow. Names of its steps and tables end with the
view's name after an @: the step ``merge_graphs@public`` writes the table
``merged_entities@public``, and the workspace ``default--public`` shows the workflow
``index@public``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.contract.conditions import operators
from pipeline.contract.fingerprint import fingerprint

MARK = "@"
DOCUMENTS_STEP = "documents"
"""The name, before the @, of the step that selects a view's documents."""
DIGITS = 16
"""The number of digits of a fingerprint that identify the conditions of a view."""


def in_view(name: str, view: str) -> str:
    """Return the name of a table, a step or a workflow in a view."""
    return f"{name}{MARK}{view}"


def split_name(name: str) -> tuple[str, str]:
    """Return the name without its view, and the view: "" where it has none."""
    own, _, view = name.partition(MARK)
    return own, view


def select_view(names: Iterable[str], view: str) -> set[str]:
    """Return the names of a view's tables or steps, as the workflow has them without the view."""
    suffix = in_view("", view)
    return {name.removesuffix(suffix) for name in names if name.endswith(suffix)}


def conditions_digest(where: Mapping[str, Any]) -> str:
    """Return a digest of a view's conditions, equal for all ways of writing them.

    Raises ValueError for a condition that makes no sense.
    """
    return fingerprint({field: operators(field, wanted) for field, wanted in where.items()})[
        :DIGITS
    ]


def with_conditions(version: str, digest: str) -> str:
    """Return the version of a load of a view, which tells readers the conditions of the view."""
    return f"{version}-{digest}"


def is_made_by(version: str, where: Mapping[str, Any]) -> bool:
    """Check that a loaded version is that of a view with these conditions."""
    return version.endswith(f"-{conditions_digest(where)}")
