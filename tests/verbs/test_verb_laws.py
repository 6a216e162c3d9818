"""Laws that hold for every verb: run a small corpus through all of them, then each by itself
again."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pipeline.verbs
from pipeline.contract.conversion import Converter
from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import (
    NOTHING_WRITTEN,
    REGISTRY,
    UNTRACKED,
    LastTables,
    Params,
    Tracker,
    Verb,
)
from pipeline.contract.schemas import (
    EXTRACTIONS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    TableSchema,
)
from pipeline.documents.limited_converter import LimitedConverter
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    Listener,
    Repeats,
    Result,
    Talk,
    Tokenizer,
    one_question,
)
from pipeline.text.tokens import tokenizer
from tests.documents.drawn_pictures import png
from tests.query.memory_stores import LetterEmbedding
from tests.slices import called_in_slices
from tests.talking import converse
from tests.verbs.graphrag_folders import unpack, version_3, write
from tests.verbs.lightrag_folders import INDEX

CORPUS = {
    "lamp.txt": "Ada Holm built the Skarrow Lamp in 1871. Her brother Otto Holm kept it. " * 6,
    "letters/otto.md": (
        "# Lamp\n\nOtto Holm wrote to Ada Holm about the storm. The storm took the boat. " * 4
    ),
    "copy.txt": "Ada Holm built the Skarrow Lamp in 1871. Her brother Otto Holm kept it. " * 6
    + "It burns again.",
    "river.txt": "奥托在河边写信。信里说,灯塔很亮。" * 8,
    "towns.jsonl": '{"id": "t1", "title": "Skarrow", "text": "Skarrow is a town of Ada Holm."}\n',
    "odd.bin": "\x00\x01",
    "empty.txt": "",
}
OWNERS = (
    "source,owner,year\nlamp.txt,Ada,1871\nletters/otto.md,Otto,1880\nriver.txt,,1899\n"
    "copy.txt,Ada,1872\n"
    "towns.jsonl#t1,Ada,1999\n"
)
CHAIN: dict[str, dict[str, str]] = {
    "read_graphrag": {},
    "read_graphrag_cache": {},
    "read_lightrag": {},
    "load_documents": {},
    "join_documents": {},
    "select_documents": {},
    "set_metadata": {},
    "filter_documents": {},
    "find_near_duplicates": {},
    "read_table": {},
    "add_tables": {},
    "chunk_documents": {},
    "leave_out_tables": {},
    "compose_headers": {},
    "embed_with_headers": {"texts": "text_units", "headers": "text_unit_headers"},
    "extract_graph": {"text_units": "file_text_units"},
    "extract_graph_with_headers": {
        "text_units": "file_text_units",
        "headers": "text_unit_headers",
    },
    "extract_graph_fast": {"text_units": "file_text_units"},
    "extract_table": {"documents": "table_documents"},
    "add_table_extractions": {},
    "add_links": {"text_units": "file_text_units"},
    "add_imported_documents": {},
    "split_imported_documents": {"documents": "joined_documents"},
    "add_imported_units": {},
    "leave_out_imported_units": {"text_units": "joined_text_units"},
    "add_imported_extractions": {"text_units": "joined_text_units"},
    "restrict_to_text_units": {"rows": "extractions"},
    "conform_extractions": {},
    "read_corrections": {},
    "add_aliases": {},
    "correct_extractions": {"corrections": "corrections_with_aliases"},
    "merge_graphs": {},
    "check_patterns": {
        "unchecked_entities": "merged_entities",
        "unchecked_records": "relationship_records",
        "unchecked_mentions": "mentions",
    },
    "resolve_entities": {},
    "prune_graph": {"entities": "merged_entities", "relationships": "merged_relationships"},
    "join_descriptions": {},
    "summarize_descriptions": {},
    "compute_degrees": {},
    "list_attributes": {"extractions": "conformed_extractions"},
    "list_resolved_attributes": {"extractions": "conformed_extractions"},
    "gather_properties": {},
    "list_statements": {},
    "list_resolved_statements": {},
    "compose_texts": {},
    "embed_text": {"texts": "entity_texts"},
    "detect_communities": {},
    "extend_communities": {},
    "extract_claims": {},
    "resolve_claims": {},
    "keep_reports": {"communities": "extended_communities"},
    "report_new_communities": {},
    "report_communities": {},
    "report_communities_with_claims": {},
    "compose_report_texts": {},
    "layout_graph": {},
}
"""Every verb of tables with fixed columns, in an order in which each finds its tables; and the
tables whose names differ."""
RENAMED = {
    "extend_communities": {"communities": "extended_communities", "nodes": "extended_nodes"},
    "keep_reports": {"community_reports": "kept_reports"},
    "report_new_communities": {"community_reports": "other_reports"},
    "read_graphrag_cache": {
        name: f"cached_{name}"
        for name in (
            "documents",
            "text_units",
            "extractions",
            "imported_communities",
            "imported_reports",
            "imported_claims",
        )
    },
    "read_lightrag": {
        "documents": "imported_documents",
        "text_units": "imported_text_units",
        "extractions": "imported_extractions",
    },
    "add_imported_documents": {"documents": "joined_documents"},
    "add_imported_units": {"text_units": "joined_text_units"},
    "add_imported_extractions": {"extractions": "joined_extractions"},
    "read_table": {"documents": "table_documents"},
    "extract_table": {"extractions": "table_extractions"},
    "extract_graph_with_headers": {"extractions": "headed_extractions"},
}
"""Outputs that get another name, since an earlier verb has written a table of that name."""

CORRECTIONS = (
    '{"kind": "rename", "entity": "Skarrow Lamp", "to": "Lamp of Skarrow"}\n'
    '{"kind": "delete_entity", "entity": "Otto Holm", "document": "letters/otto.md"}\n'
)
KEEPERS = (
    "source,type,target,weight,since\n"
    "Otto Holm,KEEPS,Skarrow Lamp,2,1871\n"
    "Otto Holm,KEEPS,,1,\n"
    "Ida Brun,KEEPS,Skarrow Lamp,,1880\n"
)
MASTER_DATA = "id,name,aliases\nm1,Ida Brun,Brun;Skarrow\nm2,Ada Holm,Brun;Quill Fair\n"
FILES = {
    "read_graphrag": "graphrag",
    "read_graphrag_cache": "graphrag_cache",
    "read_lightrag": "lightrag",
    "load_documents": "corpus",
    "join_documents": "owners.csv",
    "read_corrections": "corrections.jsonl",
    "read_table": "tables",
}
"""The files that the verbs with a stamp read."""

BORN = {"name": "born", "type": "date", "required": True}
ARGS: dict[str, dict[str, Any]] = {
    "resolve_entities": {"similarity": 0.5, "near": 0.99, "batch": 2},
    "join_documents": {"on": "source"},
    "select_documents": {"metadata": ["owner", "year"], "rename": {"owner": "keeper"}},
    "set_metadata": {"rules": [{"pattern": "**/*.txt", "set": {"owner": "Ada"}}]},
    "filter_documents": {"where": {"year": {"exists": True, "<": 1900}}},
    "find_near_duplicates": {"least": 0.2, "min_shingles": 1},
    "chunk_documents": {"size": 40},
    "compose_headers": {"metadata": ["owner"], "max_tokens": 12},
    "extract_graph": {
        "gleanings": 1,
        "vocabulary": {
            "entity_types": [{"name": "person", "properties": [{"name": "born", "type": "date"}]}],
            "relationship_types": [{"name": "place", "properties": [{"name": "since"}]}],
        },
    },
    "conform_extractions": {
        "entity_types": {"person": [], "thing": ["concept"]},
        "relationship_types": {"LIES_NEAR": ["place"]},
        "other_entities": "other",
        "entity_properties": {"person": [BORN], "thing": [BORN]},
        "relationship_properties": {"LIES_NEAR": [{"name": "since"}]},
    },
    "list_attributes": {"properties": {"person": [BORN], "thing": [BORN]}},
    "list_resolved_attributes": {"properties": {"person": [BORN], "thing": [BORN]}},
    "check_patterns": {
        "relationship_types": ["place"],
        "symmetric": ["place"],
        "patterns": [["person", "place", "thing"]],
        "other_entities": "other",
        "other_patterns": "other",
    },
    "extract_claims": {"gleanings": 1},
    "summarize_descriptions": {"max_tokens": 20},
}
TEMPLATES = {
    "describe": "What is in this picture?",
    "extract": "Types: $entity_types\nText: $text",
    "glean": "What else?",
    "judge": "Pairs:\n$pairs",
    "summarize": "$name, at most $max_length words:\n$descriptions",
    "report": "Report, at most $max_length words:\n$context",
}

NEED_EXTRAS = {"embed_graph"}
"""Verbs that need an extra: other tests run them where it is installed."""
every_verb = pytest.mark.parametrize("name", sorted(CHAIN))


class Clerk:
    """A chat model: the same request gets the same reply, and now and then one of no use."""

    identity: Mapping[str, Any] = {"model": "clerk"}

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        return converse(talks, lambda request: self._reply(request.messages[-1]["content"]))

    def complete(
        self, requests: Sequence[ChatRequest], listener: Listener | None = None
    ) -> list[ChatReply]:
        return self.converse(map(one_question, requests))

    def _reply(self, question: str) -> ChatReply:
        if question.startswith("What else"):
            return ChatReply(
                '("entity"<|>Storm<|>event<|>a storm)##("claim"<|>Storm<|><|>loss<|>TRUE<|><|><|>a'
                " boat)"
            )
        if question.startswith("Report"):
            return ChatReply(
                json.dumps(
                    {"title": question[-30:], "summary": question[-90:], "rating": len(question)}
                )
            )
        if question.startswith("Pairs"):
            return ChatReply("1: different\n2: same")
        if not question.startswith("Types"):
            return ChatReply(f"In short: {question.splitlines()[-1]}"[:80])
        text = question.partition("Text: ")[2]
        if len(text) % 7 == 0:
            return ChatReply("", reason="timeout", message="no answer")
        one, two = text.split()[0], text.split()[-1]
        entity = f'("entity"<|>{one}<|>person<|>first)'
        relationship = f'("relationship"<|>{one}<|>{two}<|>near<|>place<|>2)'
        claim = f'("claim"<|>{one}<|>{two}<|>debt<|>TRUE<|>1871<|><|>owes<|>owes)'
        born = f'("property"<|>{one}<|>born<|>{1800 + len(text) % 5})'
        since = f'("property"<|>{one}<|>{two}<|>since<|>{text.split()[-1]})'
        return ChatReply(
            f"{entity}##{relationship}##{claim}##{born}##{since}##nonsense<|COMPLETE|>"
        )

    def stream(self, request: ChatRequest) -> Any:
        raise NotImplementedError

    def preflight(self) -> None: ...


ROLES: dict[type, Callable[[str], Any]] = {
    LastTables: lambda role: NOTHING_WRITTEN,
    Prompt: lambda role: Prompt(role, TEMPLATES[role]),
    ChatModel: lambda role: Clerk(),
    EmbeddingModel: lambda role: LetterEmbedding(),
    Tokenizer: lambda role: tokenizer("o200k_base"),
    Tracker: lambda role: UNTRACKED,
    Converter: lambda role: LimitedConverter(),
}


def roles_of(verb: Verb, folder: Path) -> dict[str, Any]:
    roles = {role: ROLES[kind](role) for role, kind in verb.roles.items()}
    path = {"path": str(folder / FILES[verb.name])} if verb.name in FILES else {}
    args = path | ARGS.get(verb.name, {})
    return roles | ({"params": verb.params.model_validate(args)} if verb.takes_params else {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("laws")
    for name, content in CORPUS.items():
        path = root / FILES["load_documents"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (root / FILES["load_documents"] / "lamp.png").write_bytes(png())
    (root / FILES["join_documents"]).write_text(OWNERS, encoding="utf-8")
    (root / FILES["read_corrections"]).write_text(CORRECTIONS, encoding="utf-8")
    (root / FILES["read_table"]).mkdir()
    (root / FILES["read_table"] / "keepers.csv").write_text(KEEPERS, encoding="utf-8")
    (root / FILES["read_table"] / "keys.csv").write_text(MASTER_DATA, encoding="utf-8")
    entry = "keys.csv: {kind: entities}\n"
    (root / FILES["read_table"] / "tables.yaml").write_text(entry, encoding="utf-8")
    write(root / FILES["read_graphrag"], version_3())
    unpack(root / FILES["read_graphrag_cache"])
    shutil.copytree(INDEX, root / FILES["read_lightrag"])
    return root


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, pa.Table]:
    """Return every table of a run of the chain, as a snapshot holds it."""
    tables: dict[str, pa.Table] = {}
    for name in CHAIN:
        written = run(REGISTRY.verbs[name], inputs_of(name, tables), folder)
        names = RENAMED.get(name, {})
        tables |= {names.get(table, table): rows for table, rows in written.items()}
        if name == "extract_graph_fast":
            tables["extractions"] = with_properties(tables["extractions"])
    return tables


def with_properties(extractions: pa.Table) -> pa.Table:
    """Return the records with properties, which extract_graph_fast gives to none."""
    rows = extractions.to_pandas()
    years = [json.dumps({"born": str(1800 + len(unit) % 7 + row)}) for row, unit in enumerate(
        rows["text_unit_id"])]  # fmt: skip
    return EXTRACTIONS.encode(rows.assign(attributes=years), "extractions")


def inputs_of(name: str, tables: Mapping[str, pa.Table]) -> dict[str, pd.DataFrame]:
    verb = REGISTRY.verbs[name]
    sources = {table: CHAIN[name].get(table, table) for table in verb.inputs}
    return {
        table: rows_read(verb.inputs[table], tables[source]) for table, source in sources.items()
    }


def rows_read(schema: TableSchema, table: pa.Table) -> pd.DataFrame:
    rows = table.to_pandas()
    return rows if schema.more else schema.seen(rows)


def run(
    verb: Verb, inputs: Mapping[str, pd.DataFrame], folder: Path, batch_rows: int | None = None
) -> dict[str, pa.Table]:
    roles = roles_of(verb, folder)
    frames = called_in_slices(verb, inputs, roles, batch_rows)
    written = verb.written(schemas_of(verb), roles.get("params", Params()))
    return {
        name: schema.encode(frames[name], f"{verb.name}: {name}")
        for name, schema in written.items()
    }


def schemas_of(verb: Verb) -> dict[str, TableSchema]:
    """Return the schemas of the verb's inputs; for tables of any columns, those of the chain."""
    return {name: OF_CHAIN.get((verb.name, name), schema) for name, schema in verb.inputs.items()}


OF_CHAIN = {
    ("restrict_to_text_units", "rows"): EXTRACTIONS,
    ("prune_graph", "entities"): MERGED_ENTITIES,
    ("prune_graph", "relationships"): MERGED_RELATIONSHIPS,
    ("prune_graph", "mentions"): MENTIONS,
}
"""The schemas of the tables that a verb takes with further columns."""


def test_every_verb_is_tested():
    assert set(CHAIN) | NEED_EXTRAS == set(pipeline.verbs.__all__)
    ours = {
        name
        for name, verb in REGISTRY.verbs.items()
        if verb.function.__module__.startswith("pipeline.")
    }
    assert set(pipeline.verbs.__all__) | set(pipeline.verbs.tables.__all__) == ours


def test_the_chain_makes_tables_with_rows(tables: dict[str, pa.Table]):
    assert not [name for name, table in tables.items() if not table.num_rows and name != "rejects"]


@every_verb
def test_the_same_input_gives_the_same_output(name: str, tables: dict[str, pa.Table], folder: Path):
    verb = REGISTRY.verbs[name]
    first, second = (run(verb, inputs_of(name, tables), folder) for _ in range(2))
    assert first == second


@every_verb
def test_a_verb_does_not_change_its_inputs(name: str, tables: dict[str, pa.Table], folder: Path):
    verb = REGISTRY.verbs[name]
    given = inputs_of(name, tables)
    schemas = schemas_of(verb)
    before = {table: schema.encode(given[table], table) for table, schema in schemas.items()}
    run(verb, given, folder)
    for table, schema in schemas.items():
        assert list(given[table].columns) == schema.columns
        assert schema.encode(given[table], table) == before[table]


@every_verb
def test_the_order_of_the_input_rows_does_not_change_the_output(
    name: str, tables: dict[str, pa.Table], folder: Path
):
    verb = REGISTRY.verbs[name]
    given = inputs_of(name, tables)
    turned = {table: frame.iloc[::-1].reset_index(drop=True) for table, frame in given.items()}
    assert run(verb, turned, folder) == run(verb, given, folder)


@pytest.mark.parametrize("name", sorted(name for name in CHAIN if REGISTRY.verbs[name].rowwise))
@pytest.mark.parametrize("batch_rows", [1, 2, 5])
def test_a_rowwise_verb_may_be_given_slices(
    name: str, batch_rows: int, tables: dict[str, pa.Table], folder: Path
):
    verb = REGISTRY.verbs[name]
    given = inputs_of(name, tables)
    assert run(verb, given, folder, batch_rows) == run(verb, given, folder)


@pytest.mark.parametrize("name", sorted(name for name in CHAIN if REGISTRY.verbs[name].inputs))
def test_empty_inputs_give_empty_outputs(name: str, folder: Path):
    verb = REGISTRY.verbs[name]
    empty = {table: schema.frame() for table, schema in schemas_of(verb).items()}
    assert all(table.num_rows == 0 for table in run(verb, empty, folder).values())
