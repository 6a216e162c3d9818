from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.prompts import Prompt
from pipeline.contract.schemas import (
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    RESOLUTIONS,
)
from pipeline.errors import SettingsError
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.text.ids import entity_id, relationship_id
from pipeline.verbs.merge_graphs import merge_graphs
from pipeline.verbs.resolve_entities import ResolveParams, resolve_entities
from tests.query.memory_stores import LetterEmbedding
from tests.servers.openai_replies import verdicts
from tests.sizes import size
from tests.talking import converse
from tests.verbs.graphs import Record, entity, extractions, link

SCHEMAS = {
    "entities": MERGED_ENTITIES,
    "relationships": MERGED_RELATIONSHIPS,
    "mentions": MENTIONS,
    "resolutions": RESOLUTIONS,
    "rejects": REJECTS,
}
Units = Mapping[str, Sequence[Record]]
JUDGE = Prompt("judge", "Pairs:\n$pairs")


class Judge:
    """A ChatModel that ``answers``; ``asked`` are its prompts."""

    def __init__(self, answer: Callable[[str], str] = verdicts) -> None:
        self.answer, self.asked = answer, list[str]()

    def converse(self, talks: Any, listener: Any = None, repeats: Any = None) -> list[Any]:
        return converse(talks, self._reply)

    def _reply(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request.messages[-1]["content"])
        return ChatReply(self.answer(self.asked[-1]))


def tables(
    units: Units, args: ResolveParams = ResolveParams(), turned: bool = False, **roles: Any
) -> dict[str, Any]:
    extracted, text_units = extractions(units)
    given = (*merge_graphs(extracted, text_units)[:3], text_units[["id", "document_id", "order"]])
    if turned:
        given = tuple(frame.iloc[::-1].reset_index(drop=True) for frame in given)
    made = resolve_entities(*given, args, **roles)
    return {
        name: schema.encode(frame, name)
        for (name, schema), frame in zip(SCHEMAS.items(), made, strict=True)
    }


def resolved(
    units: Units, args: ResolveParams = ResolveParams(), **roles: Any
) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in tables(units, args, **roles).items()}


def org(name: str, **more: Any) -> Record:
    return entity(name, "ORGANIZATION", **more)


def names(graph: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    return sorted(row["name"] for row in graph["entities"])


def decisions(graph: Mapping[str, list[dict[str, Any]]]) -> list[tuple[str, ...]]:
    return [
        (*sorted((row["left"], row["right"])), row["decision"], row["rule"], row["by"])
        for row in graph["resolutions"]
    ]


ACME = {
    "d/0": [org("Acme Inc.", description="makes traps"), link("Acme Inc.", "Coyote", "sells to",
        ["sale"], 2)],
    "d/1": [org("Acme", description="makes anvils"), link("ACME", "Coyote", "sends", ["post",
        "sale"], 3)],
    "d/2": [org("Acme"), link("Coyote", "Acme Inc.", "pays", weight=1)],
}  # fmt: skip


def test_joined_entities_merge_as_if_they_had_one_name():
    graph = resolved(ACME)
    acme = next(row for row in graph["entities"] if row["name"] == "Acme")
    assert names(graph) == ["Acme", "Coyote"]
    assert acme["id"] == entity_id("Acme")
    assert acme["text_unit_ids"] == ["d/0", "d/1", "d/2"]
    assert acme["frequency"] == 3
    assert acme["types"] == [{"type": "ORGANIZATION", "count": 3}]
    assert acme["descriptions"] == ["makes traps", "makes anvils"]
    to, back = sorted(graph["relationships"], key=lambda row: row["target"], reverse=True)
    assert to["id"] == relationship_id(entity_id("Acme"), entity_id("Coyote"))
    assert (to["source"], to["weight"], to["text_unit_ids"]) == ("Acme", 5.0, ["d/0", "d/1"])
    assert (to["descriptions"], to["keywords"]) == (["sells to", "sends"], ["post", "sale"])
    assert back["source"] == "Coyote"
    assert [
        (row["text_unit_id"], row["frequency"])
        for row in graph["mentions"]
        if row["entity_id"] == acme["id"]
    ] == [
        ("d/0", 1),
        ("d/1", 1),
        ("d/2", 2),
    ]
    assert decisions(graph) == [("Acme", "Acme Inc.", "merge", "legal form", "rule")]


def test_the_commonest_name_is_kept_and_ties_go_to_the_smallest():
    assert names(resolved({"d/0": [org("Acme Inc.")], "d/1": [org("Acme Inc."), org("Acme")]})) == [
        "Acme Inc."
    ]
    assert names(resolved({"d/0": [org("Acme Inc."), org("Acme")]})) == ["Acme"]


def test_a_relationship_whose_ends_become_one_is_a_reject():
    graph = resolved({"d/0": [org("Acme"), org("Acme Inc."), link("Acme", "Acme Inc.")]})
    assert graph["relationships"] == []
    assert [(row["kind"], row["reason"]) for row in graph["rejects"]] == [("record", "self_loop")]


def test_a_name_that_fits_two_joins_neither():
    companies = [org("Acme"), org("Acme Inc."), org("Acme Ltd.")]
    graph = resolved({"d/0": companies})
    assert names(graph) == ["Acme", "Acme Inc.", "Acme Ltd."]
    assert ("Acme", "Acme Inc.", "keep", "legal form", "cluster") in decisions(graph)
    assert ("Acme Inc.", "Acme Ltd.", "keep", "legal form", "rule") in decisions(graph)


def test_numbers_are_not_even_doubtful():
    graph = resolved(
        {"d/0": [entity("SR-2023-052", "ID"), entity("SR-2023-053", "ID")]},
        chat=Judge(),
        judge=JUDGE,
    )
    assert len(graph["entities"]) == 2
    assert graph["resolutions"] == []


def pinned(folder: Path, text: str) -> ResolveParams:
    (folder / "resolutions.csv").write_text(text, encoding="utf-8")
    return ResolveParams(root=str(folder))


def test_a_pin_overrules_the_rules(tmp_path: Path):
    assert names(resolved(ACME, pinned(tmp_path, "different,acme inc,Acme\n"))) == [
        "Acme",
        "Acme Inc.",
        "Coyote",
    ]
    graph = resolved(ACME, pinned(tmp_path, "same,Coyote,Acme\nsame,Nobody,Acme\n"))
    assert len(graph["entities"]) == 1
    assert ("Acme", "Coyote", "merge", "similarity", "person") in decisions(graph)


DOUBTFUL = {
    "d/0": [
        entity("Harbour of Quill", "PLACE", "a port"),
        entity("Harbour of Old Quill", "PLACE", "```old```"),
    ]
}
LOOSE = ResolveParams(similarity=0.7)


def test_the_model_judges_what_no_rule_decides():
    judge = Judge()
    graph = resolved(DOUBTFUL, LOOSE, chat=judge, judge=JUDGE)
    assert names(graph) == ["Harbour of Old Quill"]
    assert decisions(graph) == [
        ("Harbour of Old Quill", "Harbour of Quill", "merge", "similarity", "model")
    ]
    assert len(judge.asked) == 1
    assert "```" not in judge.asked[0]


def test_without_a_model_the_doubtful_stay_apart():
    assert decisions(resolved(DOUBTFUL, LOOSE)) == [
        ("Harbour of Old Quill", "Harbour of Quill", "keep", "similarity", "rule")
    ]


@pytest.mark.parametrize(
    "reply", ["I cannot help with that.", "1: perhaps", "1: same\n1: different", ""]
)
def test_a_pair_without_a_verdict_is_a_reject_and_stays_apart(reply: str):
    judge = Judge(lambda asked: reply)
    graph = resolved(DOUBTFUL, LOOSE, chat=judge, judge=JUDGE)
    assert len(graph["entities"]) == 2
    assert [row["kind"] for row in graph["rejects"]] == ["row"]
    assert len(judge.asked) == 2  # once more, as a repair


def test_pairs_that_verdicts_leave_open_are_asked_for():
    triple = [
        entity(name, "PLACE")
        for name in ("Harbour Quill", "Harbour Quill Old", "Harbour Quill Old Town")
    ]
    graph = resolved(
        {"d/0": triple}, ResolveParams(similarity=0.85), chat=(judge := Judge()), judge=JUDGE
    )
    assert len(judge.asked) == 2
    assert len(graph["entities"]) == 1


def test_a_verdict_stands_though_another_pair_has_none():
    places = [entity(f"Harbour of Quill {end}", "PLACE") for end in ("Point", "Pond", "Pont")]

    def answer(asked: str) -> str:  # the second reply names only what the first has left out
        return "1: same\n2: different" if asked.startswith("Pairs") else "3: different"

    graph = resolved(
        {"d/0": places}, ResolveParams(similarity=0.7, batch=100), chat=Judge(answer), judge=JUDGE
    )
    assert graph["rejects"] == []
    assert {row["by"] for row in graph["resolutions"]} <= {"model", "cluster"}


def test_a_pair_that_gets_its_verdict_later_is_no_reject():
    places = [entity(f"Harbour of Quill {end}", "PLACE") for end in ("Point", "Pond", "Pont")]

    def answer(asked: str) -> str:  # nothing of one pair, until it is all that is left
        lines = (
            verdicts(asked).replace("different", "same").splitlines()
            if asked.startswith("Pairs")
            else []
        )
        return "\n".join(lines if len(lines) == 1 else lines[1:]) or "nothing"

    graph = resolved(
        {"d/0": places}, ResolveParams(similarity=0.7, batch=100), chat=Judge(answer), judge=JUDGE
    )
    assert len(graph["entities"]) == 1
    assert graph["rejects"] == []


def test_vectors_propose_pairs_too():
    units = {"d/0": [entity("abcabc", "PLACE"), entity("cabcab", "PLACE")]}
    assert resolved(units)["resolutions"] == []
    found = decisions(resolved(units, embedding=LetterEmbedding()))
    assert [(rule, decision) for *_, decision, rule, _ in found] == [("embedding", "keep")]


def test_a_judge_needs_its_prompt():
    with pytest.raises(SettingsError, match="give both"):
        resolved(DOUBTFUL, chat=Judge())


NAMES = st.sampled_from(
    ["Acme", "Acme Inc.", "Acme Ltd", "ACME Corp.", "The Acme Corp", "Akme", "J. R. Vale",
        "John Roy Vale", "Müller",
     "Mueller", "Muller", "World War II", "World War 2", "Second World War", "WHO",
     "World Health Organization (WHO)",
     "World Health Organization"]
)  # fmt: skip
RECORDS = st.one_of(
    st.builds(
        entity,
        NAMES,
        st.sampled_from(["PERSON", "ORGANIZATION"]),
        st.sampled_from(["", "one", "two"]),
    ),
    st.builds(
        link,
        NAMES,
        NAMES,
        st.sampled_from(["", "x", "y"]),
        st.lists(st.sampled_from("kl"), max_size=2),
    ),
)
UNITS = st.dictionaries(
    st.sampled_from(["a/0", "a/1", "b/0", "c/0"]), st.lists(RECORDS, max_size=6)
)


@settings(max_examples=size(12, 100))
@given(UNITS)
def test_rows_keep_their_order_hidden_and_no_weight_or_mention_is_lost(units: Units):
    made = tables(units, chat=Judge(), judge=JUDGE)
    assert made == tables(units, turned=True, chat=Judge(), judge=JUDGE)
    merged = merge_graphs(*extractions(units))
    ids = set(made["entities"]["id"].to_pylist())
    links, loops = made["relationships"].to_pandas(), made["rejects"].to_pandas()
    loop_rows = merged[1][merged[1]["id"].isin(loops["row_id"])]
    assert links["weight"].sum() + loop_rows["weight"].sum() == pytest.approx(
        merged[1]["weight"].sum()
    )
    assert {*links["source_entity_id"], *links["target_entity_id"]} <= ids
    assert set(made["mentions"]["entity_id"].to_pylist()) <= ids
    assert made["mentions"].to_pandas()["frequency"].sum() == merged[2]["frequency"].sum()
    assert all(
        entity_id(name) == id
        for id, name in made["entities"].to_pandas()[["id", "name"]].itertuples(index=False)
    )
    united = set().union(*map(set, merged[0]["text_unit_ids"]))
    assert (
        set(
            pd.Series(made["entities"]["text_unit_ids"].to_pylist(), dtype=object)
            .explode()
            .dropna()
        )
        == united
    )
