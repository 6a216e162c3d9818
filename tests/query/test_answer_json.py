"""The evidence of an answer as JSON."""

from pipeline.query.answer_json import statements_json
from pipeline.query.context import NO_TABLE, Context
from pipeline.stores.records import Relationship, Statement
from tests.query.memory_stores import relationship

BUILT = Relationship(**relationship("Ada", "Light", "Ada built the light.", ["c1", "c2"]))
KEPT = Relationship(**relationship("Bea", "Light", "Bea kept the light.", ["c3"]))


def stated(number: int, link: Relationship, **fields: str) -> Statement:
    given = {"valid_from": "", "valid_to": "", "description": "It is so.", **fields}
    return Statement(
        id=f"s{number}",
        relationship_id=link.id,
        type="built",
        attributes={},
        text_unit_id=f"c{number}",
        document_id="d",
        title="D",
        order=number,
        **given,
    )


def context(*statements: Statement) -> Context:
    return Context(NO_TABLE, NO_TABLE, NO_TABLE, (), facts=(BUILT, KEPT), statements=statements)


def test_statements_follow_the_order_of_their_relationships_and_have_dates_that_are_set():
    found = statements_json(
        context(stated(3, KEPT), stated(1, BUILT, valid_from="1871"), stated(2, BUILT)), 20, 300
    )
    assert found == [
        {
            "source": "Ada", "target": "Light", "type": "built", "description": "It is so.",
            "text_unit_id": "c1", "valid_from": "1871",
        },
        {
            "source": "Ada", "target": "Light", "type": "built", "description": "It is so.",
            "text_unit_id": "c2",
        },
        {
            "source": "Bea", "target": "Light", "type": "built", "description": "It is so.",
            "text_unit_id": "c3",
        },
    ]  # fmt: skip


def test_the_number_of_statements_and_the_length_of_a_description_are_limited():
    many = [stated(number, BUILT, description="x" * 500) for number in range(5)]
    found = statements_json(context(*many), 2, 300)
    assert [(one["text_unit_id"], one["description"]) for one in found] == [
        ("c0", "x" * 300), ("c1", "x" * 300),
    ]  # fmt: skip


def test_a_context_without_statements_gives_none():
    assert statements_json(context(), 20, 300) == []
