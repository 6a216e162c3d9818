"""What a notebook shows: one SVG in which names and texts are text, and the places of what it
shows."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import UsageError
from pipeline.export.picture import (
    MOST_NODES,
    Picture,
    draw_picture,
    find_entity,
    find_neighbourhood,
)
from pipeline.export.source import ExportSource
from tests.export.hostile import HOSTILE, hostile_tables, source_of
from tests.load.tables import corpus

SVG = "{http://www.w3.org/2000/svg}"
MARKUP = [
    "</title><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onload="alert(1)',
    "' onmouseover='alert(1)",
    "&lt;b&gt; ]]> -->",
    "{{ 7 * 7 }} {% raw %}",
    "javascript:alert(1)",
    "![x](https://example.org/?secret)",
]


def ring(names: list[str], root: Path, placed: bool) -> ExportSource:
    """Each name is a type and a keyword too, and related to the next."""
    links = list(zip(names, [*names[1:], names[0]], names, strict=True))
    tables = corpus(
        {"a.txt": "text"},
        dict(zip(names, names, strict=True)),
        [(one, two, [word]) for one, two, word in links],
    )
    if not placed:
        del tables["placed_nodes"]
    return source_of(tables, root)


def drawn(picture: Picture) -> ET.Element:
    return ET.fromstring(picture._repr_html_())


@pytest.mark.parametrize("names", [MARKUP, HOSTILE], ids=["markup", "hostile"])
def test_names_and_texts_are_escaped(names: list[str], tmp_path: Path):
    source = ring(names, tmp_path, placed=False)
    entity = find_entity(source, names[0]) or ""
    picture = draw_picture(source, find_neighbourhood(source, entity, 99), names[0], 100, entity)
    shown = drawn(picture)
    assert {element.tag.removeprefix(SVG) for element in shown.iter()} == {
        "svg", "title", "rect", "g", "line", "circle", "text",
    }  # fmt: skip
    attributes = {name for element in shown.iter() for name in element.attrib}
    assert not {
        name
        for name in attributes
        if name.startswith("on") or name.endswith("href") or name == "style"
    }
    told = "\n".join(element.text or "" for element in shown.iter(f"{SVG}title"))
    kept = [name.replace("\ufffe", "").replace("\uffff", "") for name in names]
    assert all(name in told for name in kept)
    assert len(list(shown.iter(f"{SVG}circle"))) == len(names) + len(
        names[:9]
    )  # and the legend: 8, and others


def test_a_layout_is_reproducible_and_inside_the_picture(tmp_path: Path):
    source = ring([f"Name {number}" for number in range(30)], tmp_path, placed=False)
    entity = find_entity(source, "Name 3") or ""
    ids = find_neighbourhood(source, entity, 2)
    one, two = (draw_picture(source, ids, "it", 100, entity) for _ in range(2))
    assert one.svg == two.svg
    for spot in drawn(one).iter(f"{SVG}circle"):
        assert 0 <= float(spot.attrib["cx"]) <= 960
        assert 0 <= float(spot.attrib["cy"]) <= 600


def test_nodes_are_drawn_where_a_layout_has_placed_them(tmp_path: Path):
    names = [f"Name {number}" for number in range(10)]
    source = ring(names, tmp_path, placed=True)
    ids = [find_entity(source, name) or "" for name in names[:3]]
    graph = draw_picture(source, ids, "it", 100).graph
    assert [(graph.nodes[id]["x"], graph.nodes[id]["y"]) for id in ids] == [
        (0, 0),
        (0.1, -0.1),
        (0.2, -0.2),
    ]
    last = find_entity(source, names[-1]) or ""  # has no place: all are laid out
    graph = draw_picture(source, [*ids, last], "it", 100).graph
    assert all(-1 <= graph.nodes[id][axis] <= 1 for id in [*ids, last] for axis in "xy")
    assert graph.nodes[ids[1]]["x"] != 0.1


def test_a_neighbourhood_has_the_nearest_first_and_a_limit(tmp_path: Path):
    names = [f"Name {number}" for number in range(20)]
    source = ring(names, tmp_path, placed=False)
    ids = {name: find_entity(source, name) or "" for name in names}
    found = find_neighbourhood(source, ids["Name 5"], 2)
    assert found[0] == ids["Name 5"]
    assert set(found[1:3]) == {ids["Name 4"], ids["Name 6"]}
    assert set(found[3:]) == {ids["Name 3"], ids["Name 7"]}
    picture = draw_picture(source, found, "it", 3, ids["Name 5"])
    assert set(picture.graph) == set(found[:3])
    assert picture.left_out == 2
    assert "2 more are not shown" in picture.svg
    with pytest.raises(UsageError, match=r"draw 1 to 500 entities, or take project\.graph"):
        draw_picture(source, found, "it", MOST_NODES + 1)


def test_the_heavier_neighbours_come_first(tmp_path: Path):
    tables = corpus(
        {"a.txt": "text"},
        dict.fromkeys(["hub", "a", "b", "c"], "thing"),
        [("hub", name, []) for name in "abc"],
    )
    tables["relationships"].loc[tables["relationships"]["target"] == "b", "weight"] = 5.0
    source = source_of(tables, tmp_path)
    assert find_neighbourhood(source, find_entity(source, "hub") or "", 1)[1] == find_entity(
        source, "b"
    )


def test_only_the_chosen_relationships_are_drawn(tmp_path: Path):
    source = ring(["a", "b", "c"], tmp_path, placed=False)
    ids = [find_entity(source, name) or "" for name in "abc"]
    all_of_them = draw_picture(source, ids, "it", 100).graph
    one = next(told for *_, told in all_of_them.edges(data="id"))
    assert [
        told
        for *_, told in draw_picture(source, ids, "it", 100, relationship_ids={one}).graph.edges(
            data="id"
        )
    ] == [one]


def test_a_picture_without_entities_says_so_and_an_unknown_name_is_not_found(tmp_path: Path):
    picture = draw_picture(source_of(hostile_tables(), tmp_path), [], "What?", 100)
    assert "No entities to show" in picture.svg
    assert find_entity(source_of(hostile_tables(), tmp_path), "Nobody") is None


def test_an_entity_of_a_graph_without_relationships_is_drawn_alone(tmp_path: Path):
    source = source_of(corpus({"a.txt": "text"}, {"Ada": "person"}, []), tmp_path)
    entity = find_entity(source, "Ada") or ""
    assert find_neighbourhood(source, entity, 2) == [entity]


def test_a_chosen_relationship_is_drawn_beside_a_parallel_one(tmp_path: Path):
    tables = corpus({"a.txt": "text"}, dict.fromkeys("ab", "thing"), [("a", "b", ["knows"])])
    first = tables["relationships"]
    second = first.assign(id="rel-other")
    tables["relationships"] = pd.concat([first, second], ignore_index=True)
    source = source_of(tables, tmp_path)
    ids = [find_entity(source, name) or "" for name in "ab"]
    for chosen in tables["relationships"]["id"]:
        graph = draw_picture(source, ids, "it", 100, relationship_ids={chosen}).graph
        assert [id for *_, id in graph.edges(data="id")] == [chosen]
