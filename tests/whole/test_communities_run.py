"""Workflows with reports and claims: what a night costs after a change, and that it ends in a full
build."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.purge.test_purge import CANARY, found_in
from tests.servers.openai_replies import Messages, content_of, default_reply
from tests.servers.openai_server import OpenAIServer, Reply, Request
from tests.sizes import size
from tests.states import models, set_args, table_hashes


def ring(place: str, people: int) -> list[str]:
    """Sentences that join as many people in a ring, each to the next two."""
    return [
        f"{place} Number{one} met {place} Number{(one + 1) % people} and {place}"
        f" Number{(one + 2) % people} at the old sea wall, and they spoke for long about the price"
        " of oil, coal, salt and bread."
        for one in range(people)
    ]


HARBOUR, TOWER = ring("Harbour", 17), ring("Tower", 6)
SECRET = (
    f"Tower Number1 hid the {CANARY} Stone. Tower Number2 sold the {CANARY} Stone to Tower Number1."
)
DOCUMENTS = {
    "harbour.txt": " ".join(HARBOUR[:9]),
    "quay.txt": " ".join(HARBOUR[9:]),
    "tower.txt": " ".join(TOWER),
}
WORKFLOWS = ["communities", "claims"]


def new_folder(
    root: Path, endpoint: OpenAIServer, documents: Mapping[str, str], store: str = NO_STORE
) -> ProjectFolder:
    """Its reports have so little room that large communities are told of by their parts."""
    folder = new_project(root, store, documents, models=models(endpoint))
    for workflow in WORKFLOWS:
        set_args(
            folder, workflow,
            chunk_documents={"size": 60}, detect_communities={"max_cluster_size": 3},
            report_communities={"max_input_tokens": 500},
            report_communities_with_claims={"max_input_tokens": 500},
        )  # fmt: skip
    return folder


def is_report(request: Request) -> bool:
    return "rating_explanation" in str(request.messages)


def is_claim(request: Request) -> bool:
    return '("claim"' in str(request.messages)


def index(folder: ProjectFolder, workflow: str, endpoint: OpenAIServer) -> list[Request]:
    """The chat requests of a run."""
    endpoint.forget()
    with folder.open() as project:
        report = project.index(workflow)
        assert report.outcome in ("completed", "completed_with_rejects"), report
    return [request for request in endpoint.requests if request.kind == "chat"]


def ids(folder: ProjectFolder, workflow: str, table: str = "communities") -> set[str]:
    with folder.open() as project:
        return set(project.table(table, workflow)["id"])


@pytest.mark.parametrize("workflow", size(["communities"], WORKFLOWS))
def test_a_second_run_asks_nothing_and_an_edit_asks_about_its_own_communities_alone(
    tmp_path: Path, openai: OpenAIServer, workflow: str
):
    folder = new_folder(tmp_path / "p", openai, DOCUMENTS)
    first = index(folder, workflow, openai)
    communities = ids(folder, workflow)
    assert (
        sum(map(is_report, first))
        == len(communities)
        == len(ids(folder, workflow, "community_reports"))
        > 4
    )
    assert any("-----Reports-----" in str(request.messages) for request in first)
    assert any(map(is_claim, first)) is (workflow == "claims")
    assert index(folder, workflow, openai) == []
    folder.write("tower.txt", DOCUMENTS["tower.txt"].replace("Number2 met", "Number2 hit"))
    again = index(folder, workflow, openai)
    about = [str(request.messages) for request in again if is_report(request)]
    assert 0 < len(about) < len(communities)
    assert all("Tower Number" in words and "Harbour Number" not in words for words in about)
    assert not [request for request in again if request in first]


def test_a_changed_description_is_paid_for_by_the_communities_that_hold_it(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_folder(
        tmp_path / "p", openai, {f"{n}.txt": line for n, line in enumerate(HARBOUR)}
    )
    before = {words(request) for request in index(folder, "communities", openai)}
    members = ids(folder, "communities")
    folder.write("0.txt", HARBOUR[0].replace("old", "new"))
    reports = [request for request in index(folder, "communities", openai) if is_report(request)]
    assert ids(folder, "communities") == members
    with folder.open() as project:
        communities = project.table("communities", "communities").set_index("id")
        entities = project.table("entities", "communities").set_index("id")
    touched = {
        id
        for id, name in entities["name"].items()
        if name in ("Harbour Number0", "Harbour Number1")
    }
    holding = [id for id, held in communities["entity_ids"].items() if touched & set(held)]
    assert 0 < len(reports) <= len(holding) < len(communities)
    assert not {words(request) for request in reports} & before


def words(request: Request) -> str:
    return str(request.messages[0]["content"])


def keeping(
    root: Path, endpoint: OpenAIServer, documents: Mapping[str, str], store: str = NO_STORE
) -> ProjectFolder:
    """A community for each ring, whose report stands while less than half of it has changed."""
    folder = new_folder(root, endpoint, documents, store)
    set_args(
        folder, "communities",
        detect_communities={"max_cluster_size": 50, "resolution": 0.05},
        report_communities={"max_input_tokens": 8000, "keep_within": 0.5},
    )  # fmt: skip
    return folder


def test_a_report_stands_while_little_of_what_it_was_made_of_has_changed(
    tmp_path: Path, openai: OpenAIServer
):
    """However many nights the little comes in; the plan and the run say so, and a forced step
    refreshes all."""
    folder = keeping(tmp_path / "p", openai, DOCUMENTS)
    index(folder, "communities", openai)
    words, note, asked, standing = DOCUMENTS["tower.txt"], "", list[int](), list[int]()
    for number in range(6):
        words = words.replace(f"Number{number} met", f"Number{number} struck")
        folder.write("tower.txt", words)
        asked.append(sum(map(is_report, index(folder, "communities", openai))))
        with folder.open() as project:
            marks = project.table("rejects", "communities")
            standing.append(int((marks["kind"] == "unrefreshed").sum()))
            (note,) = project.trades("communities")
            assert f"of what it was made of has changed; {standing[-1]} row" in note
            assert note in (project.status() or {})["notes"]
        assert ids(folder, "communities", "community_reports") == ids(folder, "communities")
    assert {(0, 1), (1, 0)} == set(zip(asked, standing, strict=True))
    assert note in folder.report("plan", "communities")["notes"]
    forced = folder.report("index", "communities", "--force", "report_communities")
    assert "; 0 rows unrefreshed" in " ".join(forced["notes"])
    fresh = keeping(tmp_path / "fresh", openai, {**DOCUMENTS, "tower.txt": words})
    index(fresh, "communities", openai)
    with folder.open() as one, fresh.open() as other:
        assert table_hashes(one, "communities") == table_hashes(other, "communities")


def test_no_report_stands_after_a_purge(tmp_path: Path, openai: OpenAIServer, postgres_url: str):
    """Nor one that stood on what a document had said that was deleted long before."""
    folder = keeping(tmp_path / "p", openai, {**DOCUMENTS, "secret.txt": SECRET}, postgres_url)
    index(folder, "communities", openai)
    folder.delete("secret.txt")
    index(folder, "communities", openai)
    with folder.open() as project:
        assert CANARY in project.table("community_reports", "communities")["content"].str.cat()
        project.purge("secret.txt")
    assert found_in(folder.root, CANARY) == []


def test_the_claims_workflow_goes_on_from_the_communities_workflow(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_folder(tmp_path / "p", openai, DOCUMENTS)
    index(folder, "communities", openai)
    asked = index(folder, "claims", openai)
    assert {(is_report(request), is_claim(request)) for request in asked} == {
        (True, False),
        (False, True),
    }


def out_of_order(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """No report on the tower, and no claims from the quay, can be read."""
    words = content_of(messages[0])
    about = ("rating_explanation", "Tower Number"), ('("claim"', "Harbour Number12 met")
    lost = any(kind in words and name in words for kind, name in about)
    return Reply("Prose.") if lost else default_reply(messages, body)


def test_rejects_are_told_and_tried_again(tmp_path: Path, openai: OpenAIServer, postgres_url: str):
    folder = new_folder(tmp_path / "p", openai, DOCUMENTS, postgres_url)
    openai.reply = out_of_order
    index(folder, "claims", openai)
    with folder.open() as project:
        rejects = project.table("rejects", "claims")
        assert set(rejects["step"]) == {"extract_claims", "report_communities"}
        assert set(rejects["reason"]) == {"parse"}
        missing = ids(folder, "claims") - ids(folder, "claims", "community_reports")
        assert missing == set(rejects.loc[rejects["step"] != "extract_claims", "row_id"])
        openai.reply = default_reply
        openai.forget()
        kept = set(project.table("community_reports", "claims")["id"])
        project.index("claims")
        assert openai.requests == []  # as it is until it is asked for
        project.retry("claims")
        assert project.table("rejects", "claims").empty
        assert kept < ids(folder, "claims", "community_reports") == ids(folder, "claims")
        usage = project.usage()
        assert set(usage.loc[usage["step"] == "report_communities", "row_id"]) == ids(
            folder, "claims"
        )


@pytest.mark.parametrize("workflow", size(["claims"], WORKFLOWS))
def test_nothing_of_a_purged_document_is_left(
    tmp_path: Path, openai: OpenAIServer, postgres_url: str, workflow: str
):
    folder = new_folder(
        tmp_path / "purged", openai, {**DOCUMENTS, "secret.txt": SECRET}, postgres_url
    )
    index(folder, workflow, openai)
    with folder.open() as project:
        assert CANARY in project.table("community_reports", workflow)["content"].str.cat()
        assert project.purge("secret.txt").forgotten > 2
    assert found_in(folder.root, CANARY) == []
    index(folder, workflow, openai)  # a purge asks no model: the next run makes what is missing
    fresh = new_folder(tmp_path / "fresh", openai, DOCUMENTS)
    index(fresh, workflow, openai)
    with folder.open() as one, fresh.open() as other:
        assert table_hashes(one, workflow) == table_hashes(other, workflow)
    assert index(folder, workflow, openai) == []
