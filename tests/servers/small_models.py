"""Chat models that answer as small ones do, for tests of the format in which a graph is asked
for."""

import json
from collections.abc import Mapping
from typing import Any

from tests.servers.openai_replies import (
    Messages,
    Reply,
    content_of,
    default_reply,
    is_gleaning,
    wants_json,
)

PROSE = (
    "### Records Only\n\nThe text names a person who founded an observatory. I hope that this"
    " helps!"
)


def asks_for_a_graph(messages: Messages) -> bool:
    return "knowledge graph it contains" in "\n".join(map(content_of, messages))


def json_alone(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Answer as Qwen2.5-0.5B did: prose to a prompt for records, a right graph under a JSON
    schema."""
    if asks_for_a_graph(messages) and not wants_json(body):
        return Reply(PROSE)
    return default_reply(messages, body)


def no_format(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Answer every prompt for a graph with prose."""
    return Reply(PROSE) if asks_for_a_graph(messages) else default_reply(messages, body)


def json_without_limits(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Answer as a hosted model that refuses limits in a schema, and else as ``json_alone``."""
    if "maxItems" in json.dumps(body.get("response_format")):
        return Reply(
            "Invalid schema for response_format 'graph': 'maxItems' is not permitted.", status=400
        )
    return json_alone(messages, body)


__all__ = [
    "PROSE",
    "asks_for_a_graph",
    "is_gleaning",
    "json_alone",
    "json_without_limits",
    "no_format",
]
