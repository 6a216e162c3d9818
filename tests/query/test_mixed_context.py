from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.answer import answer
from pipeline.query.mixed_context import build_mixed_context
from pipeline.query.search.evidence import Evidence
from pipeline.stores.records import Passage, Relationship
from tests.query.memory_stores import (
    CharacterTokens,
    chunk,
    question,
    relationship,
    resources,
    village,
)
from tests.query.reported import reader, reported_village
from tests.records import column
from tests.sizes import size

MIXED = {"mode": "local", "context": "graphrag"}
CONTEXT = """-----Reports-----
```csv
id,title,rating,content
1,Lesson,5,Ada taught Bea for years.
2,Visit,5,"Cid met Bea, then sued Dov."
3,Court,5,Dov was sued by Cid.
```

-----Entities-----
```csv
id,entity,type,description,rank
1,Bea,PERSON,"Bea, a person",2
2,Ada,PERSON,"Ada, a person",1
3,Cid,PERSON,"Cid, a person",2
4,Dov,PERSON,"Dov, a person",1
```

-----Relationships-----
```csv
id,source,target,description,keywords,weight,rank
1,Ada,Bea,teaching,"knows, since long",1.0,3
2,Bea,Cid,meeting,"knows, since long",1.0,4
3,Cid,Dov,lawsuit,"knows, since long",2.0,3
```

-----Claims-----
```csv
id,subject,object,type,status,start_date,end_date,description
1,Cid,Dov,LAWSUIT,TRUE,1901-01-01,,Cid sued Dov over a fence.
```

-----Sources-----
```csv
id,content
1,"Bea met Cid, says Ada."
2,Ada taught Bea.
3,Cid sued Dov.
```

-----References-----
```
1 3: doc-2.txt
2: doc-1.txt
```
"""


def test_reports_and_claims_stand_beside_what_local_finds():
    said = (
        "Ada [Data: Sources (2); Reports (1, 7), Claims (1)] [LLM: verify]. No [3] [Data: Sources"
        " (9)]."
    )
    chat = reader(answer=lambda _: said)
    given = answer(question(**MIXED), resources(reported_village(), chat))
    assert given.context.text == CONTEXT
    assert chat.asked[-1].messages[0]["content"] == "Answer as Multiple Paragraphs.  Mixed:"
    assert chat.asked[-1].messages[-1]["content"].startswith(CONTEXT)
    assert given.text == "Ada [Data: Sources (2); Reports (1); Claims (1)] [LLM: verify]. No (3)."
    assert given.removed_citations == 2


def test_a_number_stands_for_one_record_in_the_structured_answer():
    found = answer(
        question(**MIXED, only_need_context=True), resources(reported_village(), reader())
    ).to_json()
    assert [report["number"] for report in found["reports"]] == [1, 2, 3]
    assert [report["found_entities"] for report in found["reports"]] == [2, 1, 1]
    assert [(claim["number"], claim["source_text"]) for claim in found["claims"]] == [
        (1, "He sued.")
    ]
    assert {"reports", "claims"} <= set(found["tokens"]) & set(found["dropped"])


def test_communities_change_nothing_of_a_plain_context():
    with_reports, without = reader(), reader()
    for mode in ("local", "hybrid"):
        shown = answer(question(mode=mode), resources(reported_village(), with_reports))
        plain = answer(question(mode=mode), resources(village(), without))
        assert shown.to_json().keys() == plain.to_json().keys()
    assert [request.messages for request in with_reports.asked] == [
        request.messages for request in without.asked
    ]


def test_without_communities_the_mixed_context_has_the_rest():
    context = answer(question(**MIXED, only_need_context=True), resources(village(), reader())).text
    assert (
        context
        == CONTEXT[CONTEXT.index("-----Entities") : CONTEXT.index("-----Claims")]
        + CONTEXT[CONTEXT.index("-----Sources") :]
    )


def test_what_other_documents_tell_is_not_shown():
    wish = question(**MIXED, where={"id": "doc-1"}, only_need_context=True)
    context = answer(wish, resources(reported_village(), reader())).context
    assert not context.reports.records
    assert not context.claims.records
    assert set(column(context.chunks.records, "document_id")) == {"doc-1"}


def test_each_part_has_its_share():
    wish = question(
        **MIXED,
        max_total_tokens=900,
        community_prop=0.2,
        text_unit_prop=0.5,
        only_need_context=True,
    )
    context = answer(wish, resources(reported_village(), reader())).context
    assert 0 < context.reports.tokens <= 180
    assert len(context.chunks.records) == 3
    assert context.entities.dropped > 0


def test_a_report_that_has_no_room_is_shown_by_its_summary():
    store = reported_village()
    store.report_rows["content"] = "y" * 5000
    context = answer(question(**MIXED, only_need_context=True), resources(store, reader())).context
    assert "1,Lesson,5,Lesson in short." in context.reports.csv


@settings(max_examples=size(15, 200))
@given(total=st.integers(100, 3000), community=st.floats(0, 1), prop=st.floats(0, 1))
def test_the_prompt_is_within_the_total_budget(total: int, community: float, prop: float):
    wish = question(**MIXED, max_total_tokens=total, community_prop=community, text_unit_prop=prop)
    given = answer(wish, resources(reported_village(), reader()))
    assert given.abstained or given.tokens["prompt"] <= total


def test_a_text_unit_that_finds_room_last_is_not_repeated_by_a_relationship():
    said = "The lighthouse was built by the sisters of Ada."
    links = [
        Relationship(**relationship("A", "B", said, ["c"])),
        Relationship(**relationship("B", "C", "Bea wrote letters.", ["c"])),
    ]
    units = [
        Passage(**chunk("1", "x" * 3_000, "doc-x")),
        Passage(**chunk("2", "y" * 4_000 + f"\n\n{said}", "doc-y")),
    ]
    wish = question(**MIXED, max_total_tokens=9_000)
    context = build_mixed_context(wish, Evidence([], links), units, CharacterTokens(), 0)
    assert len(context.chunks.records) == 2
    assert column(context.relationships.records, "description") == ["Bea wrote letters."]
    assert column(context.facts, "description") == [said, "Bea wrote letters."]
