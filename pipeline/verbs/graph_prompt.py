"""The messages that ask a chat model for the graph of a text in one of two formats."""

from dataclasses import replace
from typing import Literal

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.models.base import Message
from pipeline.models.parse.graph_format import ASK_FOR_GRAPH_JSON, JSON_FORMAT, RECORDS_FORMAT

GRAPH_VERBS = frozenset({"extract_graph", "extract_graph_with_headers"})
"""The verbs that ask a chat model for the graph of a text."""
RECORDS: Literal["records"] = "records"
JSON: Literal["json"] = "json"
AUTO: Literal["auto"] = "auto"
Format = Literal["records", "json", "auto"]
FORMAT = "format"
EXTRACT_PLACEHOLDERS = Placeholders(("text",), ("entity_types", FORMAT))


def opening(extract: Prompt, format: Format, text: str, entity_types: str) -> tuple[Message, ...]:
    """Return the messages that ask for the graph of a text; ``auto`` counts as records.

    In a prompt, ``$format`` stands for the description of the output format. Prompt files of
    earlier versions have the description of records in this place; it is replaced for JSON. A
    prompt with another description keeps it, and a system message before it asks for JSON.
    """
    if format != JSON:
        return (_asked(extract, RECORDS_FORMAT, text, entity_types),)
    template = replace(extract, text=extract.text.replace(RECORDS_FORMAT, f"${FORMAT}"))
    if FORMAT in template.fields:
        return (_asked(template, JSON_FORMAT, text, entity_types),)
    return earlier_opening(extract, text, entity_types)


def earlier_opening(extract: Prompt, text: str, entity_types: str) -> tuple[Message, ...]:
    """Return the messages with which earlier versions asked for JSON."""
    return (ASK_FOR_GRAPH_JSON, _asked(extract, RECORDS_FORMAT, text, entity_types))


def _asked(extract: Prompt, format: str, text: str, entity_types: str) -> Message:
    return {
        "role": "user",
        "content": extract.render(text=text, entity_types=entity_types, format=format),
    }
