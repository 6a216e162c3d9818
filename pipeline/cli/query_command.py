"""The options of ``graphmill query``, made from ``settings/query_fields.py``."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from pipeline.settings.query_fields import QUERY_OPTIONS, REQUEST_OPTIONS, Option

Command = Callable[..., None]


def declare(option: Option) -> OptionInfo:
    """Return how typer is to offer a query option: its help, its placeholder and its names.

    typer makes the names from the parameter's name unless they are given. They are given for an
    option that has a second name, or another name than ``--no-NAME`` that turns it off.
    """
    about = option.description
    name = f"--{option.name.replace('_', '-')}"
    names = []
    if about.also or about.off:
        names.append(f"{name}/{about.off}" if about.off else name)
    if about.also:
        names.append(about.also)
    return typer.Option(*names, metavar=about.metavar, help=about.help)


_QUESTION = REQUEST_OPTIONS["query"].description
Question = Annotated[str, typer.Argument(metavar=_QUESTION.metavar, help=_QUESTION.help)]
Where = Annotated[list[str] | None, declare(REQUEST_OPTIONS["where"])]
History = Annotated[Path | None, declare(REQUEST_OPTIONS["conversation_history"])]
HighKeywords = Annotated[str | None, declare(REQUEST_OPTIONS["hl_keywords"])]
LowKeywords = Annotated[str | None, declare(REQUEST_OPTIONS["ll_keywords"])]
Mode = Annotated[str | None, declare(QUERY_OPTIONS["mode"])]
Model = Annotated[str | None, declare(QUERY_OPTIONS["model"])]


def with_query_options(command: Command) -> Command:
    """Give a command every option of ``QUERY_OPTIONS``; it receives them as ``**options``.

    typer reads the parameters of a command from its signature. The signature set here has the
    options in place of ``**options``, before the command's own optional parameters. An option that
    is left out is None: the default comes from the project's settings, which are not read yet.
    """
    signature = inspect.signature(command)
    made = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=Annotated[option.plain_type | None, declare(option)],
        )
        for option in QUERY_OPTIONS.values()
    ]
    own = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    required = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
    optional = [parameter for parameter in own if parameter not in required]
    parameters = [*required, *made, *optional]
    command.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return command
