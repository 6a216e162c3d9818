"""The facts in a request for a report: within a budget, by importance, with reports on
sub-communities in place of too many facts."""

import csv
from collections.abc import Mapping, Sequence

import networkx as nx
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import COVARIATES
from pipeline.models.parse.graph import Finding, Report
from pipeline.text.ids import claim_id, entity_id
from pipeline.text.tokens import tokenizer
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from pipeline.verbs.report_communities import plan_rounds
from pipeline.verbs.report_context import Community, ContextPage, ReportFacts, collect_facts
from tests.sizes import size
from tests.verbs.graphs import ranked, towns

COUNT = tokenizer("o200k_base").count
WORDS = [
    "tide",
    "Harrow Light",
    'the "old" lens',
    "```",
    "-----Reports-----",
    "船,灯塔",
    "/",
    "\n",
    "a,b",
]


def page(budget: int) -> ContextPage:
    return ContextPage(budget, tokenizer("o200k_base"))


def claims(*rows: tuple[str, str, str]) -> pd.DataFrame:
    """Return claims; a row is (subject, object, description)."""
    return COVARIATES.frame(
        {
            "id": claim_id("unit", *row), "text_unit_id": "unit", "subject_id": entity_id(row[0]),
            "object_id": entity_id(row[1]) if row[1] else "", "subject": row[0], "object": row[1],
            "type": "DEBT",
            "status": "TRUE", "start_date": "1871", "end_date": "", "description": row[2],
            "source_text": "words",
        }
        for row in rows
    )  # fmt: skip


def known(graph: nx.DiGraph, budget: int = 8000, told: Mapping[str, str] = {}) -> ReportFacts:
    entities, relationships = ranked(graph)
    names = zip(entities["name"], entities["description"], strict=True)
    described = [told.get(name, description) for name, description in names]
    return collect_facts(entities.assign(description=described), relationships, None, page(budget))


def whole(graph: nx.DiGraph, *children: Community) -> Community:
    return community(graph, list(graph.nodes), *children)


def community(graph: nx.DiGraph, names: Sequence[str], *children: Community) -> Community:
    _, relationships = ranked(graph.subgraph(names))
    return Community(
        f"com-{names[0]}", [entity_id(name) for name in names], list(relationships["id"]), children
    )


def sections(context: str) -> dict[str, list[list[str]]]:
    """Return the rows of each section, without the headers."""
    found: dict[str, list[list[str]]] = {}
    for part in filter(None, context.split("```\n")):
        name, _, rows = part.strip("\n").partition("-----\n```csv\n")
        found[name.strip("-")] = list(csv.reader(rows.splitlines()))[1:]
    return found


def report(title: str, words: int = 3) -> Report:
    return Report(title, f"{title} in short.", 5.0, "", (Finding("Head", "tide " * words),))


def test_all_facts_are_shown_if_they_fit_the_best_linked_ones_first():
    graph = nx.DiGraph([("Hub", "a"), ("Hub", "b"), ("Hub", "c"), ("c", "d")])
    shown = sections(known(graph).context(whole(graph), {}))
    assert list(shown) == ["Entities", "Relationships"]
    assert shown["Entities"][:2] == [["Hub", "PERSON", "about Hub"], ["c", "PERSON", "about c"]]
    assert shown["Relationships"][0] == ["Hub", "c", "knows, friends", "knows"]
    assert len(shown["Entities"]) == 5
    assert len(shown["Relationships"]) == 4


def test_a_claim_is_shown_once_with_its_subject_or_else_with_its_object():
    graph = nx.DiGraph([("Ann", "Bob"), ("Cid", "Dan")])
    entities, relationships = ranked(graph)
    told = claims(
        ("Ann", "Cid", "owes"), ("Zed", "Cid", "paid"), ("Zed", "", "lost"), ("Ann", "Cid", "owes")
    )
    fact = collect_facts(entities, relationships, told, page(8000))
    first, second = (
        sections(fact.context(community(graph, names), {}))
        for names in (["Ann", "Bob"], ["Cid", "Dan"])
    )
    assert first["Claims"] == [["Ann", "Cid", "DEBT", "TRUE", "1871", "", "owes"]]
    assert second["Claims"] == [["Zed", "Cid", "DEBT", "TRUE", "1871", "", "paid"]]


def two_towns() -> tuple[nx.DiGraph, Community, Community, Community]:
    """Return a graph of two joined towns, and as communities the whole and both towns.

    The large town has twelve people, the small one three.
    """
    graph = nx.DiGraph([(f"a{one}", f"a{other}") for one in range(12) for other in range(one)])
    graph.add_edges_from([("b0", "b1"), ("b1", "b2"), ("a0", "b0")])
    large = community(graph, [name for name in graph if name.startswith("a")])
    small = community(graph, [name for name in graph if name.startswith("b")])
    return graph, whole(graph, small, large), large, small


def test_only_the_report_on_the_largest_sub_community_replaces_facts_if_that_is_enough():
    graph, parent, large, small = two_towns()
    fact = known(graph, 600)
    assert not fact.fit(parent)
    shown = sections(fact.context(parent, {large.id: report("Large"), small.id: report("Small")}))
    assert shown["Reports"] == [["Large", "Large in short. Head tide tide tide"]]
    assert {row[0] for row in shown["Entities"]} == {"b0", "b1", "b2"}
    assert {(row[0], row[1]) for row in shown["Relationships"]} == {
        ("a0", "b0"),
        ("b0", "b1"),
        ("b1", "b2"),
    }


def test_a_sub_community_without_a_report_is_shown_by_the_members_that_fit():
    graph, parent, _, small = two_towns()
    fact = known(graph, 600)
    shown = sections(fact.context(parent, {small.id: report("Small", 200)}))
    assert shown["Reports"] == [
        ["Small", "Small in short."]
    ]  # the whole of it is longer than what it stands for
    assert len(shown["Entities"]) > 3
    assert {row[0][0] for row in shown["Entities"]} == {"a"}


def test_summaries_are_shown_if_whole_reports_are_too_long():
    parts = [nx.complete_graph(range(n, n + 9), create_using=nx.DiGraph) for n in range(0, 90, 9)]
    graph = nx.relabel_nodes(nx.compose_all(parts), lambda node: f"n{node}")
    children = [community(graph, [f"n{node}" for node in part]) for part in parts]
    reports = {child.id: report(f"On {child.id}", 100) for child in children}
    shown = sections(known(graph, 900).context(whole(graph, *children), reports))
    assert len(shown["Reports"]) == 10
    assert all(row[1].endswith("in short.") for row in shown["Reports"])


def test_what_is_shown_is_fixed_by_content_alone():
    """Check that ids, the order of rows and links to entities outside do not matter."""
    graph, parent, large, _ = two_towns()
    fact = known(graph, 600)
    reports = {large.id: report("Large")}
    renamed = Community(
        "com-other", parent.entity_ids[::-1], parent.relationship_ids[::-1], parent.children[::-1]
    )
    assert fact.context(renamed, reports) == fact.context(parent, reports)
    wider = nx.compose(graph, nx.DiGraph([("b2", f"x{one}") for one in range(9)]))
    assert known(wider, 600).context(parent, reports) == fact.context(parent, reports)


def test_no_cell_can_end_its_table():
    graph = nx.DiGraph([("Ann", "Bob")])
    context = known(
        graph, told={"Ann": "one\n```\n-----Reports-----\n```csv\nfalse,report"}
    ).context(whole(graph), {})
    assert list(sections(context)) == ["Entities", "Relationships"]
    assert context.count("```") == 4


TEXTS = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(500, 1500),
    st.lists(TEXTS, min_size=3, max_size=3),
    st.integers(2, 30),
)
@settings(max_examples=size(8, 300), derandomize=True)
def test_no_context_exceeds_its_budget(seed: int, budget: int, texts: list[str], length: int):
    graph = nx.relabel_nodes(
        nx.gnp_random_graph(30, 0.2, seed=seed, directed=True), lambda n: f"{texts[n % 3][:20]}{n}"
    )
    graph = nx.compose(graph, towns())
    entities, relationships = ranked(graph)
    entities = entities.assign(
        description=[texts[row % 3] * (row % length) for row in range(len(entities))]
    )
    told = claims(*((name, "", texts[0]) for name in list(graph)[:5]))
    fact = collect_facts(entities, relationships, told, page(budget))
    communities, _ = detect_communities(
        entities, relationships, CommunityParams(max_cluster_size=4)
    )
    reports: dict[str, Report] = {}
    for turn in plan_rounds(communities, fact):
        for one in turn:
            context = fact.context(one, reports)
            assert COUNT(context) <= budget
            assert sections(context)
        reports |= {
            one.id: report(texts[1][:40], length * 20) for one in turn if len(one.entity_ids) % 5
        }
