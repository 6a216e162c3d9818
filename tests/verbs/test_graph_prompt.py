"""The prompt for a graph has one example, in the requested format."""

import json
from pathlib import Path

import pytest

from pipeline.contract.prompts import Prompt, read_prompt
from pipeline.models.parse.graph import parse_graph_json, parse_records
from pipeline.models.parse.graph_format import (
    ASK_FOR_GRAPH_JSON,
    BOUNDED_GRAPH_JSON_FORMAT,
    GRAPH_JSON_FORMAT,
    JSON_FORMAT,
    RECORDS_FORMAT,
    as_json,
    as_records,
)
from pipeline.settings.init import shipped
from pipeline.verbs.graph_prompt import opening
from tests.verbs.test_paid_extractions import unpacked

OWN = Prompt(
    "own", 'Types: $entity_types\nWrite ("entity"<|>name) lines, as my colleagues do.\nText:\n$text'
)


@pytest.fixture
def earlier(tmp_path: Path) -> Prompt:
    """Return the prompt file of a project of an earlier version."""
    return read_prompt(unpacked(tmp_path) / "prompts", "extract_graph", {"language": "English"})


def packaged() -> Prompt:
    return read_prompt(shipped() / "prompts", "extract_graph", {"language": "English"})


def test_the_packaged_prompt_asks_for_records_in_the_very_words_of_earlier_versions(
    earlier: Prompt,
):
    asked = {"text": "Mira Vale built it.", "entity_types": "person, event"}
    assert opening(packaged(), "records", **asked) == opening(earlier, "records", **asked)
    assert opening(earlier, "records", **asked)[0]["content"] == earlier.render(**asked)


@pytest.mark.parametrize("which", ["packaged", "earlier"])
def test_a_prompt_for_json_shows_json_and_no_record(which: str, earlier: Prompt):
    prompt = packaged() if which == "packaged" else earlier
    (message,) = opening(prompt, "json", text="Mira Vale built it.", entity_types="person")
    assert message["role"] == "user"
    assert JSON_FORMAT in message["content"]
    assert "<|" not in message["content"]
    assert "##" not in message["content"]


def test_edits_of_an_earlier_prompt_file_beside_the_format_stay(earlier: Prompt):
    text = earlier.text.replace("Entities\n", "Entities\n- Ships are vessels.\n", 1)
    edited = Prompt("mine", text, earlier.values)
    (message,) = opening(edited, "json", text="t", entity_types="ship")
    assert "- Ships are vessels." in message["content"]
    assert JSON_FORMAT in message["content"]


def test_a_description_of_the_owner_stays_and_json_is_asked_for_before_it():
    messages = opening(OWN, "json", text="t", entity_types="ship")
    assert messages[0] == ASK_FOR_GRAPH_JSON
    assert messages[1]["content"] == OWN.render(text="t", entity_types="ship")


def test_a_text_that_quotes_the_format_is_left_as_it_is():
    text = f"Our manual says: {RECORDS_FORMAT}"
    (message,) = opening(packaged(), "json", text=text, entity_types="person")
    assert message["content"].endswith(f"Text:\n{text}\n")


def test_both_formats_show_the_same_example():
    of_records = parse_records(RECORDS_FORMAT.rpartition('":\n')[2])
    of_json = parse_graph_json(JSON_FORMAT.rpartition('":\n')[2])
    assert of_records.records == of_json.records
    assert len(of_json.entities) == 3
    assert len(of_json.relationships) == 2


def test_what_is_written_is_read_back():
    records = parse_records(RECORDS_FORMAT.rpartition('":\n')[2]).records
    assert parse_records(as_records(records)).records == records
    assert parse_graph_json(as_json(records)).records == records


def test_limits_are_all_that_the_bounded_schema_adds():
    bounded = json.loads(json.dumps(BOUNDED_GRAPH_JSON_FORMAT))
    limits = taken_out(bounded)
    assert bounded == json.loads(json.dumps(GRAPH_JSON_FORMAT))
    assert limits["keywords"] == 3
    assert {"entities", "relationships", "name", "type", "description", "source", "target"} <= set(
        limits
    )
    assert max(limits.values()) < 2000  # llama.cpp refuses more


def taken_out(schema: object, name: str = "") -> dict[str, int]:
    """Remove every limit from the schema; return it by the name of the field that it is of."""
    found: dict[str, int] = {}
    if isinstance(schema, dict):
        for keyword in ("maxItems", "maxLength"):
            if keyword in schema:
                found[name] = schema.pop(keyword)
        for key, value in schema.items():
            found = (
                taken_out(value, name if key == "items" and "properties" not in value else key)
                | found
            )
    return found
