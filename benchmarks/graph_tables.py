"""Snapshot tables of a synthetic graph, as a build would leave them; the same tables on any
machine.

A few entities have most of the relationships, a few of about 1,000 keywords are on most of them,
and descriptions have 200 characters. Vectors lie around 200 centres, and take few distinct values,
so that the files stay small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.contract.schemas import (
    DOCUMENTS,
    EMBEDDINGS,
    ENTITIES,
    RELATIONSHIPS,
    STRINGS,
    TEXT_UNITS,
    TEXTS,
    TYPE_COUNTS,
    VECTOR,
    TableSchema,
)
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord
from pipeline.text.ids import document_id, entity_id, relationship_id, text_unit_id

WORKFLOW = "index"
FIRST, CHANGED = "first", "changed"
"""The runs whose manifests a folder of tables keeps."""

DESCRIPTION_LENGTH, UNIT_LENGTH = 200, 500
KEYWORDS, CENTRES, UNITS_A_DOCUMENT = 1_000, 200, 10
TYPES = np.array(
    "person organization place event work concept species device law disease product method".split()
)
_HEADS = "Bar Cal Dor El Fen Gar Hal Is Jor Kel Lor Mar Nor Or Pel Quin Ros Sel Tor Ul Ver Wen Yor Zan".split()  # noqa: E501
_TAILS = "an beth dric ena fold gard holm ick ja kett low mere nik olt quay rick sten tova und wick".split()  # noqa: E501
WORDS = np.array(["".join(parts) for parts in product(_HEADS, _TAILS)])
Tables = dict[str, pa.Table]
ORDERS = {
    "documents": DOCUMENTS.order,
    "text_units": TEXT_UNITS.order,
    "entities": ENTITIES.order,
    "relationships": RELATIONSHIPS.order,
    **dict.fromkeys(["entity_texts", "relationship_texts"], TEXTS.order),
    **dict.fromkeys(
        ["text_unit_embeddings", "entity_embeddings", "relationship_embeddings"], EMBEDDINGS.order
    ),
}
"""Snapshot table -> what fixes the order of its rows."""


@dataclass(frozen=True)
class Sizes:
    entities: int
    relationships: int
    units: int
    dimensions: int


def write_tables(snapshots: SnapshotStore, sizes: Sizes) -> None:
    """Write the tables, and once more with 1 % changed: the manifests of the runs FIRST and
    CHANGED."""
    tables = make_tables(sizes)
    first = _manifest(
        {name: snapshots.tables.write(name, table, ORDERS[name]) for name, table in tables.items()}
    )
    changed = {
        name: snapshots.tables.write(name, table, ORDERS[name], first.tables[name])
        for name, table in _changed(tables).items()
    }
    snapshots.publish(first, FIRST)
    snapshots.publish(_manifest({**first.tables, **changed}), CHANGED)


def make_tables(sizes: Sizes) -> Tables:
    choice = np.random.default_rng(11)
    prose = " ".join(choice.choice(WORDS, 20_000))
    units, documents = _units(choice, prose, sizes.units)
    names = sorted(_names(choice, sizes.entities), key=entity_id)
    source, target = _pairs(choice, sizes.entities, sizes.relationships)
    degree = np.bincount(np.concatenate([source, target]), minlength=sizes.entities)
    unit_ids = units["id"].combine_chunks()
    entities = _entities(choice, prose, names, degree, unit_ids)
    relationships = _relationships(choice, prose, entities, source, target, unit_ids)
    tables = {
        "documents": documents,
        "text_units": units,
        "entities": entities,
        "relationships": relationships,
        "entity_texts": _texts(entities, ["name", "description"]),
        "relationship_texts": _texts(relationships, ["source", "target", "description"]),
    }
    for name, rows in {
        "text_unit": units,
        "entity": entities,
        "relationship": relationships,
    }.items():
        vectors = _vectors(choice, len(rows), sizes.dimensions)
        tables[f"{name}_embeddings"] = _embeddings(rows["id"].to_numpy(), vectors)
    return tables


def _changed(tables: Tables) -> Tables:
    """Return the tables with changes in every hundredth row.

    Entities and relationships get other descriptions, texts and vectors. Text units get other
    vectors.
    """
    changed = {}
    for name in ("entities", "relationships"):
        place = tables[name].schema.get_field_index("description")
        texts = _every_hundredth(tables[name]["description"], "rewritten. ")
        changed[name] = tables[name].set_column(place, tables[name].schema.field(place), texts)
    for name in ("entity_texts", "relationship_texts"):
        texts = _every_hundredth(tables[name]["text"], "Rewritten: ")
        changed[name] = tables[name].set_column(1, tables[name].schema.field(1), texts)
    for name in ("text_unit_embeddings", "entity_embeddings", "relationship_embeddings"):
        table = tables[name]
        values = table["vector"].combine_chunks().flatten().to_numpy()
        vectors = values.reshape(len(table), -1).copy()
        vectors[1::100] *= -1
        changed[name] = _embeddings(table["id"].to_numpy(), vectors)
    return changed


def _every_hundredth(texts: pa.ChunkedArray, prefix: str) -> pa.Array:
    cells = texts.to_pylist()
    cells[1::100] = [(prefix + cell)[: len(cell)] for cell in cells[1::100]]
    return pa.array(cells, texts.type)


def _manifest(tables: Mapping[str, Snapshot]) -> Manifest:
    record = StepRecord(
        "embed_text_units",
        "0",
        {"models": {"embedding": {"model": "synthetic"}}},
        {"embeddings": tables["text_unit_embeddings"]},
    )
    return Manifest(WORKFLOW, tables, {record.step: record})


def _units(choice: np.random.Generator, prose: str, count: int) -> tuple[pa.Table, pa.Table]:
    """Return text units in the order of their table, and their documents."""
    n_documents = math.ceil(count / UNITS_A_DOCUMENT)
    paths = sorted((f"{number:07}.txt" for number in range(n_documents)), key=document_id)
    documents = [document_id(path) for path in paths]
    order = np.arange(count)
    owner = np.repeat(documents, UNITS_A_DOCUMENT)[:count]
    starts = choice.integers(0, len(prose) - UNIT_LENGTH, count)
    texts = [f"{number} {prose[at : at + UNIT_LENGTH]}" for number, at in enumerate(starts)]
    place = order % UNITS_A_DOCUMENT
    units = _table(
        TEXT_UNITS,
        id=[text_unit_id(document, text, 0) for document, text in zip(owner, texts, strict=True)],
        text=texts,
        n_tokens=np.full(count, 100),
        document_id=owner,
        start=place * UNIT_LENGTH,
        end=(place + 1) * UNIT_LENGTH,
        order=place,
    )
    return units, _table(
        DOCUMENTS,
        id=documents,
        title=[f"Report {path}" for path in paths],
        text=[""] * len(paths),
        source=paths,
        metadata=[f'{{"path": "{path}"}}' for path in paths],
        content_hash=documents,
        title_from=["name"] * len(paths),
    )


def _entities(
    choice: np.random.Generator, prose: str, names: list[str], degree: np.ndarray, units: pa.Array
) -> pa.Table:
    count = len(names)
    mentions = choice.integers(1, 6, count)
    types = choice.choice(TYPES, count)
    return _table(
        ENTITIES,
        id=[entity_id(name) for name in names],
        name=names,
        type=types,
        types=pa.array([[{"type": type, "count": 1}] for type in types.tolist()], TYPE_COUNTS),
        description=_descriptions(choice, prose, names),
        text_unit_ids=_lists(choice, units, mentions),
        frequency=mentions,
        degree=degree,
    )


def _relationships(
    choice: np.random.Generator,
    prose: str,
    entities: pa.Table,
    source: np.ndarray,
    target: np.ndarray,
    units: pa.Array,
) -> pa.Table:
    count = len(source)
    ids, names = entities["id"].to_numpy(), entities["name"].to_numpy()
    places = np.repeat(choice.permutation(len(WORDS)), 3)[:KEYWORDS]
    keywords = pa.array([f"{WORDS[place].lower()} {number}" for number, place in enumerate(places)])
    frequency = 1 / (np.arange(KEYWORDS) + 10)
    sizes = choice.integers(1, 4, count)
    chosen = choice.choice(KEYWORDS, sizes.sum(), p=frequency / frequency.sum())
    labels = [f"{one} - {other}" for one, other in zip(names[source], names[target], strict=True)]
    return _table(
        RELATIONSHIPS,
        id=[
            relationship_id(one, other) for one, other in zip(ids[source], ids[target], strict=True)
        ],
        source=names[source],
        target=names[target],
        source_entity_id=ids[source],
        target_entity_id=ids[target],
        description=_descriptions(choice, prose, labels),
        keywords=_list_cells(sizes, keywords.take(pa.array(chosen)), STRINGS),
        weight=sizes.astype(float),
        text_unit_ids=_lists(choice, units, choice.integers(1, 3, count)),
    )


def _names(choice: np.random.Generator, count: int) -> list[str]:
    words = zip(choice.choice(WORDS, count), choice.choice(WORDS, count), strict=True)
    return [f"{one} {other} {number}" for number, (one, other) in enumerate(words)]


def _pairs(choice: np.random.Generator, entities: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` different pairs of positions in the table of entities, sorted.

    The lower position of each pair comes first.
    """
    found = np.zeros(0, np.int64)
    while len(found) < count:
        one = choice.integers(0, entities, 2 * count)
        other = (entities * choice.random(2 * count) ** 3).astype(np.int64)
        low, high = np.minimum(one, other), np.maximum(one, other)
        found = np.union1d(found, (low * entities + high)[low < high])
    kept = np.sort(choice.choice(found, count, replace=False))
    return kept // entities, kept % entities


def _descriptions(choice: np.random.Generator, prose: str, subjects: list[str]) -> list[str]:
    starts = choice.integers(0, len(prose) - DESCRIPTION_LENGTH, len(subjects))
    return [
        f"{subject}: {prose[at : at + DESCRIPTION_LENGTH]}"[:DESCRIPTION_LENGTH]
        for subject, at in zip(subjects, starts, strict=True)
    ]


def _texts(rows: pa.Table, columns: list[str]) -> pa.Table:
    cells = zip(*(rows[column].to_pylist() for column in columns), strict=True)
    return _table(TEXTS, id=rows["id"], text=["\n".join(row) for row in cells])


def _vectors(choice: np.random.Generator, count: int, dimensions: int) -> np.ndarray:
    centres = choice.integers(-80, 81, (CENTRES, dimensions), np.int8)
    vectors = np.empty((count, dimensions), np.float32)
    for start in range(0, count, 10_000):
        part = vectors[start : start + 10_000]
        part[:] = centres[choice.integers(0, CENTRES, len(part))]
        part += choice.integers(-40, 41, part.shape, np.int8)
        part /= 128
    return vectors


def _embeddings(ids: np.ndarray, vectors: np.ndarray) -> pa.Table:
    rows, dimensions = vectors.shape
    cells = _list_cells(np.full(rows, dimensions), pa.array(vectors.reshape(-1)), VECTOR)
    return _table(EMBEDDINGS, id=np.sort(ids), vector=cells)


def _lists(choice: np.random.Generator, values: pa.Array, sizes: np.ndarray) -> pa.LargeListArray:
    taken = values.take(pa.array(choice.integers(0, len(values), sizes.sum())))
    return _list_cells(sizes, taken, STRINGS)


def _list_cells(sizes: np.ndarray, items: pa.Array, kind: pa.LargeListType) -> pa.LargeListArray:
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, items.cast(kind.value_type), type=kind)


def _table(schema: TableSchema, **columns: Any) -> pa.Table:
    """Return a table of the schema; an optional column that is not given holds nulls."""
    n_rows = len(next(iter(columns.values())))
    arrays: list[pa.Array | pa.ChunkedArray] = []
    for field in schema.arrow:
        if field.name in schema.optional and field.name not in columns:
            arrays.append(pa.nulls(n_rows, field.type))
            continue
        cells = columns[field.name]
        is_arrow = isinstance(cells, pa.Array | pa.ChunkedArray)
        arrays.append(cells.cast(field.type) if is_arrow else pa.array(cells, field.type))
    return pa.Table.from_arrays(arrays, schema=schema.arrow)
