"""The data of the view Graph."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pipeline.text.ids import entity_id
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, serving
from tests.whole.test_resolution_run import MERGED, STEP

STATION = (
    "The Brack Institute stands in Tessing. Anselm Torr founded the Brack Institute. Mira Vale"
    " led it."
)
LIGHT = (
    "Mira Vale built the Harrow Light at Quill Point. Anselm Torr ground the lens of the Harrow"
    " Light."
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    folder = new_project(tmp_path_factory.mktemp("graph") / "p", postgres_url, {})
    folder.write("station.txt", STATION)
    folder.write("light.txt", LIGHT)
    with folder.open() as project:
        project.run("fast")
        with serving(project) as served:
            yield served


@pytest.fixture(scope="module")
def entities(served: Serving) -> dict[str, dict]:
    found = served.client.get("/ui/graph").json()["entities"]
    return {entity["name"]: entity for entity in found}


def test_without_communities_the_graph_opens_with_the_most_linked_entities(served: Serving):
    found = served.client.get("/ui/graph").json()
    degrees = [entity["degree"] for entity in found["entities"]]
    assert degrees == sorted(degrees, reverse=True)
    ids = {entity["id"] for entity in found["entities"]}
    assert found["relationships"]
    assert all(
        {link["source_entity_id"], link["target_entity_id"]} <= ids
        for link in found["relationships"]
    )
    assert found["communities"] == found["between"] == []


def test_an_entity_is_found_by_its_name_and_by_what_it_means(served: Serving, entities: dict):
    def names(**wanted: object) -> list[str]:
        answer = served.client.post("/ui/graph/find", json=wanted)
        return [entity["name"] for entity in answer.json()["entities"]]

    assert names(text="mira") == ["Mira Vale"]
    assert names(text="nobody of that name") == []
    assert set(names(text="lighthouse on the coast", by="meaning", limit=3)) <= set(entities)
    assert len(names(text="lighthouse on the coast", by="meaning", limit=3)) == 3
    assert served.client.post("/ui/graph/find", json={"text": " "}).status_code == 422
    assert served.client.get("/ui/graph/find").status_code == 405


def test_a_neighbourhood_is_what_leads_to_an_entity(served: Serving, entities: dict):
    id = entities["Mira Vale"]["id"]
    found = served.client.get("/ui/graph", params={"entity": id}).json()
    leading = [
        link
        for link in found["relationships"]
        if id in (link["source_entity_id"], link["target_entity_id"])
    ]
    assert len(leading) == entities["Mira Vale"]["degree"]
    few = served.client.get("/ui/graph", params={"entity": id, "limit": 1}).json()
    assert len(few["entities"]) == 2


def test_a_document_is_drawn_by_what_it_mentions(served: Serving, entities: dict):
    documents = {
        entry["source"]: entry["document_id"]
        for entry in served.ask("/query/data", mode="naive").json()["references"]
    }
    found = served.client.get("/ui/graph", params={"document": documents["station.txt"]}).json()
    names = {entity["name"] for entity in found["entities"]}
    assert {"Anselm Torr", "Brack Institute"} <= names
    assert not names & {"Harrow Light", "Quill Point"}
    assert found["of"] == len(names)
    listed = served.client.post("/ui/graph/documents", json={"text": "STATION"}).json()["documents"]
    assert listed == [{"id": documents["station.txt"], "title": found["document"]}]


def test_an_entity_is_told_with_where_it_is_said(served: Serving, entities: dict):
    told = served.client.get(
        "/ui/graph/entity", params={"id": entities["Harrow Light"]["id"]}
    ).json()
    assert told["entity"]["name"] == "Harrow Light"
    assert [unit["text"] for unit in told["said"]] == [LIGHT]
    assert told["passages"] == 1
    assert told["relationships"]
    link = served.client.get(
        "/ui/graph/relationship", params={"id": told["relationships"][0]["id"]}
    ).json()
    assert link["relationships"] == [told["relationships"][0]]
    assert link["said"] == told["said"]
    assert link["entity"] is None
    stated = [one for found in told["relationships"] for one in found["statements"]]
    assert stated
    assert {one["text_unit_id"] for one in stated} == {unit["id"] for unit in told["said"]}
    assert {one["title"] for one in stated} == {unit["title"] for unit in told["said"]}


def test_what_is_gone_is_not_found(served: Serving):
    for path in ("entity", "relationship"):
        assert (
            served.client.get(f"/ui/graph/{path}", params={"id": entity_id("Nobody")}).status_code
            == 404
        )
    empty = served.client.get("/ui/graph", params={"entity": entity_id("Nobody")}).json()
    assert not empty["entities"]
    assert not served.client.get("/ui/graph", params={"community": "com-none"}).json()["entities"]
    assert served.client.get("/ui/graph", params={"limit": 5000}).status_code == 422


@pytest.fixture(scope="module")
def resolving(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Its workflow makes communities and decides on names."""
    folder = new_project(tmp_path_factory.mktemp("graph") / "p", postgres_url, {})
    for number in range(4):
        folder.write(
            f"{number}.txt", f"{STATION} {LIGHT}".replace("Brack", ["Brack", "Bräck"][number % 2])
        )
        folder.write(
            f"far-{number}.txt", "Wen Oru sold Tessel Cup to Baron Hask. Baron Hask feared Wen Oru."
        )
    workflow = yaml.safe_load((folder.root / "workflows" / "fast.yaml").read_text(encoding="utf-8"))
    steps = workflow["steps"]
    place = next(number for number, step in enumerate(steps) if step["verb"] == "merge_graphs")
    steps[place]["outputs"] = MERGED
    steps.insert(
        place + 1,
        {name: value for name, value in STEP.items() if name not in ("prompts", "models")},
    )
    steps.append({"verb": "detect_communities"})
    (folder.root / "workflows" / "fast.yaml").write_text(yaml.safe_dump(workflow), encoding="utf-8")
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def resolved(resolving: ProjectFolder) -> Iterator[Serving]:
    with resolving.open() as project, serving(project) as served:
        yield served


def test_the_graph_opens_with_its_communities(resolved: Serving):
    found = resolved.client.get("/ui/graph").json()
    assert found["communities"]
    assert {community["level"] for community in found["communities"]} == {0}
    assert not found["entities"]
    ids = {community["id"] for community in found["communities"]}
    assert all({link["one_id"], link["other_id"]} <= ids for link in found["between"])
    largest = found["communities"][0]
    inside = resolved.client.get(
        "/ui/graph", params={"community": largest["id"], "entities": True}
    ).json()
    assert len(inside["entities"]) == inside["of"] == largest["size"]
    assert [community["id"] for community in inside["within"]] == [largest["id"]]
    few = resolved.client.get(
        "/ui/graph", params={"community": largest["id"], "entities": True, "limit": 1}
    ).json()
    assert (len(few["entities"]), few["of"]) == (1, largest["size"])


def test_an_entity_is_told_with_its_names_and_communities(resolved: Serving):
    [dot] = resolved.client.post("/ui/graph/find", json={"text": "brack institute"}).json()[
        "entities"
    ]
    told = resolved.client.get("/ui/graph/entity", params={"id": dot["id"]}).json()
    assert {dot["name"], *(one["name"] for one in told["names"]["merged"])} == {
        "Brack Institute",
        "Bräck Institute",
    }
    assert [community["level"] for community in told["communities"]] == list(
        range(len(told["communities"]))
    )
    assert told["communities"]


def test_other_names_are_told_in_the_projects_own_workspace_alone(resolving: ProjectFolder):
    home = resolving.open().settings.workspace
    with resolving.open(f"workspace={home}-two") as project:
        project.run("fast")
    key = f"serve.keys.both={{key: b, workspace: [{home}-two, {home}]}}"
    path = f"ui/graph/entity?id={entity_id('Brack Institute')}"
    with resolving.open(key) as project, serving(project) as served:
        served.client.headers["X-API-Key"] = "b"
        at_home, elsewhere = (
            served.client.get(f"/w/{name}/{path}").json() for name in (home, f"{home}-two")
        )
    assert at_home["names"]["merged"], at_home
    assert elsewhere == {**at_home, "names": None}


def test_the_page_has_a_canvas_and_a_list_that_says_the_same(served: Serving):
    page = served.client.get("/graph", headers={"Accept": "text/html"}).text
    for part in ('id="canvas"', 'id="nodes"', 'id="find"', 'id="details"', "graph.js"):
        assert part in page


def test_what_the_graph_opens_with_is_that_of_the_load_that_is_shown(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "p", postgres_url, {})
    folder.write("station.txt", STATION)
    with folder.open() as project:
        project.run("fast")
        with serving(project) as served:
            first = served.client.get("/ui/graph").json()
            assert served.client.get("/ui/graph").json() == first
            folder.write("light.txt", LIGHT)
            project.run("fast")
            assert len(served.client.get("/ui/graph").json()["entities"]) > len(first["entities"])


def test_the_frame_tells_of_the_run_that_is_loaded(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url, {})
    folder.write("station.txt", STATION)
    with folder.open() as project:
        loaded = project.run("fast").run_id
        folder.write("light.txt", LIGHT)
        assert project.index("fast").run_id > loaded
        with serving(project) as served:
            assert served.client.get("/ui/state").json()["loaded"]["run"] == loaded
