"""The requests of report_communities, their order, reports and rejects."""

import json
from collections.abc import Callable

import networkx as nx
import pandas as pd
import pytest

from pipeline.contract.prompts import Prompt
from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    ENTITIES,
    REJECTS,
    RELATIONSHIPS,
)
from pipeline.models.base import ChatReply, ChatRequest, one_question
from pipeline.text.tokens import tokenizer
from pipeline.verbs.compose_texts import ReportTextParams, compose_report_texts
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from pipeline.verbs.report_communities import (
    ReportParams,
    report_communities,
    report_communities_with_claims,
)
from tests.talking import converse
from tests.verbs.graphs import ranked, towns
from tests.verbs.test_report_context import claims

PROMPT = Prompt("report", "At most $max_length words.\n$context")
FINDINGS = [
    {"summary": "Built in 1871", "explanation": "By Mira."},
    {"summary": "Lit", "explanation": ""},
]
REPORT = {
    "title": "A town",
    "summary": "People.",
    "rating": 7,
    "rating_explanation": "Why.",
    "findings": FINDINGS,
}
GOOD = ChatReply(json.dumps(REPORT))
CUT = ChatReply(GOOD.text[:40], finish_reason="length")


class Scripted:
    """Answers by the prompt and the turn; keeps each call of converse by itself."""

    identity = {"model": "scripted"}  # noqa: RUF012

    def __init__(self, reply: Callable[[str, int], ChatReply] = lambda prompt, turn: GOOD):
        self.reply = reply
        self.calls: list[list[ChatRequest]] = []

    def converse(self, talks, listener=None, repeats=None):
        self.calls.append([])
        return converse(talks, self._reply)

    def complete(self, requests, listener=None):
        return self.converse(map(one_question, requests))

    def _reply(self, request: ChatRequest) -> ChatReply:
        self.calls[-1].append(request)
        return self.reply(request.messages[0]["content"], len(request.messages))

    def stream(self, request):
        raise NotImplementedError

    def preflight(self):
        pass

    @property
    def prompts(self) -> list[str]:
        return [request.messages[0]["content"] for call in self.calls for request in call]


def run(chat: Scripted, graph: nx.DiGraph, words: int = 0, **params):
    """Run the verb; every description is longer by ``words`` words."""
    entities, relationships = ranked(graph)
    entities = entities.assign(description=entities["description"] + " tide" * words)
    communities, _ = detect_communities(
        entities, relationships, CommunityParams(max_cluster_size=5)
    )
    asked = ReportParams(**params), PROMPT, chat, tokenizer("o200k_base")
    found, rejects = report_communities(communities, entities, relationships, *asked)
    REJECTS.encode(rejects, "rejects")
    return communities, COMMUNITY_REPORTS.encode(found, "reports").to_pandas(), rejects


def test_every_community_gets_its_report():
    chat = Scripted()
    communities, reports, rejects = run(chat, towns())
    assert rejects.empty
    assert list(reports["id"]) == list(
        COMMUNITIES.encode(communities, "communities").to_pandas()["id"]
    )
    row = reports.iloc[0].to_dict()
    assert row["content"] == "# A town\n\nPeople.\n\n## Built in 1871\n\nBy Mira.\n\n## Lit"
    assert [row[name] for name in ("title", "summary", "rating", "rating_explanation")] == [
        "A town",
        "People.",
        7,
        "Why.",
    ]
    assert list(row["findings"]) == FINDINGS
    same = communities.set_index("id").loc[row["id"]]
    assert [row[name] for name in ("level", "parent", "size")] == [
        same[name] for name in ("level", "parent", "size")
    ]
    assert row["weight"] == len(set(row["text_unit_ids"])) == len(set(same["text_unit_ids"]))
    assert chat.prompts[0].startswith("At most 1000 words.\n-----Entities-----")


def test_all_communities_are_asked_about_at_once_if_all_facts_fit():
    chat = Scripted()
    communities, _, _ = run(chat, towns())
    assert [len(call) for call in chat.calls] == [len(communities)]
    assert communities["level"].max() > 0


def test_a_large_community_waits_for_the_reports_on_its_sub_communities_and_shows_them():
    chat = Scripted(
        lambda prompt, turn: ChatReply(json.dumps({**REPORT, "title": f"Town {len(prompt)}"}))
    )
    communities, reports, _ = run(chat, towns(), words=40, max_input_tokens=500)
    assert len(chat.calls) > 1
    levels = communities.set_index("id")["level"]
    titles = reports.set_index("id")["title"]
    children = communities.set_index("id")["children"]
    for request in chat.calls[1]:
        assert list(children[request.row_id])
        assert any(
            titles[child] in request.messages[0]["content"] for child in children[request.row_id]
        )
    assert {levels[request.row_id] for request in chat.calls[0]} >= {0, 1}


def test_a_sub_community_without_a_report_is_a_reject_and_missing_above():
    prose = ChatReply("A story about a town.")
    chat = Scripted(lambda prompt, turn: GOOD if "Reports" in prompt or "a1," in prompt else prose)
    communities, reports, rejects = run(chat, towns(), words=40, max_input_tokens=500, repair=False)
    assert set(rejects["reason"]) == {"parse"}
    assert set(rejects["kind"]) == {"row"}
    assert set(reports["id"]) | set(rejects["row_id"]) == set(communities["id"])
    assert not set(reports["id"]) & set(rejects["row_id"])


@pytest.mark.parametrize(
    ("bad", "words"), [(ChatReply("Prose."), "Write the same"), (CUT, "half as many words")]
)
def test_a_bad_reply_is_asked_for_once_more(bad: ChatReply, words: str):
    chat = Scripted(lambda prompt, turn: bad if turn == 1 else GOOD)
    _, reports, rejects = run(chat, nx.DiGraph([("Ann", "Bob")]))
    assert len(reports) == 1
    assert rejects[["kind", "reason"]].to_numpy().tolist() == [
        ["recovered", "truncated" if bad is CUT else "parse"]
    ]
    first, second = chat.calls[0]
    assert words in second.messages[-1]["content"]
    assert second.mends is first
    assert first.check is not None
    assert first.check("Prose.")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="timeout", message="no answer"), "timeout"),
        (ChatReply(""), "empty"),
        (ChatReply("I'm sorry, I can't help with that."), "refusal"),
        (ChatReply("Prose."), "parse"),
        (CUT, "truncated"),
    ],
)
def test_a_community_whose_reply_is_of_no_use_is_a_reject(reply: ChatReply, reason: str):
    chat = Scripted(lambda prompt, turn: reply)
    communities, reports, rejects = run(chat, nx.DiGraph([("Ann", "Bob")]))
    assert reports.empty
    assert rejects[["row_id", "kind", "reason"]].to_numpy().tolist() == [
        [communities["id"][0], "row", reason]
    ]
    assert len(chat.calls[0]) == 1 + (reason in ("parse", "truncated"))


def test_a_report_without_a_title_has_its_communitys():
    chat = Scripted(lambda prompt, turn: ChatReply('{"summary": "People."}'))
    communities, reports, _ = run(chat, nx.DiGraph([("Ann", "Bob")]))
    assert list(reports["title"]) == list(communities["title"]) == ["Ann, Bob"]


def test_the_schema_is_sent_on_request():
    for structured in (False, True):
        chat = Scripted()
        run(chat, nx.DiGraph([("Ann", "Bob")]), structured=structured)
        assert (chat.calls[0][0].response_format is not None) is structured


def test_claims_are_weighed_and_a_community_without_any_is_asked_in_the_same_words():
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob"), ("Cid", "Dan")]))
    communities, _ = detect_communities(entities, relationships)
    plain, claimed = Scripted(), Scripted()
    asked = ReportParams(), PROMPT
    report_communities(communities, entities, relationships, *asked, plain, tokenizer("o200k_base"))
    told = claims(("Ann", "", "owes"))
    report_communities_with_claims(
        communities, entities, relationships, told, *asked, claimed, tokenizer("o200k_base")
    )
    assert len(set(plain.prompts) & set(claimed.prompts)) == 1
    (with_claim,) = set(claimed.prompts) - set(plain.prompts)
    assert "Ann,,DEBT,TRUE,1871,,owes" in with_claim
    none = Scripted()
    report_communities_with_claims(
        communities,
        entities,
        relationships,
        COVARIATES.frame(),
        *asked,
        none,
        tokenizer("o200k_base"),
    )
    assert none.prompts == plain.prompts


def test_a_report_has_the_text_units_of_all_its_facts():
    """Check a claim of a text unit that does not mention its entity."""
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob"), ("Cid", "Dan")]))
    communities, _ = detect_communities(entities, relationships)
    relationships = relationships.assign(
        text_unit_ids=[[f"of {name}"] for name in relationships["source"]]
    )
    told = claims(("Ann", "Cid", "owes"), ("nobody", "Bob", "paid")).assign(
        text_unit_id=["secret", "letter"]
    )
    asked = ReportParams(), PROMPT, Scripted(), tokenizer("o200k_base")
    found, _ = report_communities_with_claims(communities, entities, relationships, told, *asked)
    plain, _ = report_communities(communities, entities, relationships, *asked)
    known = {unit for units in communities["text_unit_ids"] for unit in units}
    assert sorted(sorted({*units} - known) for units in plain["text_unit_ids"]) == [
        ["of Ann"],
        ["of Cid"],
    ]
    assert sorted(sorted({*units} - known) for units in found["text_unit_ids"]) == [
        ["letter", "of Ann", "secret"],
        ["of Cid"],
    ]
    assert found["weight"].equals(plain["weight"])


def test_without_communities_the_model_is_not_called():
    chat = Scripted()
    empty = (COMMUNITIES.frame(), ENTITIES.frame(), RELATIONSHIPS.frame())
    reports, rejects = report_communities(
        *empty, ReportParams(), PROMPT, chat, tokenizer("o200k_base")
    )
    assert chat.calls == []
    assert reports.empty
    assert rejects.empty


@pytest.mark.parametrize(
    ("text", "expected"), [("content", "# A town"), ("summary", "People."), ("title", "A town")]
)
def test_params_choose_the_text_of_a_report_that_is_embedded(text, expected: str):
    _, reports, _ = run(Scripted(), nx.DiGraph([("Ann", "Bob")]))
    texts: pd.DataFrame = compose_report_texts(reports, ReportTextParams(text=text))
    assert [line.split("\n")[0] for line in texts["text"]] == [expected]
    assert list(texts["id"]) == list(reports["id"])
