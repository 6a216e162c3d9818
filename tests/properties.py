"""A project whose documents give values of properties, one of which contradicts another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.projects import ProjectFolder, new_project, write_yaml
from tests.servers.openai_server import OpenAIServer, Reply

ONTOLOGY: dict[str, Any] = {
    "entity_types": [
        {
            "name": "TOWER",
            "properties": [
                {"name": "height", "type": "number", "unit": "m"},
                {"name": "state", "type": "enum", "values": ["open", "closed"]},
                {"name": "built", "type": "date"},
                {"name": "colours", "type": "list"},
                {"name": "owner"},
            ],
        }
    ]
}
CANARY = "zyxwane"
SAID: dict[str, dict[str, str]] = {
    "old": {"height": "39 ft", "built": "1850", "colours": "red, white"},
    "new": {"height": "12 m", "built": "May 1851", "state": "open"},
    "hidden": {
        "height": "999 m",
        "built": "1999",
        "state": "closed",
        "colours": CANARY,
        "owner": f"{CANARY} Trust",
    },
    "other": {"height": "40 m", "built": "1700-03-02"},
}
"""Document -> the properties that it gives the tower; ``other`` gives them to another tower."""
DATES = {"old": "1990", "new": "2001-05-02", "hidden": "2010", "other": "1995"}


def new_towers(root: Path, postgres_url: str, openai: OpenAIServer, **parts: Any) -> ProjectFolder:
    """Make, run and load the project with this part of settings."""
    openai.reply = _answer
    documents: dict[str, str] = {}
    for name, date in DATES.items():
        hidden = str(name == "hidden").lower()
        head = f"---\ntitle: Title {name}\ndate: {date}\nsecret: {hidden}\n---\n"
        text = f"Tower {_tower(name)} stands here. This is document {name} of it."
        documents[f"{name}.md"] = head + text
    folder = new_project(root, postgres_url, documents, endpoint=openai, **parts)
    write_yaml(folder.root / "ontology.yaml", ONTOLOGY)
    with folder.open(*folder.endpoint_overrides) as project:
        adopted = project.vocabulary_to_adopt()
        assert adopted is not None
        project.adopt_ontology(adopted)
        assert project.run("index").exit_code == 0
    return folder


def _tower(document: str) -> str:
    return "Brack" if document == "other" else "Tollen"


def _answer(messages: Any, body: Mapping[str, Any]) -> Reply:
    text = messages[-1]["content"]
    document = text.rsplit("document ", 1)[1].split()[0]
    if document not in SAID:
        return Reply("none")
    name = f"Tower {_tower(document)}"
    records = [f'("entity"<|>{name}<|>tower<|>A tower.)']
    for property, value in SAID[document].items():
        records.append(f'("property"<|>{name}<|>{property}<|>{value})')
    return Reply("##\n".join(records) + "<|COMPLETE|>")
