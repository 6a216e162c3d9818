"""Show the API's reference from its own OpenAPI document, as Swagger's page does, but without
scripts of another host."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response

from pipeline.serve.access import Access
from pipeline.serve.ui.view import Ui

SCHEMAS = "#/components/schemas/"


class DescribedField(NamedTuple):
    """A field of a body or a parameter, as the page shows it."""

    name: str
    type: str
    default: str
    about: str


class Operation(NamedTuple):
    """An operation of the API: ``asked`` are the fields of its request, ``given`` of its answer."""

    method: str
    path: str
    summary: str
    about: str
    asked: list[DescribedField]
    given: list[DescribedField]
    statuses: list[tuple[str, str]]


def route_reference(ui: Ui, app: FastAPI) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/docs")
    async def docs(http: Request) -> Response:
        def look(access: Access) -> Mapping[str, Any]:
            document = app.openapi()
            return {
                "about": document["info"]["description"],
                "operations": list(_operations(document)),
            }

        return await ui.page(http, "reference.html.j2", look)

    return routes


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", [])
            asked = [_field(one["name"], one, one["schema"]) for one in parameters]
            asked += _fields(operation.get("requestBody", {}), schemas)
            responses = operation["responses"]
            success = next(status for status in responses if status.startswith("2"))
            yield Operation(
                method.upper(),
                path,
                operation["summary"],
                operation.get("description", ""),
                asked,
                _fields(responses[success], schemas),
                [(status, answer["description"]) for status, answer in responses.items()],
            )


def _fields(message: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[DescribedField]:
    """Return the fields of a message that is a JSON object; a stream has none."""
    schema = message.get("content", {}).get("application/json", {}).get("schema", {})
    named = schemas.get(schema.get("$ref", "").removeprefix(SCHEMAS), schema)
    properties = named.get("properties", {})
    return [_field(name, one, one) for name, one in properties.items()]


def _field(name: str, about: Mapping[str, Any], schema: Mapping[str, Any]) -> DescribedField:
    default = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    return DescribedField(name, _describe_type(schema), default, about.get("description", ""))


def _describe_type(schema: Mapping[str, Any]) -> str:
    """Return the type and the limits of a schema in words."""
    if "anyOf" in schema:
        return " or ".join(map(_describe_type, schema["anyOf"]))
    if "$ref" in schema:
        return schema["$ref"].removeprefix(SCHEMAS)
    if "const" in schema or "enum" in schema:
        return " or ".join(schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    words = [schema.get("type", "any")]
    if "minimum" in schema:
        words.append(f"from {schema['minimum']:,.12g}")
    if "maximum" in schema:
        words.append(f"to {schema['maximum']:,.12g}")
    return " ".join(words)
