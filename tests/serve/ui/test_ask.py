"""The view Ask: what its page offers, and the passage that a citation opens."""

from collections.abc import Iterator, Sequence

import httpx2
import pytest

from pipeline.serve.ui.assets import read_assets
from pipeline.stores.records import TextUnit
from tests.projects import new_project
from tests.serve.serving import QUESTION, Serving, serving

LONG = "\n\n".join(
    f"Part {number}. " + f"The Brack Institute has a hall of number {number}. " * 60
    for number in range(5)
)
PAGE = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    keys = {
        "guest": {"key": "guest-key", "where": {"secret": False}, "modes": ["naive", "local"]},
        "all": {"key": "all"},
    }
    folder = new_project(
        tmp_path_factory.mktemp("ask") / "p", postgres_url, {}, serve={"keys": keys}
    )
    folder.write("long.txt", LONG)
    with folder.open() as project:
        project.run("fast")
        with serving(project) as served:
            served.client.headers["X-API-Key"] = "all"
            yield served


def units_around(served: Serving, unit: str, key: str = "all") -> httpx2.Response:
    return served.client.get("/ui/passage", params={"unit": unit}, headers={"X-API-Key": key})


def test_a_passage_is_shown_in_its_place(served: Serving):
    units = served.ask("/query/data", mode="naive", chunk_top_k=100).json()["chunks"]
    in_order = sorted(units, key=lambda unit: unit["start"])
    assert len(in_order) > 3
    for place, unit in enumerate(in_order):
        found = [TextUnit(**one) for one in units_around(served, unit["id"]).json()["units"]]
        assert [one.id for one in found] == [
            one["id"] for one in in_order[max(0, place - 1) : place + 2]
        ]
        assert all(LONG[one.start : one.end] == one.content for one in found)
    assert units_around(served, "chunk-unknown").status_code == 404


def test_who_may_not_see_a_document_sees_no_passage_of_it(served: Serving):
    [unit, *_] = served.ask("/query/data", mode="naive").json()["chunks"]
    assert units_around(served, unit["id"], "guest-key").status_code == 404
    assert units_around(served, unit["id"], "nobody").status_code == 401


@pytest.mark.parametrize(
    ("key", "modes"), [("all", {"naive", "graph", "drift"}), ("guest-key", {"naive"})]
)
def test_the_page_offers_what_may_be_asked_for(served: Serving, key: str, modes: Sequence[str]):
    page = served.client.get("/", headers={**PAGE, "X-API-Key": key}).text
    offered = {
        mode
        for mode in ("naive", "local", "graph", "drift", "bypass")
        if f'<option value="{mode}"' in page
    }
    assert set(modes) <= offered
    assert "bypass" not in offered  # no chat model
    assert offered == set(modes) or key == "all"
    assert QUESTION not in page


def test_what_the_view_loads_is_small(served: Serving):
    """At first, and with the graph of the evidence: all that its modules name."""
    assets = read_assets().files
    scripts = [name for name in assets if name.endswith(".js") and not name.startswith("vendor/")]
    first = [*scripts, "style.css", "ask.css", "vendor/marked.umd.js", "vendor/purify.min.js"]
    graph = [
        "vendor/sigma.min.js",
        "vendor/graphology.umd.min.js",
        "vendor/graphology-library.min.js",
    ]
    sizes = {name: len(assets[name].packed) for name in [*first, *graph]}
    assert sum(sizes[name] for name in first) < 100_000
    assert sum(sizes.values()) < 300_000
