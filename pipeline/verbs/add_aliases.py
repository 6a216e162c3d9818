"""add_aliases: make a renaming of each alias that master data give, beside people's corrections."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.contract.laws import Law, Part
from pipeline.contract.reasons import decided
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import CORRECTIONS, REJECTS, STRING, table
from pipeline.text.ids import digest, match_key
from pipeline.verbs.add_tables import DOCUMENT_IDS, unite

MASTER_ROWS = table("id", id=STRING, source=STRING, metadata=STRING)
"""The columns of documents of ``read_table`` that say which names a row gives to its entity."""
NAMES = table("document_id", "alias", document_id=STRING, place=STRING, name=STRING, alias=STRING)
"""The names that rows of master data give to their entities.

``name`` is the entity's own name. ``alias`` is another one, or the own name once more. ``place`` is
the file and the line.
"""
AMBIGUOUS = "ambiguous_alias"
_DIGITS = 20
"""Hexadecimal digits of an alias' id: no two of many millions have the same."""
_SHOWN = 3
"""The most other rows that the message of a reject names."""


def list_names(documents: pd.DataFrame, table_documents: pd.DataFrame) -> pd.DataFrame:
    """Return NAMES of the documents that are rows of master data."""
    rows: set[tuple[str, ...]] = set()
    is_there = table_documents["id"].isin(documents["id"])
    master_rows = table_documents[MASTER_ROWS.columns][is_there]
    cells: Any = master_rows.itertuples(index=False, name=None)
    for id, source, metadata_json in cells:
        metadata = json.loads(metadata_json or "{}")
        record = metadata.get("record", {})
        if "aliases" not in record:
            continue
        file, _, _ = source.partition("#")
        place = f"{file}:{metadata['row']}"
        name = record["name"]
        for alias in (name, *record["aliases"]):
            rows.add((id, place, name, alias))
    return NAMES.frame(sorted(rows))


def rename_aliases(
    names: pd.DataFrame, corrections: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return CORRECTIONS with a renaming of each alias, and rejects of ambiguous ones.

    What people decide about an alias goes before the table. The new name of a renamed entity is
    that of its aliases too, and the aliases of a deleted entity are deleted.
    """
    decisions = _Decisions.of(corrections)
    own_names = set(names["name"])
    keys = {name: match_key(name) for name in own_names | set(names["alias"])}
    spelling_of: dict[str, str] = {}
    # Where rows write a name in several ways, the first one in the order of the alphabet counts:
    # it comes last here, and replaces the others.
    for name in sorted(own_names, reverse=True):
        spelling_of[keys[name]] = name
    claims_on: dict[str, list[Any]] = {}
    claims: Any = names.itertuples(index=False)
    for claim in claims:
        claims_on.setdefault(keys[claim.alias], []).append(claim)
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, str]] = []
    for alias, claims_on_alias in sorted(claims_on.items()):
        targets = {keys[claim.name] for claim in claims_on_alias}
        if len(targets) > 1:
            is_own_name = alias in spelling_of
            rejects += _reject_all(is_own_name, claims_on_alias, keys)
        elif alias not in targets:
            (target,) = targets
            rows += decisions.rename(claims_on_alias[0].alias, spelling_of[target])
    united = unite(corrections[CORRECTIONS.columns], CORRECTIONS.frame(rows))
    return united, REJECTS.frame(rejects)


@dataclass(frozen=True)
class _Decisions:
    """The decisions of people on names everywhere, by match keys.

    ``renamed`` maps to new names and ``deleted`` to ids of decisions. ``different`` has pairs.
    """

    renamed: Mapping[str, str]
    deleted: Mapping[str, str]
    different: frozenset[frozenset[str]]

    @classmethod
    def of(cls, corrections: pd.DataFrame) -> "_Decisions":
        restrictions = corrections["type"] + corrections["document_id"] + corrections["quote"]
        is_everywhere = restrictions == ""
        renamed: dict[str, str] = {}
        deleted: dict[str, str] = {}
        different: set[frozenset[str]] = set()
        decisions: Any = corrections[is_everywhere].itertuples(index=False)
        for decision in decisions:
            if decision.kind == "rename":
                renamed[match_key(decision.source)] = decision.to
            elif decision.kind == "delete_entity":
                deleted[match_key(decision.source)] = decision.id
            elif decision.kind == "different":
                different.add(frozenset({match_key(decision.source), match_key(decision.target)}))
        return cls(renamed, deleted, frozenset(different))

    def rename(self, alias: str, name: str) -> Iterator[dict[str, Any]]:
        """Yield the row of CORRECTIONS that an alias gives, unless people decide otherwise."""
        key, target = match_key(alias), match_key(name)
        if key in self.renamed or key in self.deleted or {key, target} in self.different:
            return
        id = f"alias-{digest(key)[:_DIGITS]}"
        row: dict[str, Any] = dict.fromkeys(CORRECTIONS.columns, "")
        row["append"] = False
        row["source"] = alias
        if target in self.deleted:
            row["kind"] = "delete_entity"
            # The id names the decision, for rejects show it.
            row["id"] = f"{self.deleted[target]}-{id}"
        else:
            row["kind"] = "rename"
            row["id"] = id
            row["to"] = self.renamed.get(target, name)
        yield row


def _reject_all(
    is_name: bool, claims: Sequence[Any], keys: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each claim on an ambiguous alias.

    With ``is_name`` it is the name of an entity, whose own row is right.
    """
    for claim in claims:
        if is_name and keys[claim.name] == keys[claim.alias]:
            continue
        of_others = [other for other in claims if keys[other.name] != keys[claim.name]]
        places = _name_places(of_others)
        fact = f"{claim.place}: the alias {claim.alias!r} of {claim.name!r} is a name of {places}"
        message = f"{fact}, and links nothing; remove it from one of the rows"
        yield make_reject(claim.place, AMBIGUOUS, message, "row")


def _name_places(claims: Sequence[Any]) -> str:
    """Return the names and places of the first claims as text."""
    places = [f"{claim.name!r} ({claim.place})" for claim in claims[:_SHOWN]]
    listed = ", ".join(places)
    n_more = len(claims) - _SHOWN
    return f"{listed} and {n_more} more" if n_more > 0 else listed


def _list_parts(params: Params) -> tuple[Part, ...]:
    """Return the sub-steps of add_aliases: read the names, then decide on all of them."""
    law = Law({"documents": ("id",), "table_documents": ("id",)}, row_of={"names": "document_id"})
    read = {"documents": DOCUMENT_IDS, "table_documents": MASTER_ROWS}
    outputs = {"corrections_with_aliases": CORRECTIONS, "rejects": REJECTS}
    return (
        Part(list_names, inputs=read, outputs={"names": NAMES}, law=law),
        Part(
            rename_aliases,
            inputs={"names": NAMES, "corrections": CORRECTIONS},
            outputs=outputs,
            law=None,
        ),
    )


@verb(
    inputs={
        "documents": DOCUMENT_IDS,
        "table_documents": MASTER_ROWS,
        "corrections": CORRECTIONS,
    },
    outputs={"corrections_with_aliases": CORRECTIONS, "rejects": REJECTS},
    parts=_list_parts,
    reasons={
        AMBIGUOUS: decided("an alias in master data that is a name of another row's entity"),
    },
)
def add_aliases(
    documents: pd.DataFrame, table_documents: pd.DataFrame, corrections: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return CORRECTIONS with a renaming of each alias that master data give, and rejects.

    ``table_documents`` are those of read_table, of which ``documents`` has those to follow. An
    alias is found by its match key, as all names are. One that rows of two entities claim is a
    reject of the reason ``ambiguous_alias``, which is a decision, and links nothing. So is one that
    is the name of another row's entity. Corrections of people go before aliases.
    """
    return rename_aliases(list_names(documents, table_documents), corrections)
