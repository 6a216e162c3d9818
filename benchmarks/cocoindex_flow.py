"""One update of a CocoIndex app: each file of a folder embedded by graphmill's builtin model, its
text and vector in a table of PostgreSQL with an HNSW index. Run by beside_cocoindex.py, which
names: where the package is installed, the folder of files, the address of the database, and where
CocoIndex keeps its state.
"""

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.append(sys.argv[1])  # behind graphmill's own packages, so that both embed by the same ones

import asyncpg
import cocoindex as coco
import numpy as np
from cocoindex.connectors import localfs, postgres
from cocoindex.connectors.localfs import File
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray

from pipeline.models.here.builtin import BuiltinEmbedding

FOLDER, URL, STATE = sys.argv[2:5]
DATABASE = coco.ContextKey[asyncpg.Pool]("database")
DIMENSIONS = 256
Vector = Annotated[NDArray[np.float32], VectorSchema(np.dtype(np.float32), DIMENSIONS)]


@dataclass
class Passage:
    id: str
    content: str
    embedding: Vector


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = Path(STATE)
    async with asyncpg.create_pool(URL) as pool:
        builder.provide(DATABASE, pool)
        yield


@coco.fn.as_async(batching=True)
def embedded(texts: list[str]) -> list[np.ndarray]:
    return list(BuiltinEmbedding().embed(texts))


@coco.fn(memo=True)
async def process(file: File, table: postgres.TableTarget[Passage]) -> None:
    text = await file.read_text()
    table.declare_row(row=Passage(file.file_path.path.as_posix(), text, await embedded(text)))


@coco.fn
async def main() -> None:
    schema = await postgres.TableSchema.from_class(Passage, primary_key=["id"])
    table = await postgres.mount_table_target(DATABASE, "cocoindex_passages", schema)
    table.declare_vector_index(column="embedding", metric="cosine", method="hnsw")
    await coco.mount_each(process, localfs.walk_dir(Path(FOLDER), recursive=True).items(), table)


coco.App("passages", main).update_blocking()
