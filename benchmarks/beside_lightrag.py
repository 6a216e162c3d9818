"""LightRAG's storage classes beside graphmill's loads: the same rows, into the same servers, one
after the other."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.graph_tables import Sizes, make_tables

SCRIPT = Path(__file__).with_name("lightrag_stores.py")
PACKAGES = ("lightrag-hku==1.5.7", "neo4j", "asyncpg", "pgvector", "numpy")


class LightragUnavailable(Exception):  # noqa: N818 - nothing is wrong, there is just none here
    """Why the package is not there."""


def install(folder: Path) -> Path:
    """Install LightRAG in a new environment and return its Python. Raises LightragUnavailable."""
    uv = shutil.which("uv")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable]
        add = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        make = [sys.executable, "-m", "venv"]
        add = [str(python), "-m", "pip", "install", "--quiet"]
    for line in ([*make, str(folder)], [*add, *PACKAGES]):
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LightragUnavailable(f"{' '.join(line)}: {done.stderr.strip()[-500:]}")
    return python


def write_rows(path: Path, sizes: Sizes) -> None:
    """Write rows into a file in the form that LightRAG's storages take."""
    tables = make_tables(sizes)
    texts = {
        id: text
        for name in ("entity", "relationship")
        for id, text in _pairs(tables[f"{name}_texts"])
    }
    rows = {
        "entities": [
            {
                **_described(row, texts),
                "entity_name": row["name"],
                "entity_type": row["type"],
            }
            for row in tables["entities"].to_pylist()
        ],
        "relationships": [
            {
                **_described(row, texts),
                "src_id": row["source"],
                "tgt_id": row["target"],
                "keywords": ",".join(row["keywords"]),
                "weight": row["weight"],
            }
            for row in tables["relationships"].to_pylist()
        ],
        "units": [
            {
                "id": row["id"],
                "content": row["text"],
                "tokens": row["n_tokens"],
                "chunk_order_index": row["order"],
                "full_doc_id": row["document_id"],
                "file_path": "synthetic",
            }
            for row in tables["text_units"].to_pylist()
        ],
    }
    path.write_text(json.dumps(rows), encoding="utf-8")


def on_neo4j(
    python: Path, rows: Path, dimensions: int, address: Mapping[str, Any]
) -> dict[str, float]:
    """Let LightRAG write the rows into Neo4j and return the seconds by way of writing."""
    env = {
        "NEO4J_URI": address["uri"],
        "NEO4J_USERNAME": address["user"],
        "NEO4J_PASSWORD": address["password"],
        "NEO4J_DATABASE": address["database"],
    }
    return _measured(
        [str(python), str(SCRIPT), "neo4j", str(rows), str(dimensions)], env, rows.parent
    )


def on_postgres(python: Path, rows: Path, dimensions: int, url: str) -> dict[str, float]:
    parts = conninfo_to_dict(url)
    env = {
        "POSTGRES_HOST": str(parts["host"]),
        "POSTGRES_PORT": str(parts.get("port") or 5432),
        "POSTGRES_USER": str(parts["user"]),
        "POSTGRES_PASSWORD": str(parts.get("password") or ""),
        "POSTGRES_DATABASE": str(parts["dbname"]),
        "POSTGRES_MAX_CONNECTIONS": "20",
    }
    return _measured(
        [str(python), str(SCRIPT), "postgres", str(rows), str(dimensions)], env, rows.parent
    )


def _pairs(texts: Any) -> zip:
    return zip(texts["id"].to_pylist(), texts["text"].to_pylist(), strict=True)


def _described(row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "description": row["description"],
        "content": texts[row["id"]],
        "source_id": "<SEP>".join(row["text_unit_ids"]),
        "file_path": "synthetic",
    }


def _measured(line: Sequence[str], env: Mapping[str, str], folder: Path) -> dict[str, float]:
    done = subprocess.run(
        line, capture_output=True, text=True, env={**os.environ, **env}, cwd=folder, check=False
    )
    if done.returncode:
        raise LightragUnavailable(
            f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr[-2000:]}"
        )
    return json.loads(done.stdout.strip().splitlines()[-1])
