"""An incremental run is a fresh run whose expensive rows are already known: whatever was added, edited, renamed and
deleted, tables and stores are those of a full build of what is there, and nothing is asked that was asked before."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.projects import ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_faults import canonical
from tests.servers.openai_replies import Messages, content_of, default_reply
from tests.servers.openai_server import OpenAIServer, Reply, Request
from tests.sizes import size
from tests.states import (
    empty_neo4j,
    empty_postgres,
    is_extraction,
    models,
    neo4j_rows,
    postgres_rows,
    postgres_versions,
    set_args,
    table_hashes,
)

ANCHOR = {"anchor.txt": "The Harbour of Quill\n\nMira Vale keeps the Harbour of Quill with Anselm Torr."}
SENTENCES = [
    "Mira Vale built the Harrow Light.",
    "Anselm Torr ground the lens of the Harrow Light.",
    "MIRA VALE studied at the Brack Institute under Anselm Torr.",
    "Idra Senn founded the Brack Institute before the Tollen Observatory.",
    "Idra Senn wrote to Mira Vale about the Harbour of Quill.",
    "Governor Pell paid Anselm Torr for the Tollen Observatory.",
    "The tide was out.",
]
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6).map(" ".join)
NAMES = ["a.txt", "b.txt", "c.md", "notes/a.txt", "notes/d.txt"]
RECORDS = ["r1", "r2", "r3"]
STEPS = 6
OF_COMMUNITIES = {"graphmill_reports", "graphmill_claims", "graphmill_communities"}
"""Tables that the workflow index leaves empty."""


class Nights(RuleBasedStateMachine):
    """Documents that change between runs; ``state`` says what stores hold, ``empty`` empties them."""

    def __init__(
        self,
        postgres_url: str,
        endpoint: OpenAIServer,
        stores: Mapping[str, Any],
        state: Callable[[str], object],
        empty: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.postgres_url, self.endpoint, self.stores = postgres_url, endpoint, stores
        self.state, self.empty = state, empty
        self.folder = TemporaryDirectory(prefix="nights-")
        self.documents: dict[str, str] = {}
        self.records: dict[str, str] = {}
        self.asked: Counter[bytes] = Counter()
        self.embedded: Counter[str] = Counter()

    @initialize()
    def first_night(self) -> None:
        self.nightly = self.project("nightly", ANCHOR)
        self.documents = dict(ANCHOR)
        self.run_nightly()

    @rule(name=st.sampled_from(NAMES), text=TEXTS)
    def add_or_edit(self, name: str, text: str) -> None:
        self.documents[name] = text

    @precondition(lambda self: len(self.documents) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        del self.documents[data.draw(st.sampled_from(sorted(self.documents)))]

    @precondition(lambda self: len(self.documents) > 1)
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def rename(self, data: st.DataObject, name: str) -> None:
        """At times over another document, as mv does."""
        old = data.draw(st.sampled_from(sorted(self.documents)))
        self.documents[name] = self.documents.pop(old)

    @rule(name=st.sampled_from(RECORDS), text=TEXTS)
    def write_record(self, name: str, text: str) -> None:
        self.records[name] = text

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def delete_record(self, data: st.DataObject) -> None:
        del self.records[data.draw(st.sampled_from(sorted(self.records)))]

    @rule()
    def night(self) -> None:
        self.run_nightly()

    @rule()
    def night_that_is_checked(self) -> None:
        self.check()

    def teardown(self) -> None:
        try:
            if self.documents:
                self.check()
        finally:
            self.folder.cleanup()

    def check(self) -> None:
        asked = self.run_nightly()
        assert self.run_nightly() == []
        fresh = self.project("fresh", self.corpus())
        needed = self.run(fresh)
        assert self.whole_state(self.nightly) == self.whole_state(fresh)
        assert {_words(request) for request in asked} <= {_words(request) for request in needed if request.messages}

    def corpus(self) -> dict[str, str]:
        rows = [f'{name},Record {name},"{text}"' for name, text in self.records.items()]
        table = {"table.csv": "\n".join(["id,title,text", *rows]) + "\n"} if rows else {}
        return {**self.documents, **table}

    def run_nightly(self) -> list[Request]:
        """Run on what is there; the chat requests that it made. None is made twice in the project's whole life."""
        documents = self.corpus()
        there = self.nightly.root / "data" / "input"
        for path in [path for path in there.rglob("*") if path.is_file()]:
            if path.relative_to(there).as_posix() not in documents:
                path.unlink()
        for name, text in documents.items():
            self.nightly.write(name, text)
        requests = self.run(self.nightly)
        self.asked.update(_words(request) for request in requests if request.kind == "chat")
        self.embedded.update(text for request in requests for text in request.inputs)
        assert max(self.asked.values(), default=0) <= 1
        assert max(self.embedded.values(), default=0) <= 1
        return [request for request in requests if request.kind == "chat"]

    def run(self, folder: ProjectFolder) -> list[Request]:
        self.endpoint.forget()
        with folder.open() as project:
            report = project.run("index")
        assert report.outcome == "completed", report
        return self.endpoint.requests

    def project(self, name: str, documents: Mapping[str, str]) -> ProjectFolder:
        """In a workspace that holds nothing, and with a cache of its own."""
        number = len(list(Path(self.folder.name).iterdir()))
        folder = Path(self.folder.name) / f"{number}"
        folder.mkdir()
        self.empty(name)
        project = new_project(
            folder / name, self.postgres_url, documents,
            stores=self.stores, models=models(self.endpoint),
        )  # fmt: skip
        project.edit_settings(workspace=name)
        set_args(project, chunk_documents={"size": 30}, summarize_descriptions={"max_tokens": 30})
        return project

    def whole_state(self, folder: ProjectFolder) -> tuple[object, object]:
        with folder.open() as project:
            return table_hashes(project), self.state(project.settings.workspace)


def _words(request: Request) -> bytes:
    return canonical(request.body)


def run_machine(machine: Callable[[], Nights], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def test_any_nights_end_in_a_full_build(postgres_url: str, openai: OpenAIServer):
    state, empty = partial(postgres_rows, postgres_url), partial(empty_postgres, postgres_url)
    run_machine(lambda: Nights(postgres_url, openai, {}, state, empty), examples=size(3, 200))


def test_any_nights_end_in_a_full_build_on_neo4j(postgres_url: str, openai: OpenAIServer, neo4j_address: Neo4jAddress):
    neo4j = {
        "uri": neo4j_address.uri, "user": neo4j_address.user,
        "password": neo4j_address.password, "database": neo4j_address.database,
    }  # fmt: skip

    def state(workspace: str) -> object:
        return postgres_rows(postgres_url, workspace), neo4j_rows(neo4j_address, workspace)

    def empty(workspace: str) -> None:
        empty_postgres(postgres_url, workspace)
        empty_neo4j(neo4j_address, workspace)

    stores = {"graph": "neo4j", "neo4j": neo4j}
    run_machine(lambda: Nights(postgres_url, openai, stores, state, empty), examples=size(1, 10))


@pytest.fixture
def long_document(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """A project that has built a document of 200 text units; the endpoint's ledger is empty again."""
    folder = new_project(tmp_path / "p", postgres_url, {"long.txt": " ".join(VOYAGES)}, models=models(openai))
    set_args(folder, chunk_documents={"size": 60})
    with folder.open() as project:
        project.run("index")
        assert len(project.table("text_units")) >= 200
    openai.forget()
    return folder


VOYAGES = [
    f"Captain Orla Venn of ship {number} sailed to Port {chr(65 + number % 26)}ella with {7 * number} barrels."
    for number in range(500)
]


def test_one_edited_sentence_costs_three_extractions_at_most(long_document: ProjectFolder, openai: OpenAIServer):
    edited = [*VOYAGES[:150], "Captain Orla Venn of ship 150 went home.", *VOYAGES[151:]]
    long_document.write("long.txt", " ".join(edited))
    with long_document.open() as project:
        project.run("index")
    assert 1 <= sum(map(is_extraction, openai.requests)) <= 3


def test_a_night_without_a_change_costs_nothing(long_document: ProjectFolder, openai: OpenAIServer, postgres_url: str):
    with long_document.open() as project:
        workspace = project.settings.workspace
        before = postgres_versions(postgres_url, workspace)
        assert {table for table, rows in before.items() if not rows} == OF_COMMUNITIES
        report = project.run("index")
    assert openai.requests == []
    assert report.totals["calls"] == 0
    assert postgres_versions(postgres_url, workspace) == before


def test_a_renamed_document_costs_no_call(long_document: ProjectFolder, openai: OpenAIServer):
    path = long_document.root / "data" / "input" / "long.txt"
    path.rename(path.with_name("renamed.txt"))
    with long_document.open() as project:
        project.run("index")
        assert list(project.table("documents")["source"]) == ["renamed.txt"]
    assert [openai.count("chat"), openai.count("embeddings")] == [0, 0]


ALIKE = "a person of whom the log of the harbour tells at great length, in many words, and more than once"
TOLD = {
    "first log": [
        f'("entity"<|>Mira Vale<|>person<|>Keeper of the light, {ALIKE}.)',
        f'("entity"<|>Anselm Torr<|>person<|>Grinder of lenses, {ALIKE}.)',
        '("entity"<|>Brack Institute<|>organization<|>A school.)',
        f'("relationship"<|>Mira Vale<|>Anselm Torr<|>She wrote to him, {ALIKE}.<|>letters<|>5)',
        '("relationship"<|>Anselm Torr<|>Brack Institute<|>He taught there.<|>teaching<|>5)',
    ],
    "second log": [
        f'("entity"<|>Mira Vale<|>person<|>Builder of the light, {ALIKE}.)',
        f'("entity"<|>Anselm Torr<|>person<|>Teacher of optics, {ALIKE}.)',
        f'("relationship"<|>Mira Vale<|>Anselm Torr<|>She was taught by him, {ALIKE}.<|>teaching<|>5)',
    ],
    "third log": [
        f'("entity"<|>MIRA VALE<|>{type}<|>Keeper of the light, {ALIKE}.)'
        for type in ("person", "keeper", "builder", "writer", "pupil")
    ],
}
"""What is extracted from each document: the third names an entity otherwise, more often than the others, and says
nothing new of it."""


def as_told(messages: Messages, body: Mapping[str, Any]) -> Reply:
    prompt = content_of(messages[-1])
    log = next((log for log in TOLD if log in prompt), None)
    if "<|COMPLETE|>" not in prompt or log is None:
        return default_reply(messages, body)
    return Reply("##".join(TOLD[log]) + "<|COMPLETE|>")


def test_a_changed_display_name_costs_its_summary_and_the_embeddings_that_name_it(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    openai.reply = as_told
    documents = {"first.txt": "This is the first log.", "second.txt": "This is the second log."}
    folder = new_project(tmp_path / "p", postgres_url, documents, models=models(openai))
    set_args(folder, summarize_descriptions={"max_tokens": 30})
    with folder.open() as project:
        project.run("index")
        names = project.table("entities").set_index("id")["name"]
        assert sum(not is_extraction(request) for request in openai.requests if request.kind == "chat") == 3
        openai.forget()
        folder.write("third.txt", "This is the third log.")
        project.run("index")
        after = project.table("entities").set_index("id")["name"]
    assert dict(zip(names[names != after], after[names != after], strict=True)) == {"Mira Vale": "MIRA VALE"}
    extracted, summarised = [
        [request for request in openai.requests if request.kind == "chat" and is_extraction(request) is asked]
        for asked in (True, False)
    ]
    assert len(extracted) == 1
    assert ["MIRA VALE" in str(request.messages) for request in summarised] == [True]
    embedded = sorted(text.split("\n")[0].split(", a person")[0] for one in openai.requests for text in one.inputs)
    assert len(embedded) == 3, embedded
    assert "MIRA VALE" in embedded
    assert "This is the third log." in embedded
    assert sum("MIRA VALE\tAnselm Torr" in text for text in embedded) == 1
