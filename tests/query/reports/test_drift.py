from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.answer import answer
from pipeline.query.stream import Done, Sources, stream_answer
from tests.query.memory_stores import PROMPTS, question, resources
from tests.query.reported import many_reports, reader, reported_village
from tests.records import column
from tests.sizes import size

DRIFT = {"mode": "drift"}
FOLDS = [
    """-----Reports-----
```csv
id,title,rating,content
1,Lesson,5,Ada taught Bea for years.
3,Visit,5,"Cid met Bea, then sued Dov."
```
""",
    """-----Reports-----
```csv
id,title,rating,content
2,School,5,"Ada, Bea and Cid know each other from lessons."
4,Court,5,Dov was sued by Cid.
```
""",
]


def test_a_primer_then_searches_then_an_answer():
    chat = reader(answer=lambda _: "It is [Data: Sources (1); Reports (1, 77)].")
    wish = question(**DRIFT, primer_folds=2, drift_k_followups=2, n_depth=2)
    given = answer(wish, resources(reported_village(), chat))
    assert chat.asked_for == ["primer"] * 2 + ["search"] * 4 + ["answer"]
    assert (given.most_calls, given.usage["calls"], given.abstained) == (13, 7, False)
    primers, searches = chat.asked[:2], chat.asked[2:6]
    assert [request.messages[-1]["content"] for request in primers] == [
        f"{fold}\nQuestion: Who taught Bea?" for fold in FOLDS
    ]
    assert searches[0].messages[0]["content"] == "For: Who taught Bea?"
    assert searches[0].messages[-1]["content"].startswith("-----Reports-----")
    assert (
        searches[0]
        .messages[-1]["content"]
        .endswith("\nQuestion: What of Rows 1, 3 [Data: Reports (1)].?")
    )
    assert given.text == "It is [Data: Sources (1); Reports (1)]."
    assert given.context.windows[:2] == tuple(FOLDS)
    assert len(given.context.windows) == 6


def test_a_record_has_one_number_in_all_that_is_shown():
    found = answer(question(**DRIFT), resources(reported_village(), reader())).to_json()
    for table in ("reports", "entities", "relationships", "claims"):
        numbers = [record["number"] for record in found[table]]
        assert numbers == sorted(set(numbers))
    passages = {reference["chunk_id"]: reference["id"] for reference in found["references"]}
    assert all(passages[chunk["id"]] == chunk["number"] for chunk in found["chunks"])
    assert len(set(passages.values())) == len(passages)


def test_the_same_question_asks_the_same():
    first, second = reader(), reader()
    for chat in (first, second):
        answer(question(**DRIFT), resources(reported_village(), chat))
    assert [request.messages for request in first.asked] == [
        request.messages for request in second.asked
    ]
    asked = Counter(
        request.messages[-1]["content"].casefold()
        for request in first.asked
        if request.row_id == "search"
    )
    assert set(asked.values()) == {1}


def test_a_stream_tells_its_budget_before_any_call():
    chat = reader()
    events = stream_answer(question(**DRIFT), resources(reported_village(), chat))
    sources = next(events)
    assert isinstance(sources, Sources)
    assert (sources.most_calls, chat.asked) == (2 * (4 + 2 * 5) + 1, [])
    *_, done = events
    assert isinstance(done, Done)
    assert len(chat.asked) <= done.answer.most_calls


def test_where_no_step_helps_there_is_no_answer():
    none = reader(
        primer=lambda _: '{"answer": "", "score": 0, "follow_ups": ["Who is Bea?"]}',
        search=lambda _: '{"answer": "Nothing.", "score": 0, "follow_ups": []}',
    )
    given = answer(question(**DRIFT), resources(reported_village(), none))
    assert (given.text, given.abstention) == (PROMPTS["not_in_context"].strip(), "not_in_context")
    assert none.asked_for == ["primer"] * 4 + ["search"]


def test_a_filter_holds_in_every_step():
    chat = reader()
    given = answer(question(**DRIFT, where={"id": "doc-2"}), resources(reported_village(), chat))
    assert column(given.context.reports.records, "title") == ["Visit", "Court"]
    assert set(column(given.context.chunks.records, "document_id")) == {"doc-2"}
    assert not any("Ada taught" in request.messages[-1]["content"] for request in chat.asked)


def test_only_the_context_or_the_prompts_take_no_call():
    context = answer(
        question(**DRIFT, primer_folds=2, only_need_context=True), resources(reported_village())
    )
    prompt = answer(
        question(**DRIFT, primer_folds=2, only_need_prompt=True), resources(reported_village())
    )
    assert context.text == "\n".join(FOLDS)
    assert prompt.text.startswith(f"Begin with:\n\n{FOLDS[0]}\nQuestion: Who taught Bea?")


@settings(max_examples=size(10, 200))
@given(
    stores=st.sampled_from([reported_village(), many_reports(30)]),
    map_tokens=st.integers(1, 2500),
    total=st.integers(200, 4000),
    calls=st.integers(2, 12),
    breadth=st.integers(1, 6),
    depth=st.integers(0, 3),
    folds=st.integers(1, 8),
)
def test_no_budget_is_exceeded(
    stores, map_tokens: int, total: int, calls: int, breadth: int, depth: int, folds: int
):
    chat = reader()
    given = answer(
        question(
            **DRIFT, max_map_tokens=map_tokens, max_total_tokens=total, max_calls=calls,
            drift_k_followups=breadth,
            n_depth=depth, primer_folds=folds,
        ),
        resources(stores, chat),
    )  # fmt: skip
    prompts = [
        sum(len(message["content"]) for message in request.messages) for request in chat.asked
    ]
    assert max(prompts, default=0) <= total
    assert len(prompts) <= given.most_calls <= calls
    assert chat.asked_for.count("search") <= breadth * depth
    assert all(len(window) <= map_tokens for window in given.context.windows)
