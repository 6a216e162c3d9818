"""correct_extractions: apply the decisions of people to what was extracted."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from pipeline.contract.reasons import decided
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    CORRECTION_MATCHES,
    CORRECTIONS,
    EXTRACTIONS,
    REJECTS,
    UNIT_TEXTS,
)
from pipeline.corrections.records import Unit, correct_unit
from pipeline.corrections.rules import Record, Rules
from pipeline.text.ids import clean_name, match_key

NAME_COLUMNS = ("name", "source", "target")


class CorrectParams(Params):
    """``uncited``: follow values of properties that people have set without naming a document.

    The views of some documents do not follow them.
    """

    uncited: bool = True


@verb(
    inputs={"extractions": EXTRACTIONS, "text_units": UNIT_TEXTS, "corrections": CORRECTIONS},
    outputs={
        "corrected_extractions": EXTRACTIONS,
        "correction_matches": CORRECTION_MATCHES,
        "rejects": REJECTS,
    },
    keyed={"extractions": ("text_unit_id",), "text_units": ("id",)},
    row_of={
        "corrected_extractions": "text_unit_id",
        "correction_matches": "text_unit_id",
        "rejects": "row_id",
    },
    reasons={"corrected": decided("a record that a line of corrections.jsonl deletes")},
)
def correct_extractions(
    extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    corrections: pd.DataFrame,
    params: CorrectParams = CorrectParams(),
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the extractions as people want them, which correction changed what, and rejects.

    ``extractions`` themselves stay as the model gave them. ``correction_matches`` counts for each
    correction and text unit the records that it changed. A deleted record is a reject of the reason
    ``corrected``, which is a decision and no loss.
    """
    if not params.uncited:
        is_uncited = (corrections["kind"] == "set_property") & (corrections["document_id"] == "")
        corrections = corrections[~is_uncited]
    rules = Rules.from_table(corrections)
    touched = _find_touched_units(extractions, text_units, rules)
    is_touched = extractions["text_unit_id"].isin(touched)
    units = _read_units(extractions[is_touched], text_units, touched)
    for unit in units:
        correct_unit(unit, rules)
    records = [record for unit in units for record in unit.records]
    corrected, renamed = _rename_everywhere(extractions[~is_touched], rules)
    if records:
        corrected = pd.concat([corrected, EXTRACTIONS.frame(records)], ignore_index=True)
    matches = [
        (correction, unit.id, count) for unit in units for correction, count in unit.matches.items()
    ]
    rejects = [row for unit in units for row in _list_rejects(unit)]
    return corrected, CORRECTION_MATCHES.frame([*renamed, *matches]), REJECTS.frame(rejects)


def _rename_everywhere(
    extractions: pd.DataFrame, rules: Rules
) -> tuple[pd.DataFrame, list[tuple[str, str, int]]]:
    """Return records with names that are renamed everywhere, and rows of CORRECTION_MATCHES.

    Master data may rename in most text units, so whole columns are renamed at once. The result is
    that of ``correct_unit`` where no other rule holds.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for column in NAME_COLUMNS:
        names = extractions[column]
        found = {
            name: rule
            for name in names.unique()
            if (rule := rules.renamed_everywhere.get(match_key(name))) is not None
        }
        if not found:
            continue
        is_renamed = names.isin(list(found))
        old_names = names[is_renamed]
        units = extractions["text_unit_id"][is_renamed]
        for name, unit in zip(old_names, units, strict=True):
            counts[found[name].id, unit] += 1
        new_names = {name: clean_name(rule.to) for name, rule in found.items()}
        renamed = names.where(~is_renamed, names.map(new_names))
        extractions = extractions.assign(**{column: renamed})
    return extractions, [(*place, count) for place, count in counts.items()]


def _find_touched_units(
    extractions: pd.DataFrame, text_units: pd.DataFrame, rules: Rules
) -> set[str]:
    """Return the ids of the text units that a rule may change, but for renaming everywhere."""
    if not rules.all_keys and not rules.additions:
        return set()
    touched: set[str] = set()
    for column in NAME_COLUMNS:
        names = extractions[column]
        # The key is made once for each distinct name: a corpus repeats its names often.
        concerned = [name for name in names.unique() if match_key(name) in rules.all_keys]
        touched.update(extractions["text_unit_id"][names.isin(concerned)])
    gets_statement = text_units["document_id"].isin(list(rules.additions))
    touched.update(text_units["id"][gets_statement])
    return touched


def _read_units(
    extractions: pd.DataFrame, text_units: pd.DataFrame, touched: set[str]
) -> list[Unit]:
    """Return the touched text units with their records in order."""
    by_unit: dict[str, list[Record]] = {id: [] for id in touched}
    ordered = extractions.sort_values(["text_unit_id", "order"])
    # Type checkers do not know that the columns are texts.
    records: Any = ordered.to_dict("records")
    for record in records:
        by_unit[record["text_unit_id"]].append(record)
    wanted = text_units[text_units["id"].isin(touched)]
    places: Any = wanted.drop_duplicates("id").set_index("id").to_dict("index")
    units = []
    for id in sorted(touched):
        place = places.get(id, {"document_id": "", "order": 0, "text": ""})
        units.append(Unit(id, place["document_id"], place["order"], place["text"], by_unit[id]))
    return units


def _list_rejects(unit: Unit) -> Iterator[dict[str, str]]:
    """Yield a row of REJECTS for each record that was deleted."""
    for correction, record in unit.deleted:
        names = record["name"] or f"{record['source']} -> {record['target']}"
        message = f"deleted by correction {correction}: {record['kind']} {names}"
        yield make_reject(unit.id, "corrected", message)
