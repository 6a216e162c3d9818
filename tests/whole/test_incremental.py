"""A night asks for what changed, and for nothing else; one without a change writes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import Messages, content_of, default_reply
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import (
    is_extraction,
    models,
    postgres_versions,
    set_args,
)

ALWAYS_EMPTY = {
    "graphmill_attributes",
    "graphmill_reports",
    "graphmill_claims",
    "graphmill_communities",
    "graphmill_between",
}
"""Tables that the workflow index leaves empty in a project without properties."""


@pytest.fixture
def long_document(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """A project that has built a document of 200 text units; the endpoint's ledger is empty
    again."""
    folder = new_project(
        tmp_path / "p", postgres_url, {"long.txt": TITLE + " ".join(VOYAGES)}, models=models(openai)
    )
    set_args(folder, chunk_documents={"size": 60})
    with folder.open() as project:
        project.run("index")
        assert len(project.table("text_units")) >= 200
    openai.forget()
    return folder


TITLE = "Log of voyages\n\n"
"""Without it the document would be called by its file's name, which is part of the headers."""
VOYAGES = [
    f"Captain Orla Venn of ship {number} sailed to Port {chr(65 + number % 26)}ella with"
    f" {7 * number} barrels."
    for number in range(500)
]


def test_one_edited_sentence_costs_three_extractions_at_most(
    long_document: ProjectFolder, openai: OpenAIServer
):
    edited = [*VOYAGES[:150], "Captain Orla Venn of ship 150 went home.", *VOYAGES[151:]]
    long_document.write("long.txt", TITLE + " ".join(edited))
    with long_document.open() as project:
        project.run("index")
    assert 1 <= sum(map(is_extraction, openai.requests)) <= 3


def test_a_night_without_a_change_costs_nothing(
    long_document: ProjectFolder, openai: OpenAIServer, postgres_url: str
):
    with long_document.open() as project:
        workspace = project.settings.workspace
        before = postgres_versions(postgres_url, workspace)
        assert {table for table, rows in before.items() if not rows} == ALWAYS_EMPTY
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


ALIKE = (
    "a person of whom the log of the harbour tells at great length, in many words, and more than"
    " once"
)
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
        (
            '("relationship"<|>Mira Vale<|>Anselm Torr<|>She was taught by him,'
            f" {ALIKE}.<|>teaching<|>5)"
        ),
    ],
    "third log": [
        f'("entity"<|>MIRA VALE<|>{type}<|>Keeper of the light, {ALIKE}.)'
        for type in ("person", "keeper", "builder", "writer", "pupil")
    ],
}
"""What is extracted from each document: the third names an entity otherwise, more often than the
others, and says nothing new of it."""


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
        assert (
            sum(not is_extraction(request) for request in openai.requests if request.kind == "chat")
            == 3
        )
        openai.forget()
        folder.write("third.txt", "This is the third log.")
        project.run("index")
        after = project.table("entities").set_index("id")["name"]
    assert dict(zip(names[names != after], after[names != after], strict=True)) == {
        "Mira Vale": "MIRA VALE"
    }
    extracted, summarised = [
        [
            request
            for request in openai.requests
            if request.kind == "chat" and is_extraction(request) is asked
        ]
        for asked in (True, False)
    ]
    assert len(extracted) == 1
    assert ["MIRA VALE" in str(request.messages) for request in summarised] == [True]
    embedded = sorted(
        text.split("\n")[0].split(", a person")[0] for one in openai.requests for text in one.inputs
    )
    assert len(embedded) == 3, embedded
    assert "MIRA VALE" in embedded
    assert "This is the third log." in embedded
    assert sum("MIRA VALE\tAnselm Torr" in text for text in embedded) == 1
