"""What may befall a corpus between nights, drawn by a seed: documents and records come, change, go
and get other names, settings change."""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from pipeline.engine import changed_groups, tasks
from pipeline.snapshots import tables
from tests.projects import ProjectFolder, write_yaml
from tests.states import set_args

SENTENCES = [
    "Ada Holm, Duchess of Skarrow, built the Skarrow Lamp.",
    "Ada Holm, Duchess of Quill, sold the Skarrow Lamp to Otto Holm.",
    "Ada Holm (1835-1901) kept the storm lamp, and the storm lamp kept Quill.",
    "Otto Holm saw ADA HOLM at the Harbour of Quill.",
    "Otto Holm wrote of the Quill Fair to Mira Vale.",
    "Mira Vale studied at the Brack Institute under Anselm Torr.",
    "Anselm Torr ground the lens of the Skarrow Lamp.",
    "Idra Senn founded the Brack Institute before the Quill Fair.",
    "The tide was out.",
]
TITLES = ["# Quill Fair", "# The Skarrow Lamp", "# Notes", "# Notes", "Letters of Otto Holm", ""]
NAMES = [
    f"{name}.{kind}" for name in ("a", "b", "c", "d", "old/e", "old/f") for kind in ("md", "txt")
]
DOCUMENTS = 9
TABLE, RECORDS = "table.csv", ["r1", "r2", "r3"]
FACTS = [
    "Ada Holm,MADE,Skarrow Lamp,,1871,",
    "Ada Holm,MADE,Skarrow Lamp,She made it.,1872,f1",
    "Ada Holm,KNOWS,Otto Holm,,,f1",
    "Otto Holm,KNOWS,Ada Holm,,,f2",
    "Otto Holm,,Quill,,,",
    "Mira Vale,MADE,,,,",
    "Ada Holm,MADE,Ada Holm,,,f3",
]
"""Rows of a table of the project's own: two have the same id, one lacks an end, one is a loop."""
MASTER_DATA = [
    "m1,Skarrow Lamp,place,storm lamp; Lamp,A lamp.,90 ft",
    "m1,Skarrow Lamp,place,Quill Fair,,",
    "m2,Ada Holm,person,Duchess of Quill;Otto,,170",
    "m3,ADA HOLM,human,,,",
    "m4,Mira Vale,person,Anselm Torr,,",
    "m5,Idra Senn,person,Anselm Torr;Mira Vale,She taught.,",
    ",Otto Holm,person,,,",
]
"""Rows of a table of master data: two have the same id, one lacks it, two claim one alias, one
claims the name of another, and two ids are of one entity."""
CHANGES = 4
WORKFLOWS = {
    "fast": ("fast",),
    "index": ("index",),
    "communities": ("index", "communities"),
    "claims": ("index", "communities", "claims"),
}
"""The files that the steps of a workflow stand in."""
ARGS: Mapping[str, Mapping[str, list[Any]]] = {
    "chunk_documents": {"size": [30, 30, 60]},
    "extract_graph_fast": {"min_phrase_count": [2, 1], "max_links_per_name": [3, 0]},
    "merge_graphs": {"orphans": ["stub", "stub", "drop"]},
    "join_descriptions": {"max_tokens": [600, 12]},
    "summarize_descriptions": {"max_tokens": [30, 600]},
    "compose_texts": {"entity": ["name_description", "name"]},
    "detect_communities": {"max_cluster_size": [3, 10]},
}
HEIGHT, BUILT = {"name": "height", "type": "number", "unit": "m"}, {"name": "built", "type": "date"}
ONTOLOGY: Mapping[str, Any] = {
    "entity_types": [
        {"name": "PERSON", "synonyms": ["human"], "properties": [{**HEIGHT, "unit": "cm"}]},
        {"name": "PLACE", "synonyms": ["location", "concept"], "properties": [HEIGHT, BUILT]},
    ],
    "relationship_types": [{"name": "KNOWS", "symmetric": True}, {"name": "MADE"}],
    "patterns": [["PERSON", "KNOWS", "PERSON"], ["PERSON", "MADE", "PLACE"]],
}
VOCABULARY: Mapping[str, Any] = {
    "entity_types": [
        {"name": "PERSON", "properties": [HEIGHT]},
        {"name": "PLACE", "properties": [HEIGHT, BUILT]},
    ]
}
"""The types and properties that the prompt names."""
ONTOLOGIES: list[Mapping[str, Any] | None] = [
    None,
    {**ONTOLOGY, "otherwise": "other"},
    {**ONTOLOGY, "otherwise": {"entity_types": "keep", "relationship_types": "reject"}},
    {
        **ONTOLOGY,
        "entity_types": [
            {"name": "PERSON", "synonyms": ["human"], "properties": [HEIGHT]},
            {
                "name": "PLACE",
                "synonyms": ["location", "concept"],
                "properties": [{**HEIGHT, "required": True}],
            },
        ],
        "otherwise": {"properties": "keep", "entity_types": "other"},
    },
]


CORRECTIONS: list[dict[str, Any]] = [
    {"kind": "rename", "entity": "Skarrow Lamp", "to": "Lamp of Skarrow"},
    {"kind": "rename", "entity": "Ada Holm", "to": "Ada Holm the Elder", "document": "a.md"},
    {"kind": "rename", "entity": "Otto Holm", "to": "Otto", "quote": "saw ADA HOLM"},
    {"kind": "delete_entity", "entity": "Quill Fair"},
    {"kind": "set_type", "entity": "Brack Institute", "to": "SCHOOL"},
    {"kind": "describe_entity", "entity": "Anselm Torr", "description": "A glazier."},
    {"kind": "describe_entity", "entity": "Skarrow Lamp", "description": "Lit.", "append": True},
    {"kind": "turn_statement", "source": "Mira Vale", "target": "Brack Institute"},
    {
        "kind": "add_statement", "source": "Mira Vale", "target": "Quill", "type": "lives in",
        "description": "Mira Vale lives in Quill.", "document": "b.md",
    },
    {
        "kind": "add_statement", "source": "Ada Holm", "target": "Skarrow Lamp", "type": "lit",
        "description": "Ada Holm lit the Skarrow Lamp.", "by": "ann",
    },
    {"kind": "set_type", "entity": "Skarrow Lamp", "to": "PLACE"},
    {"kind": "set_property", "entity": "Skarrow Lamp", "property": "height", "value": "90 ft"},
    {
        "kind": "set_property", "entity": "Skarrow Lamp", "property": "built", "value": "May 1850",
        "document": "a.md",
    },
    {
        "kind": "set_property", "entity": "Otto Holm", "property": "height", "value": "1.8 m",
        "document": "b.md", "quote": "Otto Holm",
    },
    {"kind": "set_property", "entity": "Mira Vale", "property": "height", "value": "2 kg"},
    {"kind": "delete_property", "entity": "Ada Holm", "property": "height"},
    {"kind": "delete_property", "entity": "Quill", "property": "built", "document": "c.md"},
]  # fmt: skip
"""Decisions that a night may make or take back; any of them go together."""


@dataclass
class History:
    """What is there, and what has become of it; ``told``: all that was done."""

    draw: random.Random
    documents: dict[str, str] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    args: dict[str, dict[str, Any]] = field(default_factory=dict)
    corrections: list[dict[str, Any]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    ontology: Mapping[str, Any] | None = None
    facts: list[str] = field(default_factory=list)
    master: list[str] = field(default_factory=list)

    @classmethod
    def begun(cls, seed: int) -> "History":
        history = cls(random.Random(seed))
        history.args = {
            verb: {name: values[0] for name, values in args.items()} for verb, args in ARGS.items()
        }
        for name in history.draw.sample(NAMES, DOCUMENTS):
            history.write(name)
        history.list_master("")
        return history

    def gone_on(self, seed: int) -> "History":
        """The same until now, and what another draw makes of it."""
        return History(
            random.Random(seed),
            {**self.documents},
            {**self.records},
            {**self.args},
            [*self.corrections],
            [*self.told],
            self.ontology,
            [*self.facts],
            [*self.master],
        )

    def change(self) -> None:
        """A night's changes."""
        self.told.append("night")
        acts = [
            self.write,
            self.edit,
            self.edit,
            self.edit,
            self.delete,
            self.rename,
            self.record,
            self.set,
            self.decide,
            self.correct,
            self.state,
            self.list_master,
            self.list_master,
        ]
        for _ in range(self.draw.randint(1, CHANGES)):
            act = self.draw.choice(acts)
            act(self.draw.choice(sorted(self.documents) if act != self.write else NAMES))

    def write(self, name: str) -> None:
        self.documents[name] = f"{self.draw.choice(TITLES)}\n\n{self._text()}"
        self.told.append(f"write {name}: {self.documents[name]!r}")

    def edit(self, name: str) -> None:
        sentences = self.documents[name].split(". ")
        sentences[self.draw.randrange(len(sentences))] = self.draw.choice(SENTENCES).removesuffix(
            "."
        )
        self.documents[name] = ". ".join(sentences)
        self.told.append(f"edit {name}: {self.documents[name]!r}")

    def delete(self, name: str) -> None:
        if len(self.documents) > 1:
            del self.documents[name]
            self.told.append(f"delete {name}")

    def rename(self, name: str) -> None:
        """At times over another document."""
        other = self.draw.choice(NAMES)
        self.documents[other] = self.documents.pop(name)
        self.told.append(f"rename {name} {other}")

    def record(self, _: str) -> None:
        """One of a table comes, changes or goes."""
        key = self.draw.choice(RECORDS)
        if key in self.records and self.draw.random() < 0.5:
            del self.records[key]
        else:
            self.records[key] = self._text()
        self.told.append(f"records: {self.records}")

    def set(self, _: str) -> None:
        verb = self.draw.choice(sorted(self.args))
        self.args[verb] = {name: self.draw.choice(values) for name, values in ARGS[verb].items()}
        self.told.append(f"set {verb}: {self.args[verb]}")

    def decide(self, _: str) -> None:
        """The owner decides on another ontology, or on none."""
        others = [one for one in ONTOLOGIES if one != self.ontology]
        self.ontology = self.draw.choice(others)
        self.told.append(f"ontology: {self.ontology}")

    def correct(self, _: str) -> None:
        """Make a correction, or take one back."""
        line = self.draw.choice(CORRECTIONS)
        if line in self.corrections:
            self.corrections.remove(line)
        else:
            self.corrections.append(line)
        self.told.append(f"corrections: {self.corrections}")

    def state(self, _: str) -> None:
        """A row of the project's own table comes, at any place, or goes."""
        self._turn(FACTS, self.facts)
        self.told.append(f"facts: {self.facts}")

    def list_master(self, _: str) -> None:
        """Two rows of the master data come or go: an alias may move from one to the other."""
        self._turn(MASTER_DATA, self.master)
        self._turn(MASTER_DATA, self.master)
        self.told.append(f"master data: {self.master}")

    def _turn(self, rows: list[str], there: list[str]) -> None:
        row = self.draw.choice(rows)
        if row in there:
            there.remove(row)
        else:
            there.insert(self.draw.randint(0, len(there)), row)

    def _text(self) -> str:
        return " ".join(self.draw.choices(SENTENCES, k=self.draw.randint(1, 6)))

    @property
    def corpus(self) -> dict[str, str]:
        rows = "".join(
            f'{key},Record {key},"{text}"\n' for key, text in sorted(self.records.items())
        )
        return {**self.documents, **({TABLE: f"id,title,text\n{rows}"} if rows else {})}

    def put(self, folder: ProjectFolder, workflow: str) -> None:
        """Make the folder one of this corpus and these settings."""
        there = folder.root / "data" / "input"
        for path in [path for path in there.rglob("*") if path.is_file()]:
            path.unlink()
        for name, text in self.corpus.items():
            folder.write(name, text)
        tables = folder.root / "tables"
        tables.mkdir(exist_ok=True)
        # A table without a row that can be used would keep what it said.
        stated, listed = tables / "facts.csv", tables / "firms.csv"
        stated.unlink(missing_ok=True)
        if any(row != "Mira Vale,MADE,,,," for row in self.facts):
            rows = "\n".join(["source,type,target,description,since,id", *self.facts, ""])
            stated.write_text(rows, encoding="utf-8")
        listed.unlink(missing_ok=True)
        has_master = any(not row.startswith(",") for row in self.master)
        if has_master:
            rows = "\n".join(["id,name,type,aliases,description,height", *self.master, ""])
            listed.write_text(rows, encoding="utf-8")
        entry = "firms.csv: {kind: entities}\n" if has_master else ""
        (tables / "tables.yaml").write_text(entry, encoding="utf-8")
        lines = [json.dumps(line) for line in self.corrections]
        (folder.root / "corrections.jsonl").write_text("\n".join(lines), encoding="utf-8")
        for name in WORKFLOWS[workflow]:
            set_args(folder, name, **self.args)
        # The prompt of the first night already names properties: another one would ask again.
        write_yaml(folder.root / "prompts" / "vocabulary.yaml", VOCABULARY)
        decided = folder.root / "ontology.yaml"
        decided.unlink(missing_ok=True)
        if self.ontology is not None:
            write_yaml(decided, self.ontology)


@contextmanager
def in_small_files() -> Iterator[None]:
    """Tables of few rows are made in buckets, and kept in these and additions, as large ones are,
    which are merged early."""
    in_buckets, at_once = (
        patch.object(tasks, "TASK_ROWS", 16),
        patch.object(changed_groups, "ROWS_AT_ONCE", 16),
    )
    with (
        in_buckets,
        at_once,
        patch.multiple(tables, WHOLE_BELOW=1, BUCKET_ROWS=8, MOST_ADDITIONS=1),
    ):
        yield
