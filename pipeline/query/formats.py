"""JSON schemas of replies (``response_format``), for models that support them."""

from collections.abc import Mapping
from typing import Any

_STRING = {"type": "string"}
_NUMBER = {"type": "number"}


def _format(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = {"name": name, "strict": True, "schema": _object(fields)}
    return {"type": "json_schema", "json_schema": schema}


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


KEYWORDS = _format(
    "keywords",
    {
        "high_level_keywords": _list(_STRING),
        "low_level_keywords": _list(_STRING),
        "question": _STRING,
    },
)
POINTS = _format("points", {"points": _list(_object({"description": _STRING, "score": _NUMBER}))})
RATINGS = _format(
    "ratings", {"ratings": _list(_object({"id": {"type": "integer"}, "rating": _NUMBER}))}
)
PARTIAL_ANSWER = _format(
    "partial_answer", {"answer": _STRING, "score": _NUMBER, "follow_ups": _list(_STRING)}
)
QUESTIONS = _format("questions", {"questions": _list(_STRING)})
