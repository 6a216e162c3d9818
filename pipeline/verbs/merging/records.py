"""Records of text units get ids of the entities that they name; those that name none well are
rejects."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import REJECTS, STRING
from pipeline.resolution.namesakes import full_name, is_nobody
from pipeline.text.ids import entity_id, match_key
from pipeline.verbs.merging.codes import coded, paired, pc
from pipeline.verbs.merging.tables import ENTITY_RECORDS, RELATIONSHIP_RECORDS

ENDS = ("name", "source", "target")


def name_records(
    extractions: pd.DataFrame, text_units: pd.DataFrame, namesakes: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the records (EXTRACTIONS) say of entities and of relationships (ENTITY_RECORDS,
    RELATIONSHIP_RECORDS), with the fuller names that NAMESAKES has for their text units
    (TEXT_UNITS).

    Left out are records that are incomplete, and relationships between a bare name and the fuller
    one that it means. What is of no text unit that is there counts as of a document without a
    name."""
    records = complete(extractions)
    units = text_units.drop_duplicates("id", keep="last").set_index("id")[["document_id", "order"]]
    placed = units.rename(columns={"order": "unit_order"}).reindex(records["text_unit_id"])
    records = records.assign(
        document_id=placed["document_id"].fillna("").array,
        unit_order=placed["unit_order"].fillna(0).to_numpy(dtype=np.int64),
    )
    if len(namesakes):
        records = _renamed(records, namesakes)
    of_entity = (records["kind"] == "entity").to_numpy(dtype=bool)
    entities = records[[name for name in ENTITY_RECORDS.columns if name in records]][of_entity]
    links = records[[name for name in RELATIONSHIP_RECORDS.columns if name in records]][~of_entity]
    names = coded(entities["name"], links["source"], links["target"])
    ids = coded(pd.Series(list(map(entity_id, names.texts.to_pylist())), dtype="str"))
    entity, source, target = np.split(
        ids.codes[names.codes], [len(entities), len(entities) + len(links)]
    )
    sources, targets = ids.of(source), ids.of(target)
    links = links.assign(
        id=_relationship_ids(sources, targets).to_pandas().array,
        source_entity_id=sources.to_pandas().array,
        target_entity_id=targets.to_pandas().array,
        fault=np.where(source == target, "self_loop", ""),
    )
    entities = entities.assign(entity_id=ids.of(entity).to_pandas().array)
    return entities[ENTITY_RECORDS.columns], links[RELATIONSHIP_RECORDS.columns]


def find_orphans(named_relationships: pd.DataFrame, entity_records: pd.DataFrame) -> pd.DataFrame:
    """The records (RELATIONSHIP_RECORDS); those with an end that none of DESCRIBED_IDS describes
    are orphans."""
    described = set(entity_records["entity_id"].unique())
    source, target = (
        named_relationships[f"{end}_entity_id"].isin(described) for end in ("source", "target")
    )
    return named_relationships.assign(
        fault=named_relationships["fault"].where(source & target, "orphan")
    )


def reject_records(extractions: pd.DataFrame, relationship_records: pd.DataFrame) -> pd.DataFrame:
    """REJECTS: records (LISTED_RECORDS) that are incomplete, and relationships with a fault
    (FAULTY_RECORDS)."""
    links = relationship_records.assign(kind="relationship", name="")
    loops, orphans = (links[links["fault"] == fault] for fault in ("self_loop", "orphan"))
    lacking = extractions[_incomplete(extractions)]
    rows = [
        *_rejects(loops, "self_loop"),
        *_rejects(orphans, "orphan"),
        *_rejects(lacking, "incomplete"),
    ]
    return REJECTS.frame(rows)


def _relationship_ids(sources: pa.Array, targets: pa.Array) -> pa.Array:
    """``relationship_id`` of each two."""
    ends = (pc.utf8_slice_codeunits(ids, len("ent-")) for ids in (sources, targets))
    return pc.binary_join_element_wise(pa.scalar("rel", STRING), *ends, pa.scalar("-", STRING))


def complete(extractions: pd.DataFrame) -> pd.DataFrame:
    """The records without those that are incomplete."""
    lacking = _incomplete(extractions)
    return extractions[~lacking] if lacking.any() else extractions


def names_of_people(records: pd.DataFrame) -> pd.DataFrame:
    """(text_unit_id, name, key): names in the records of text units, each once, and their match
    keys; but for what one of these records calls by a type of what is no person."""
    there = [(records[end] != "").to_numpy(dtype=bool) for end in ENDS]
    nobody = is_nobody(records["type"]).to_numpy(dtype=bool)
    units = coded(records["text_unit_id"])
    names = coded(*(records[end][rows] for end, rows in zip(ENDS, there, strict=True)))
    size = len(names.texts)
    pairs = paired(np.concatenate([units.codes[rows] for rows in there]), names.codes, size)
    excluded = pairs[: there[0].sum()][nobody[there[0]]]
    unit, name = np.divmod(np.setdiff1d(pairs, excluded), size)
    keys = coded(pd.Series(list(map(match_key, names.texts.to_pylist())), dtype="str"))
    named = pd.DataFrame(
        {
            "text_unit_id": units.of(unit).to_pandas(),
            "name": names.of(name).to_pandas(),
            "key": keys.of(keys.codes[name]).to_pandas(),
        }
    )
    return named[named["key"] != ""]


def _incomplete(extractions: pd.DataFrame) -> "pd.Series[bool]":
    """Records that do not say what they are, where they were found, or what of."""
    blank = {name: extractions[name].str.strip() == "" for name in ("text_unit_id", *ENDS)}
    entities, links = (extractions["kind"] == kind for kind in ("entity", "relationship"))
    nameless = (entities & blank["name"]) | (links & (blank["source"] | blank["target"]))
    return blank["text_unit_id"] | nameless | ~(entities | links)


def _renamed(records: pd.DataFrame, namesakes: pd.DataFrame) -> pd.DataFrame:
    """The records with fuller names; relationships of a name with itself that come of it are
    gone."""
    named = names_of_people(records)
    named = named[named["key"].isin(namesakes["key"])]
    documents = records.drop_duplicates("text_unit_id").set_index("text_unit_id")["document_id"]
    cells = namesakes[["key", "document_id", "text_unit_id", "suffix", "known"]].itertuples(
        index=False, name=None
    )
    meant = {(key, document, unit): (suffix, known) for key, document, unit, suffix, known in cells}
    fuller = {
        (unit, name): full_name(name, *said)
        for unit, name, key in named.itertuples(index=False, name=None)
        for document in [documents[unit]]
        if (said := meant.get((key, document, unit)) or meant.get((key, document, "")))
    }
    there = records[records["text_unit_id"].isin({unit for unit, _ in fuller})]
    units = there["text_unit_id"].tolist()
    full = {
        end: [fuller.get(pair, pair[1]) for pair in zip(units, there[end].tolist(), strict=True)]
        for end in ENDS
    }
    renamed = there.assign(
        **{end: pd.Series(names, there.index, dtype="str") for end, names in full.items()}
    )
    alias = _loops(renamed) & ~_loops(there)
    return pd.concat([records.drop(there.index), renamed[~alias]]).sort_index()


def _loops(records: pd.DataFrame) -> "pd.Series[bool]":
    """Relationships of a name with itself."""
    source, target = (records[end].map(match_key) for end in ("source", "target"))
    return (source == target) & (records["kind"] == "relationship")


def _rejects(records: pd.DataFrame, reason: str) -> Iterator[dict[str, str]]:
    columns = ["text_unit_id", "kind", "name", "source", "target", "description"]
    for unit, kind, name, source, target, description in records[columns].itertuples(index=False):
        said = {
            "self_loop": f"{source!r} related to itself",
            "orphan": f"{source!r} and {target!r} related, and an end is described nowhere",
            "incomplete": (
                f"record of kind {kind!r}, name {name!r}, source {source!r}, target {target!r}"
                " lacks one"
            ),
        }[reason]
        message = f"{said}: {description}"[:300]
        yield {"step": "", "row_id": unit, "kind": "record", "reason": reason, "message": message}
