"""Each option of a query is defined once, and appears wherever a query can be asked."""

import inspect
from typing import Annotated, Any, get_type_hints

import pytest
import typer.main

from pipeline.cli import app
from pipeline.cli.query_command import with_query_options
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.query.request import QueryRequest
from pipeline.serve.bodies import body_of
from pipeline.serve.tool_parameters import OF_QUERY, OF_QUERY_DATA, with_parameters
from pipeline.settings.query_fields import (
    MODES,
    MODES_FOR_TOOLS,
    QUERY_OPTIONS,
    REQUEST_OPTIONS,
    SEARCH_MODES,
    Description,
    Limits,
    Option,
    list_options,
)
from pipeline.settings.query_keywords import QueryKeywords
from pipeline.settings.query_options import QueryOptions, QuerySettings
from tests.docs.option_table import PAGE, option_table, page_with

EVERY_OPTION = {**REQUEST_OPTIONS, **QUERY_OPTIONS}
QUERY_METHODS = (
    Project.query,
    Project.query_stream,
    Project.query_data,
    Project.questions,
    Project.request,
    Project.aquery,
    Project.aquery_data,
    Project.aquery_stream,
    Project.picture,
)


def test_every_option_is_a_field_of_the_request_and_each_with_a_default_is_a_setting():
    assert list(QueryOptions.model_fields) == list(QUERY_OPTIONS)
    assert set(QuerySettings.model_fields) == {*QUERY_OPTIONS, "preset"}
    assert set(QueryRequest.model_fields) == set(EVERY_OPTION)
    assert QueryOptions().model_dump() == {
        name: option.default for name, option in QUERY_OPTIONS.items()
    }


@pytest.mark.parametrize("option", QUERY_OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_has_its_default_and_limits_in_the_body_of_the_http_api(option: Option):
    body = body_of(QuerySettings()).model_json_schema()["properties"][option.name]
    limits = Limits(body.get("minimum"), body.get("maximum"), body.get("minLength"))
    assert (body["default"], limits) == (option.default, option.limits)


@pytest.mark.parametrize("option", EVERY_OPTION.values(), ids=lambda option: option.name)
def test_every_option_is_one_of_the_command_with_its_help(option: Option):
    group: Any = typer.main.get_command(app)
    parameters = {parameter.name: parameter for parameter in group.commands["query"].params}
    name = "question" if option.name == "query" else option.name
    parameter, about = parameters[name], option.description
    assert (parameter.help, parameter.default) == (about.help, None)
    if name != "question":
        assert parameter.opts[0] == f"--{name.replace('_', '-')}"
        assert {about.also, about.off} - {""} <= {*parameter.opts, *parameter.secondary_opts}


def test_every_option_is_a_keyword_argument_of_its_type_for_type_checkers():
    keywords = get_type_hints(QueryKeywords)
    assert {"query", *keywords} == set(EVERY_OPTION)
    for name, option in QUERY_OPTIONS.items():
        assert keywords[name] == option.type | None


@pytest.mark.parametrize("method", QUERY_METHODS, ids=lambda method: method.__name__)
def test_notebooks_complete_every_option_of_the_methods_that_ask(method: Any):
    parameters = inspect.signature(method).parameters
    assert EVERY_OPTION.keys() - {"query"} <= parameters.keys()
    assert next(iter(parameters)) == "self"
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in parameters.values())


def test_the_tools_have_every_option_that_has_a_text_for_assistants():
    with_text = {name for name, option in EVERY_OPTION.items() if option.description.tool}
    assert {*OF_QUERY, *OF_QUERY_DATA} == with_text
    assert set(MODES_FOR_TOOLS) == set(SEARCH_MODES)


def test_the_page_of_the_server_has_words_for_every_mode():
    assert set(texts()["ask"]["modes"]) == set(MODES)


def test_the_page_has_every_option():
    """If this fails: python -m tests.docs.option_table"""
    assert page_with(option_table()) == PAGE.read_text(encoding="utf-8")


def test_a_new_field_is_an_option_of_the_command_and_a_parameter_of_a_tool(
    monkeypatch: pytest.MonkeyPatch,
):
    class Fields:
        depth: Annotated[int, Limits(ge=1), Description(help="H.", page="P", tool="T.")] = 3

    def command(question: str, as_json: bool = False, **options: Any) -> None: ...

    async def tool(context: str, query: str, **options: Any) -> None: ...

    added = list_options(Fields)
    assert added["depth"] == Option("depth", int, 3, Limits(ge=1), added["depth"].description)
    monkeypatch.setattr("pipeline.cli.query_command.QUERY_OPTIONS", added)
    monkeypatch.setattr("pipeline.serve.tool_parameters.QUERY_OPTIONS", added)
    parameters = inspect.signature(with_query_options(command)).parameters
    assert list(parameters) == ["question", "depth", "as_json"]
    parameters = inspect.signature(with_parameters(["query", "depth"])(tool)).parameters
    assert list(parameters) == ["context", "query", "depth"]
