"""The options of a query as keyword arguments, for type checkers, editors and notebooks.

``query_fields`` defines the options. Type checkers read no class that a program makes, so their
names and types are written here once more; a test compares both.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict, TypeVar

from pipeline.settings.query_fields import (
    QUERY_OPTIONS,
    REQUEST_OPTIONS,
    ChunkPick,
    ContextKind,
    Mode,
    Preference,
    RelationshipOrder,
)

Method = TypeVar("Method", bound=Callable[..., Any])


class QueryKeywords(TypedDict, total=False):
    """The options of ``Project.query`` and its relatives (docs/query.md).

    The project's default replaces an option that is left out or None.
    """

    hl_keywords: list[str] | tuple[str, ...] | None
    ll_keywords: list[str] | tuple[str, ...] | None
    conversation_history: Sequence[Mapping[str, str]] | None
    where: Mapping[str, Any] | None
    mode: Mode | None
    top_k: int | None
    chunk_top_k: int | None
    max_entity_tokens: int | None
    max_relation_tokens: int | None
    max_total_tokens: int | None
    history_turns: int | None
    history_share: float | None
    kg_chunk_pick_method: ChunkPick | None
    related_chunk_number: int | None
    relationship_order: RelationshipOrder | None
    number_rows: bool | None
    min_score: float | None
    response_type: str | None
    language: str | None
    user_prompt: str | None
    system_prompt: str | None
    model: str | None
    only_need_context: bool | None
    only_need_prompt: bool | None
    enable_rerank: bool | None
    prefer: Preference | None
    shown_metadata: str | None
    include_references: bool | None
    include_chunk_content: bool | None
    stream: bool | None
    community_level: int | None
    dynamic_community_selection: bool | None
    context: ContextKind | None
    community_prop: float | None
    text_unit_prop: float | None
    max_map_tokens: int | None
    max_calls: int | None
    primer_reports: int | None
    primer_folds: int | None
    drift_k_followups: int | None
    n_depth: int | None
    general_knowledge: bool | None


def with_option_names(method: Method) -> Method:
    """Show the options of a query in place of ``**options`` in the signature of a method.

    Notebooks and ``help`` complete the names of keyword arguments from it.
    """
    signature = inspect.signature(method)
    own = list(signature.parameters.values())[:-1]
    method.__signature__ = signature.replace(parameters=[*own, *_option_parameters()])  # pyright: ignore[reportFunctionMemberAccess]
    return method


@cache
def _option_parameters() -> tuple[inspect.Parameter, ...]:
    """Return a keyword argument for each option; all methods have the same."""
    return tuple(
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=option.type | None,
        )
        for option in (*REQUEST_OPTIONS.values(), *QUERY_OPTIONS.values())
        if option.name != "query"
    )
