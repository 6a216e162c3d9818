"""Who is meant where a name means several: what each text unit says of its bearers, and what all of
them come to."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from pipeline.contract.registry import UNTRACKED, Tracker
from pipeline.resolution.namesakes import (
    Bearer,
    bare_names,
    bearers_of,
    full_names_asked,
    numbered,
    people,
    what_is_said,
)
from pipeline.verbs.merging.records import complete, names_of_people
from pipeline.verbs.merging.tables import BEARERS, FULL_NAMES, NAMESAKES

SAID = ["suffix", "place", "ordinal", "born", "died"]


def find_bearers(
    extractions: pd.DataFrame, text_units: pd.DataFrame, tracker: Tracker = UNTRACKED
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What text units (TEXT_UNITS) say of those whom their records (NAMING_RECORDS) call by a name
    (BEARERS), and which of the names are fuller forms of others (FULL_NAMES)."""
    units = text_units.drop_duplicates("id", keep="last")
    tracker.expect(len(units))
    named = names_of_people(complete(extractions))
    named = named[named["text_unit_id"].isin(units["id"])]
    said: dict[str, tuple[str, list[tuple[int, Bearer]]]] = {}
    for unit, text in zip(_cells(units["id"]), _cells(units["text"].fillna("")), strict=True):
        if found := list(what_is_said(text)):
            said[unit] = (text, found)
        tracker.finished(1)
    return _bearers(said, named, units), _full_names(named)


def tell_namesakes(bearers: pd.DataFrame, full_names: pd.DataFrame) -> pd.DataFrame:
    """Whom text units mean by names that mean several (NAMESAKES), from BEARERS and FULL_NAMES.

    A text unit means those of whom it says something; one that says nothing means whom the others
    of its document mean, if these agree; what is open has no row, and keeps the bare name."""
    kinds = bearers[["key", *SAID]].drop_duplicates()["key"].value_counts()
    several = bearers[bearers["key"].isin(kinds.index[kinds > 1])]
    known = full_names[full_names["key"].isin(several["key"])].groupby("key")["full"].agg(list)
    return NAMESAKES.frame(
        (key, *meant, full_names_asked(str(key), meant[-1], known.get(key, [])))
        for key, rows in several.groupby("key")
        for meant in _meant(rows)
    )


def _bearers(
    said: Mapping[str, tuple[str, list[tuple[int, Bearer]]]],
    named: pd.DataFrame,
    units: pd.DataFrame,
) -> pd.DataFrame:
    """BEARERS of text units with their texts and what these say of anybody."""
    forms = [name for name in _cells(named["name"].drop_duplicates()) if numbered(name)]
    talking = {*said, *_cells(named["text_unit_id"][named["name"].isin(forms)])}
    named = named[named["text_unit_id"].isin(talking)]
    names: dict[str, dict[str, str]] = defaultdict(dict)
    for unit, name, key in zip(
        *map(_cells, (named[column] for column in named.columns)), strict=True
    ):
        names[unit][name] = key
    units = units[units["id"].isin(names.keys())]
    rows: list[tuple[object, ...]] = []
    for unit, document in zip(_cells(units["id"]), _cells(units["document_id"]), strict=True):
        counts = Counter(bearers_of(names[unit], *said.get(unit, ("", []))))
        rows += [
            (unit, document, key, *(getattr(one, cell) for cell in SAID), n)
            for (key, one), n in counts.items()
        ]
    return BEARERS.frame(rows)


def _full_names(named: pd.DataFrame) -> pd.DataFrame:
    """FULL_NAMES of names with their text units and match keys."""
    heads = [
        (full, bare) for full in _cells(named["key"].drop_duplicates()) for bare in bare_names(full)
    ]
    of_keys = pd.DataFrame(heads, columns=["full", "key"], dtype="str")
    found = named[["text_unit_id", "key"]].drop_duplicates().rename(columns={"key": "full"})
    return found.merge(of_keys, on="full")[FULL_NAMES.columns]


def _meant(rows: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Of one name the documents, text units and suffixes, where it means one of several."""
    said = [Bearer(*cells) for cells in rows[SAID].itertuples(index=False, name=None)]
    counts: Counter[Bearer] = Counter()
    for bearer, count in zip(said, rows["count"].tolist(), strict=True):
        counts[bearer] += count
    one_of = people(counts)
    documents: dict[str, dict[str, set[Bearer]]] = defaultdict(lambda: defaultdict(set))
    for bearer, document, unit in zip(said, rows["document_id"], rows["text_unit_id"], strict=True):
        if one_of:
            documents[document][unit].add(one_of[bearer])
    for document, units in documents.items():
        of_document = set[Bearer]().union(*units.values())
        for unit, of_unit in [("", of_document)] if len(of_document) == 1 else units.items():
            if len(of_unit) == 1:
                yield document, unit, next(iter(of_unit)).suffix


def _cells(texts: pd.Series) -> np.ndarray:
    """The texts as Python's own, all at once."""
    return texts.to_numpy(dtype=object)
