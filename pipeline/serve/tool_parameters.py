"""The parameters of the tools for assistants, made from ``settings/query_fields.py``."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.settings.query_fields import (
    QUERY_OPTIONS,
    REQUEST_OPTIONS,
    SEARCH_MODES,
    Limits,
    Option,
)

OF_QUERY = ("query", "mode", "chunk_top_k", "top_k", "where")
"""The options of the tool ``query``."""
OF_QUERY_DATA = (
    "query",
    "mode",
    "chunk_top_k",
    "top_k",
    "max_total_tokens",
    "ll_keywords",
    "hl_keywords",
    "where",
)
"""The options of the tool ``query_data``."""
Tool = Callable[..., Any]


def with_parameters(names: Sequence[str]) -> Callable[[Tool], Tool]:
    """Return a decorator that gives a tool the named query options as parameters.

    The tool takes the call's context, the question ``query`` and ``**options``. The SDK of the
    Model Context Protocol reads the parameters of a tool from its signature, which is set here.
    """

    def decorate(tool: Tool) -> Tool:
        signature = inspect.signature(tool)
        options = {**REQUEST_OPTIONS, **QUERY_OPTIONS}
        made = [_parameter(options[name]) for name in names]
        parameters = [signature.parameters["context"], *made]
        tool.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return tool

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    """Return the parameter of a tool for an option; all but the question may be left out.

    Its schema has the lower limit only. The upper one depends on the caller's rights: a request
    above it is refused with a message that names the limit.
    """
    kind = Literal[SEARCH_MODES] if option.name == "mode" else option.type
    limits = Limits(ge=option.limits.ge, min_length=option.limits.min_length)
    checked = Annotated[kind, limits] if limits != Limits() else kind
    is_required = option.name == "query"
    described = Field(description=option.description.tool)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else None,
        annotation=Annotated[checked if is_required else checked | None, described],
    )
