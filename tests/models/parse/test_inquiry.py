import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.parse.report import (
    PartialAnswer,
    Point,
    parse_partial_answer,
    parse_points,
    parse_questions,
    parse_ratings,
)


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        ('{"points": [{"description": "A.", "score": 80}]}', [("A.", 80)]),
        ('```json\n{"points": [{"description": "A.", "score": "85/100"}]}\n```', [("A.", 85)]),
        ('Here: {"Key Points": [{"point": "A.", "importance_score": 7}]} Done.', [("A.", 7)]),
        (
            '<think>{"points": []}</think>{"points": [{"description": "A.", "score": 140}]}',
            [("A.", 100)],
        ),
        (
            '{"points": [{"description": "A.", "score": 9}, {"description": "B.", "sco',
            [("A.", 9), ("B.", 1)],
        ),
        ('{"points": [{"description": "A."}, {"description": "", "score": 9}, 5]}', [("A.", 1)]),
        ('[{"description": "A.", "score": 8}, "B."]', [("A.", 8), ("B.", 1)]),
        ('{"description": "A.", "score": 8}', [("A.", 8)]),
        ('{"points": []}', []),
        ("I do not know.", None),
        ('{"answer": "A."}', None),
    ],
)
def test_points_are_read_as_models_write_them(reply: str, points: list[tuple[str, float]] | None):
    assert parse_points(reply) == (None if points is None else [Point(*point) for point in points])


@pytest.mark.parametrize(
    ("reply", "ratings"),
    [
        ('{"ratings": [{"id": 1, "rating": 5}, {"id": "2", "rating": "0"}]}', {1: 5, 2: 0}),
        ('[{"report": 3, "score": 9}, {"id": "x", "rating": 1}]', {3: 5}),
        ('{"ratings": {"1": 5, "2": "0"}}', {1: 5, 2: 0}),
        ('{"1": 4, "7": 2.5}', {1: 4, 7: 2.5}),
        ('{"answer": "A."}', None),
        ("5", None),
    ],
)
def test_ratings_are_read_as_models_write_them(reply: str, ratings: dict[int, float] | None):
    assert parse_ratings(reply) == ratings


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (
            '{"answer": "A.", "score": 5, "follow_ups": ["B?", "b?", "C?"]}',
            PartialAnswer("A.", 5, ("B?", "C?")),
        ),
        (
            '{"intermediate_answer": "A.", "score": 5, "follow_up_queries": [{"query": "B?"}]}',
            PartialAnswer("A.", 5, ("B?",)),
        ),
        ('{"answer": "", "score": 0, "follow_ups": ["B?"]}', PartialAnswer("", 0, ("B?",))),
        ("A.", None),
    ],
)
def test_partial_answers_are_read_as_models_write_them(reply: str, answer: PartialAnswer | None):
    assert parse_partial_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "questions"),
    [
        ('{"questions": ["A?", "B?"]}', ["A?", "B?"]),
        ('["A?"]', ["A?"]),
        ("Sure:\n- A?\n2) B?\n* A?", ["A?", "B?"]),
        ("None.", []),
    ],
)
def test_questions_are_read_as_models_write_them(reply: str, questions: list[str]):
    assert parse_questions(reply) == questions


KEYS = ["points", "ratings", "answer", "score", "follow_ups", "id"]
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
)


@given(st.text(max_size=60) | JSON.map(json.dumps))
def test_no_reply_raises(reply: str):
    for read in (parse_points, parse_ratings, parse_partial_answer, parse_questions):
        read(reply)
