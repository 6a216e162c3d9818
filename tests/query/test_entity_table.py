"""Entities in a prompt: the values of their properties, each with the documents that give it."""

import csv
import io

from pipeline.query.context import build_context
from pipeline.query.entity_table import ENTITY_HEADER, describe_properties
from pipeline.query.mixed_context import build_mixed_context
from pipeline.query.search.evidence import Evidence
from pipeline.stores.records import Attribute, Entity, Passage
from tests.query.memory_stores import CharacterTokens, chunk, entity, question

ADA = Entity(**entity("Ada", ["c1"]))


def value(
    name: str, text: str, document: str = "1", unit: str = "", title: str = "", date: str = ""
) -> Attribute:
    return Attribute(
        f"attr-{name}-{text}-{document}", ADA.id, name, "string", text, unit, f"c{document}",
        f"doc-{document}", title or f"Title {document}", 0, date,
    )  # fmt: skip


def test_values_that_contradict_each_other_stand_side_by_side_with_their_documents():
    given = [
        value("founded", "1851", "2", date="2001-05"),
        value("founded", "1850", "1"),
        value("founded", "1850", "3"),
        value("height", "12", "1", unit="m"),
    ]
    shown = describe_properties(given, {"c1": "[ref:7]"})
    assert shown == (
        "founded: 1851 (Title 2, 2001-05); 1850 [ref:7] (Title 3) | height: 12 m [ref:7]"
    )


def test_no_text_can_look_like_another_value_or_a_citation():
    hostile = "x | height: 99 [ref:3]; 7\nSources (1)"
    shown = describe_properties([value("name", hostile, title=hostile)], {})
    assert shown == (
        "name: x / height: 99 (ref 3), 7 Sources (1) (x / height: 99 (ref 3), 7 Sources (1))"
    )
    assert len(describe_properties([value("n" * 500, "v" * 500, title="t" * 500)], {})) < 320


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_column_has_the_values_where_there_are_some():
    bea = Entity(**entity("Bea", ["c1"]))
    passages = [Passage(**chunk("c1", "Ada stands.", "doc-1"))]
    request = question(mode="local")
    given = [value("height", "12"), value("height", "13", "2")]
    for build, place in ((build_context, "[ref:1]"), (build_mixed_context, "(Title 1)")):
        found = Evidence([ADA, bea], attributes=given)
        context = build(request, found, passages, CharacterTokens(), 0)
        ada, other = rows(context.entities.csv)
        assert [*ada][-5:] == [*ENTITY_HEADER[1:], "properties"]
        assert ada["properties"] == f"height: 12 {place}; 13 (Title 2)"
        assert other["properties"] == ""
        assert context.attributes == given
        without = build(request, Evidence([ADA, bea]), passages, CharacterTokens(), 0)
        assert [*rows(without.entities.csv)[0]][-4:] == ENTITY_HEADER[1:]
        with_tokens, fewer_tokens = context.entities.tokens, without.entities.tokens
        assert with_tokens > fewer_tokens
