"""Statements on reports lead to the passages that they are based on."""

from dataclasses import replace

import pytest

from pipeline.errors import StoreError
from pipeline.query.answer import Answer, answer
from pipeline.query.reports.sources import find_statements_on_reports
from pipeline.query.stream import Done, stream_answer
from tests.query.memory_stores import question, resources
from tests.query.reported import reader, reported_village

COMMUNITY = {"mode": "community", "community_level": 0}
"""Report 1: School, of Ada, Bea and Cid in c1, c2, c3; report 2: Court, of Dov in c3."""


def asked(said: str, **wishes: object) -> Answer:
    cites = "All of it [Data: Reports (1, 2)]."
    chat = reader(
        answer=lambda _: said,
        map=lambda _: f'{{"points": [{{"description": "{cites}", "score": 9}}]}}',
    )
    return answer(question(**{**COMMUNITY, **wishes}), resources(reported_village(), chat))


def test_what_is_said_of_a_report_leads_to_the_passages_that_name_it():
    given = asked(
        "Who taught is known. Ada taught Bea [Data: Reports (1)]. Dov was sued [Data: Reports (2)]."
    )
    assert [(entry.chunk_id, entry.document_id, entry.reports) for entry in given.references] == [
        ("c1", "doc-1", (1,)),
        ("c2", "doc-2", (1,)),
        ("c3", "doc-2", (2,)),
    ]
    assert given.cited == given.references
    shown = given.to_json()["references"]
    assert [(entry["id"], entry["reports"]) for entry in shown] == [(1, [1]), (2, [1]), (3, [2])]


def test_a_finding_that_names_nobody_rests_on_what_its_report_is_about():
    assert {entry.chunk_id for entry in asked("It is so [Data: Reports (2)].").references} == {"c3"}


def test_reports_that_are_not_cited_lead_nowhere():
    assert asked("It is so.").references == ()
    assert asked("Dov [Data: Reports (2)].", include_references=False).references == ()


def test_a_stream_ends_with_the_same():
    chat = reader(answer=lambda _: "Dov [Data: Reports (3)].")
    *_, done = stream_answer(question(mode="community"), resources(reported_village(), chat))
    assert isinstance(done, Done)
    assert [entry.chunk_id for entry in done.answer.cited] == ["c3"]


def test_a_passage_that_drift_has_shown_keeps_its_number():
    chat = reader(
        search=lambda _: (
            '{"answer": "Cid sued [Data: Sources (1); Reports (1)].", "score": 9, "follow_ups": []}'
        ),
        answer=lambda _: "Cid sued Dov [Data: Reports (1)]. So it is [Data: Sources (1)].",
    )
    given = answer(question(mode="drift"), resources(reported_village(), chat))
    assert len({entry.chunk_id for entry in given.references}) == len(given.references)
    assert len({entry.id for entry in given.references}) == len(given.references)
    assert given.cited[0].id == 1
    assert any(entry.reports == (1,) for entry in given.cited)


def test_the_local_context_of_graphrag_leads_from_reports_to_passages_too():
    chat = reader(answer=lambda _: "Dov was sued [Data: Reports (3)].")
    given = answer(question(mode="local", context="graphrag"), resources(reported_village(), chat))
    assert [(entry.chunk_id, entry.reports) for entry in given.cited] == [("c3", (3,))]


def test_an_answer_is_not_lost_where_the_stores_fail_after_it():
    store, reads = reported_village(), []

    def read(work):
        reads.append(work)
        if len(reads) > 1:
            raise StoreError("postgres: gone; start it")
        return work(store, store), ()

    chat = reader(answer=lambda _: "Dov [Data: Reports (1)].")
    given = answer(question(**COMMUNITY), replace(resources(store, chat), read=read))
    assert (given.text, given.references) == ("Dov [Data: Reports (1)].", ())
    assert given.notes == (
        "the passages that the reports rest on were not found (postgres: gone; start it)",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It began. Ada met Bea [Data: Reports (1, 2)].", {1: "Ada met Bea", 2: "Ada met Bea"}),
        (
            "Ada met Bea. [Data: Reports (1)] Cid left [Data: Reports (2)].",
            {1: "Ada met Bea.", 2: "Cid left"},
        ),
        ("- Ada [Data: Reports (1)]\n- Bea [Data: Reports (1)]", {1: "- Ada\n- Bea"}),
        ("Ada [Data: Reports (1)][Data: Reports (2)].", {1: "Ada", 2: "Ada"}),
    ],
)
def test_a_citation_belongs_to_the_sentence_before_it(text: str, said: dict[int, str]):
    assert {
        number: " ".join(words.split(" ")).strip()
        for number, words in find_statements_on_reports(text).items()
    } == said
