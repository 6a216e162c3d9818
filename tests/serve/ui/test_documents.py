"""The view Documents: the list, one document, what is said and left out there; all as text, to each
key its own."""

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser

import httpx2
import pandas as pd
import pytest
from sqlalchemy import event

from pipeline.query.reading import Piece, marked, snippet
from pipeline.serve.ui import documents
from pipeline.stores.records import Entity
from pipeline.text.ids import entity_id
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, serving

HOSTILE = "<script>alert(1)</script> ![x](https://evil.example/?q=1) [click](javascript:alert(2))"
CANARY = "Zyxwane"
LIGHT = (
    "Mira Vale built the Harrow Light at Quill Point. Anselm Torr ground the lens of the Harrow"
    " Light."
)
ROWS = [
    {"id": "light", "title": "The light", "text": LIGHT, "year": 1871, "open": True},
    {
        "id": "hostile",
        "title": HOSTILE,
        "text": f"{HOSTILE} Mira Vale met Osric Hale.",
        "open": True,
        "kind": HOSTILE,
    },
    {
        "id": "ledger",
        "title": f"The {CANARY} ledger",
        "text": f"Mira Vale owed {CANARY} Trust a fortune.",
        "year": 1880,
    },
]
LONG = [
    f"Day {day}. Osric Hale crossed the Tollen Quay at hour {day}, and Wenna Marsh wrote it"
    " down.\n\n"
    for day in range(600)
]


class Page(HTMLParser):
    """What would run or load something, the addresses that links lead to, and the words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.words = ""
        self.marked: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.tags.append(tag)
        self.loaded += [
            value or "" for name, value in attrs if name == "src" or name.startswith("on")
        ]
        self.links += [has["href"] or ""] if tag == "a" and "href" in has else []

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(
        tmp_path_factory.mktemp("documents") / "p", postgres_url, {}, max_reject_ratio=1
    )
    folder.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    folder.write("log.txt", "".join(LONG))
    folder.write("empty.txt", "")
    text = "Café Tessing stands on the coast. Émile Torr owns it."
    (folder.root / "data" / "input" / "coast.txt").write_bytes(text.encode("latin-1"))
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def served(folder: ProjectFolder) -> Iterator[Serving]:
    reader = {"key": "o", "where": {"open": True}}
    keys = [
        f"serve.keys.reader={json.dumps(reader)}",
        "serve.keys.guest={key: g}",
        "serve.api_key=all",
    ]
    with folder.open(*keys) as project, serving(project) as served:
        yield served


@pytest.fixture
def look(served: Serving) -> Callable[..., Page]:
    def look(address: str, key: str = "all", status: int = 200) -> Page:
        answer = get(served, address, key)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    return look


def get(served: Serving, address: str, key: str = "all") -> httpx2.Response:
    return httpx2.get(
        f"{served.url}/{address}", headers={"Accept": "text/html", "x-api-key": key}, timeout=60
    )


def address_of(look: Callable[..., Page], words: str) -> str:
    """Of the one document that is found by these."""
    [found] = {
        link.split("?")[0]
        for link in look(f"documents?q={words}").links
        if link.startswith("documents/doc-")
    }
    return found


def test_documents_are_listed_by_title_and_found_by_what_they_are_called(look: Callable[..., Page]):
    page = look("documents")
    titles = [HOSTILE, "The light", f"The {CANARY} ledger"]
    assert [page.words.index(title) for title in titles] == sorted(
        page.words.index(title) for title in titles
    )
    assert "1 to 5 of 5 documents" in page.words
    found = look("documents?q=LIGHT")
    assert ("1 to 1 of 1 documents" in found.words, CANARY in found.words) == (True, False)
    assert "No document fits." in look("documents?q=nothing%20such").words


def test_the_list_is_filtered_by_metadata(look: Callable[..., Page]):
    assert "1 to 1 of 1 documents" in look("documents?where=year%20%3E%3D%201875").words
    assert CANARY in look("documents?where=year%20%3E%3D%201875").words
    assert "1 to 1 of 1" in look("documents?where=open%3Dtrue%0Ayear%3D1871").words
    assert "no condition" in look("documents?where=nonsense", status=422).words


def test_the_list_goes_on_from_page_to_page(
    look: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(documents, "DOCUMENTS", 3)
    assert [link for link in look("documents?q=t").links if "page=2" in link] == [
        "documents?q=t&in=names&where=&page=2"
    ]
    last = look("documents?page=2")
    assert "4 to 5 of 5" in last.words
    assert [link for link in last.links if "page=" in link] == [
        "documents?q=&in=names&where=&page=1"
    ]


def test_a_search_in_the_texts_leads_to_the_passage(look: Callable[..., Page]):
    page = look("documents?q=lens&in=texts")
    [link] = [link for link in page.links if link.startswith("documents/")]
    address, unit = link.split("#")
    assert address.endswith(f"?at={unit}")
    assert page.tags.count("mark") == 1
    opened = look(address)
    assert LIGHT in opened.words
    assert "The passage that was asked for" in opened.words


def test_a_document_shows_its_text_with_what_it_mentions_and_what_is_said(
    look: Callable[..., Page],
):
    page = look(address_of(look, "light"))
    assert LIGHT in page.words
    assert f"../graph?entity={entity_id('Mira Vale')}" in page.links
    assert "1871" in page.words
    assert re.search(r"Said here: \d+ relationships", page.words)
    assert re.search(r"Mira Vale → Harrow Light", page.words)
    assert f"../graph?document={address_of(look, 'light').removeprefix('documents/')}" in page.links


def test_a_long_document_is_shown_in_parts_in_order(
    look: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(documents, "UNITS", 2)
    monkeypatch.setattr("pipeline.query.reading.UNITS", 2)
    address = address_of(look, "log")
    first, second = look(address), look(f"{address}?page=2")
    assert re.search(r"Text units 1 to 2 of 20", first.words)
    assert first.words.index("Day 0.") < first.words.index("Day 9.")
    assert "Text units 3 to " in second.words
    [unit] = [link.split("#")[1] for link in second.links if link.startswith("?at=")][:1]
    there = look(f"{address}?at={unit}").words
    assert ("Text units 3 to " in there, "The passage that was asked for" in there) == (True, True)


def test_whatever_a_document_says_is_text(served: Serving, look: Callable[..., Page]):
    for address in (
        "documents",
        "documents?q=alert",
        "documents?q=Osric&in=texts",
        address_of(look, "hostile"),
    ):
        page, plain = look(address), get(served, address).text
        assert HOSTILE.split(" ", maxsplit=1)[0] in page.words
        assert "<script>alert" not in plain
        assert all(source.startswith(("./assets/", "../assets/")) for source in page.loaded), (
            address
        )
        assert not [
            link for link in page.links if "javascript:" in link or link.startswith("http")
        ], address
        assert "img" not in page.tags
        assert (
            unescape(plain).count("https://evil.example") == plain.count("https://evil.example") > 0
        )


def test_what_the_run_says_of_a_document_stands_at_it(look: Callable[..., Page]):
    page = look(address_of(look, "coast"))
    assert "Left out of it" in page.words
    assert "load_documents: encoding_guessed: coast.txt" in page.words
    assert "Left out" not in look(address_of(look, "light")).words


def test_what_was_left_out_of_a_text_unit_stands_there_and_what_the_run_said_only_for_the_operator(
    look: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
):
    address = address_of(look, "light")
    unit = re.findall(r"chunk-[0-9a-f]+", " ".join(look(address).links))[0]
    reject = ("extract_graph", unit, "record", "ungrounded", "/srv/secret: a name")
    frame = pd.DataFrame([reject], columns=["step", "row_id", "kind", "reason", "message"])
    monkeypatch.setattr("pipeline.engine.documents.document_list._read_columns", lambda *_: frame)
    page = look(address)
    assert "extract_graph: ungrounded: /srv/secret: a name" in page.words
    told = look(address, "g").words
    assert "extract_graph: ungrounded: a name that does not stand in its text" in told
    assert "/srv/secret" not in told
    told = look(address, "o").words
    assert "ungrounded" not in told
    assert "What was left out of it is not known here." in told


def test_what_is_not_there_is_not_found(look: Callable[..., Page]):
    assert "No such document" in look("documents/doc-none", status=404).words
    assert "No such document" in look("documents/%00%3Cb%3E", status=404).words


def test_a_key_sees_its_own_documents_alone(served: Serving, look: Callable[..., Page]):
    secret = address_of(look, "ledger")
    unit = next(
        link for link in look("documents?q=fortune&in=texts").links if link.startswith(secret)
    ).split("#")[1]
    opened = address_of(look, "light")
    asked = [
        "documents", "documents?q=ledger", f"documents?q={CANARY.lower()[:4]}&in=texts",
        "documents?q=fortune&in=texts",
        "documents?q=owed%20trust%20Mira&in=texts", "documents?where=open%20%21%3D%20true",
        "documents?where=year%3D1880", "documents?page=2", secret, f"{secret}?at={unit}",
        f"{opened}?at={unit}", opened,
        address_of(look, "hostile"),
        f"documents?q={secret.removeprefix('documents/')}",
    ]  # fmt: skip
    for address in asked:
        answer = get(served, address, "o")
        told = answer.text.replace(f'value="{CANARY.lower()[:4]}"', "")
        assert CANARY.lower() not in told.lower(), address
        assert "ledger" not in told.replace('value="ledger"', "").replace("q=ledger", ""), address
    assert get(served, secret, "o").status_code == 404
    assert LIGHT in look(opened, "o").words
    assert not [link for link in look(opened, "o").links if "graph" in link]
    assert "1 to 2 of 2 documents" in look("documents", "o").words
    assert get(served, "documents", "").status_code in (303, 401)


def test_a_page_costs_the_same_round_trips_whatever_is_on_it(
    folder: ProjectFolder, look: Callable[..., Page]
):
    with folder.open() as project, serving(project) as counted:
        statements: list[str] = []
        engine = project.stores.vectors.engine  # pyright: ignore[reportAttributeAccessIssue]
        event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))

        def cost(address: str) -> int:
            statements.clear()
            assert httpx2.get(f"{counted.url}/{address}", timeout=60).status_code == 200
            return len(statements)

        cost("documents")
        few, many = map(cost, [address_of(look, "light"), address_of(look, "log")])
        assert few == many <= 12
        assert cost("documents") == cost("documents?q=light") <= 6


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("Mira Vale, mira  vale.", ["Mira Vale"], [("Mira Vale", 0), (", ", None), ("mira  vale",
            0), (".", None)]),
        ("Vales of Vale", ["Vale"], [("Vales of ", None), ("Vale", 0)]),
        ("New York City", ["York", "New York City"], [("New York City", 1)]),
        ("林晚樵住在灯塔", ["灯塔"], [("林晚樵住在", None), ("灯塔", 0)]),
        ("C++ (x) [a", ["C++", "(x)", "[a"], [("C++", 0), (" ", None), ("(x)", 1), (" ", None),
            ("[a", 2)]),
        ("nothing", [" "], [("nothing", None)]),
    ],
)  # fmt: skip
def test_names_are_marked_in_a_text(
    text: str, names: list[str], expected: list[tuple[str, int | None]]
):
    entities = [Entity(f"ent-{name}", name, "", "", 1, []) for name in names]
    pieces = marked(text, entities)
    assert pieces == [
        Piece(part, None if place is None else entities[place]) for part, place in expected
    ]


def test_a_snippet_is_cut_around_the_first_word_that_was_asked_for():
    text = "far " * 300 + "a light and lights " + "away " * 300
    pieces = snippet(text, "Light?")
    assert [piece for piece, is_word in pieces if is_word] == ["light", "lights"]
    assert (pieces[0], pieces[-1]) == (("… ", False), (" …", False))
    assert "".join(piece for piece, _ in pieces[1:-1]) in text
    assert snippet("short", "none") == [("short", False)]
