"""The API in words, from its own OpenAPI document: what Swagger's page shows, without a script of
another host."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response

from pipeline.serve.doors import Door
from pipeline.serve.ui.view import Ui

SCHEMAS = "#/components/schemas/"


class FieldTold(NamedTuple):
    name: str
    type: str
    default: str
    about: str


class Operation(NamedTuple):
    method: str
    path: str
    summary: str
    about: str
    asked: list[FieldTold]
    given: list[FieldTold]
    statuses: list[tuple[str, str]]


def router(ui: Ui, app: FastAPI) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/docs")
    async def docs(http: Request) -> Response:
        def look(door: Door) -> Mapping[str, Any]:
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
        for method, told in methods.items():
            yield Operation(
                method.upper(),
                path,
                told["summary"],
                told.get("description", ""),
                [
                    *(
                        _field(one["name"], one, one["schema"])
                        for one in told.get("parameters", [])
                    ),
                    *_fields(told.get("requestBody", {}), schemas),
                ],
                _fields(told["responses"]["200"], schemas),
                [(status, answer["description"]) for status, answer in told["responses"].items()],
            )


def _fields(message: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[FieldTold]:
    """Of a JSON object; what streams has none."""
    schema = message.get("content", {}).get("application/json", {}).get("schema", {})
    properties = schemas.get(schema.get("$ref", "").removeprefix(SCHEMAS), {}).get("properties", {})
    return [_field(name, one, one) for name, one in properties.items()]


def _field(name: str, told: Mapping[str, Any], schema: Mapping[str, Any]) -> FieldTold:
    default = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    return FieldTold(name, _type(schema), default, told.get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "$ref" in schema:
        return schema["$ref"].removeprefix(SCHEMAS)
    if "const" in schema or "enum" in schema:
        return " or ".join(schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    limits = [
        f"{word} {schema[key]:,.12g}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in schema
    ]
    return " ".join([schema.get("type", "any"), *limits])
