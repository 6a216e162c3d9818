"""Folders as versions of Microsoft GraphRAG write them, of one small corpus."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.documents.graphrag_cache import open_cache

INDEX = Path(__file__).parent / "graphrag_3_3_0.zip"
"""A project of GraphRAG 3.3.0 with its cache; make_graphrag_index.py makes it."""
Tables = dict[str, list[dict[str, Any]]]

TEXT = "title: lamp.txt.\nAda Holm built the Lamp."
DOCUMENT = "Ada Holm built the Lamp. Otto Holm kept the Lamp."


def version_3() -> Tables:
    """Return tables as GraphRAG 3.x writes them."""
    return {
        "documents": [
            {"id": "d1", "human_readable_id": 0, "title": "lamp.txt", "text": DOCUMENT,
                "text_unit_ids": ["u1", "u2"],
             "creation_date": "2026-01-09", "raw_data": {"owner": "Ada", "year": 1871}},
        ],
        "text_units": [
            {"id": "u1", "human_readable_id": 0, "text": TEXT, "n_tokens": 9, "document_id": "d1",
             "entity_ids": ["e1"], "relationship_ids": ["r1"], "covariate_ids": []},
            {"id": "u2", "human_readable_id": 1, "text": "Otto Holm kept the Lamp.", "n_tokens": 6,
             "document_id": "d1", "entity_ids": ["e2"], "relationship_ids": [],
             "covariate_ids": []},
        ],
        "entities": [
            {"id": "e1", "human_readable_id": 0, "title": "ADA HOLM", "type": "PERSON",
                "description": "built it",
             "text_unit_ids": ["u1"], "frequency": 1, "degree": 1},
            {"id": "e2", "human_readable_id": 1, "title": "OTTO HOLM", "type": "PERSON",
                "description": "kept it",
             "text_unit_ids": ["u2"], "frequency": 1, "degree": 1},
            {"id": "e3", "human_readable_id": 2, "title": "LAMP", "type": "", "description": "",
             "text_unit_ids": ["u1", "u2"], "frequency": 2, "degree": 2},
        ],
        "relationships": [
            {"id": "r1", "human_readable_id": 0, "source": "ADA HOLM", "target": "LAMP",
                "description": "Ada built it",
             "weight": 9.0, "combined_degree": 3, "text_unit_ids": ["u1"]},
            {"id": "r2", "human_readable_id": 1, "source": "OTTO HOLM", "target": "LAMP",
                "description": "Otto kept it",
             "weight": 2.0, "combined_degree": 3, "text_unit_ids": ["u2"]},
        ],
        "communities": [
            {"id": "c0", "human_readable_id": 0, "community": 0, "level": 0, "parent": -1,
             "children": [1], "title": "Community 0", "entity_ids": ["e1", "e2", "e3"],
             "relationship_ids": ["r1", "r2"], "text_unit_ids": ["u1", "u2"],
             "period": "2026-01-09", "size": 3},
            {"id": "c1", "human_readable_id": 1, "community": 1, "level": 1, "parent": 0,
             "children": [], "title": "Community 1", "entity_ids": ["e1", "e3"],
             "relationship_ids": ["r1"], "text_unit_ids": ["u1"],
             "period": "2026-01-09", "size": 2},
        ],
        "community_reports": [report(0, 0), report(1, 1)],
        "covariates": [
            {"id": "v1", "human_readable_id": 0, "covariate_type": "claim", "type": "BUILDING",
             "description": "Ada built the Lamp.", "subject_id": "ADA HOLM", "object_id": "LAMP",
             "status": "TRUE", "start_date": "1871-01-01T00:00:00", "end_date": "NONE",
             "source_text": "Ada Holm built the Lamp.", "text_unit_id": "u1"},
        ],
    }  # fmt: skip


def report(community: int, level: int) -> dict[str, Any]:
    """Return a row of community_reports."""
    return {
        "id": f"p{community}", "human_readable_id": community, "community": community,
        "level": level, "parent": level - 1, "children": [], "title": f"The Lamp {community}",
        "summary": "About the Lamp.", "full_content": f"# The Lamp {community}\n\nAbout the Lamp.",
        "rank": 7.5, "rating_explanation": "It shines.",
        "findings": [{"summary": "Builders", "explanation": "Ada built it."}],
        "full_content_json": "{}", "period": "2026-01-09", "size": 3 - level,
    }  # fmt: skip


def version_2() -> Tables:
    """Return tables as GraphRAG 1.x and 2.x write them.

    A text unit may belong to many documents, and metadata are not yet called raw_data.
    """
    tables = version_3()
    tables["documents"] = renamed(tables["documents"], raw_data="metadata")
    tables["text_units"] = [
        {name: cell for name, cell in row.items() if name != "document_id"}
        | {"document_ids": [row["document_id"]]}
        for row in tables["text_units"]
    ]
    return tables


def version_0() -> Tables:
    """Return tables as GraphRAG 0.3 writes them.

    Files and columns have other names, and there are no frequencies.
    """
    tables = version_2()
    entities = renamed(tables["entities"], title="name")
    return {
        "create_final_documents": renamed(tables["documents"], text="raw_content"),
        "create_final_text_units": tables["text_units"],
        "create_final_entities": [
            {name: cell for name, cell in row.items() if name not in ("frequency", "degree")}
            for row in entities
        ],
        "create_final_relationships": renamed(tables["relationships"], combined_degree="rank"),
    }


def village(houses: Mapping[int, str]) -> Tables:
    """Return an index as `version_3`, with the document and community of a lamp for each house.

    ``houses`` maps the number of a house to what its keeper did with the lamp.
    """
    tables: Tables = {name: [] for name in version_3()}
    for house, deed in houses.items():
        text = f"Keeper {house} {deed} Lamp {house}."
        unit, ends = [f"u{house}"], [f"k{house}", f"l{house}"]
        for name, rows in version_3().items():
            tables[name].append(rows[0] | {"id": f"{name}{house}", "text_unit_ids": unit})
        tables["documents"][-1] |= {"title": f"{house}.txt", "text": text}
        tables["text_units"][-1] |= {
            "id": f"u{house}", "text": text, "document_id": f"documents{house}",
        }  # fmt: skip
        keeper = tables["entities"].pop() | {"id": ends[0], "title": f"KEEPER {house}"}
        keeper["description"] = deed
        tables["entities"] += [keeper, keeper | {"id": ends[1], "title": f"LAMP {house}"}]
        tables["relationships"][-1] |= {"source": f"KEEPER {house}", "target": f"LAMP {house}"}
        tables["communities"][-1] |= {"community": house, "entity_ids": ends}
        tables["community_reports"][-1] = report(house, 0)
        tables["covariates"][-1] |= {"subject_id": f"KEEPER {house}", "text_unit_id": f"u{house}"}
    return tables


VERSIONS = {"0.3": version_0, "2": version_2, "3": version_3}


def renamed(rows: list[dict[str, Any]], **names: str) -> list[dict[str, Any]]:
    return [{names.get(name, name): cell for name, cell in row.items()} for row in rows]


def write(folder: Path, tables: Tables) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def unpack(folder: Path) -> Path:
    """Return the project of GraphRAG, with its cache, in a folder."""
    with zipfile.ZipFile(INDEX) as archive:
        archive.extractall(folder)
    return folder


def remove_replies(folder: Path, passage: str) -> None:
    """Remove the replies about a passage of the project from its cache."""
    cache = open_cache(folder)
    assert cache is not None
    for reply in cache.replies_about(passage).replies:
        (cache.folder / "extract_graph" / reply.name).unlink()
