"""Different people of the same name: which of them each text unit means.

A text unit tells them apart by what it says behind a name, such as a place or the years of a life.
"""

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
from pipeline.verbs.merging.records import find_names_of_people, select_complete
from pipeline.verbs.merging.tables import BEARERS, FULL_NAMES, NAMESAKES

Facts = list[tuple[int, Bearer]]
"""Facts about people in a text, each with its position there."""
BEARER_FIELDS = ["suffix", "place", "ordinal", "born", "died"]
"""The fields of Bearer, which are columns of BEARERS."""


def find_bearers(
    extractions: pd.DataFrame, text_units: pd.DataFrame, tracker: Tracker = UNTRACKED
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return BEARERS and FULL_NAMES: the facts about people, and names that begin with another.

    The names come from ``extractions`` (NAMING_RECORDS), the facts from the texts of ``text_units``
    (TEXT_UNITS). Names in text units that are not there are left out.
    """
    units = text_units.drop_duplicates("id", keep="last")
    tracker.expect(len(units))
    named = find_names_of_people(select_complete(extractions))
    named = named[named["text_unit_id"].isin(units["id"])]
    facts: dict[str, tuple[str, Facts]] = {}
    texts = units["text"].fillna("")
    for unit, text in zip(_as_objects(units["id"]), _as_objects(texts), strict=True):
        found = list(what_is_said(text))
        if found:
            facts[unit] = (text, found)
        tracker.finished(1)
    return _list_bearers(facts, named, units), _list_full_names(named)


def tell_namesakes(bearers: pd.DataFrame, full_names: pd.DataFrame) -> pd.DataFrame:
    """Return NAMESAKES: which person a text unit or a document means by a name of several people.

    ``bearers`` are BEARERS and ``full_names`` are FULL_NAMES. A text unit means the person whom it
    gives facts about. One that gives none means the person of the other text units of its document,
    if these agree. Where this decides nothing, there is no row, and the name keeps no suffix.
    """
    facts_of_keys = bearers[["key", *BEARER_FIELDS]].drop_duplicates()
    number_of_facts = facts_of_keys["key"].value_counts()
    ambiguous_keys = number_of_facts.index[number_of_facts > 1]
    ambiguous = bearers[bearers["key"].isin(ambiguous_keys)]
    used_full_names = full_names[full_names["key"].isin(ambiguous["key"])]
    full_names_of_key = used_full_names.groupby("key")["full"].agg(list)
    rows = []
    for key, bearers_of_key in ambiguous.groupby("key"):
        full_names_known = full_names_of_key.get(key, [])
        for document, unit, suffix in _choose_suffixes(bearers_of_key):
            known = full_names_asked(str(key), suffix, full_names_known)
            rows.append((key, document, unit, suffix, known))
    return NAMESAKES.frame(rows)


def _list_bearers(
    facts: Mapping[str, tuple[str, Facts]], named: pd.DataFrame, units: pd.DataFrame
) -> pd.DataFrame:
    """Return BEARERS.

    ``facts`` maps a text unit to its text and the facts in it. ``named`` is what
    ``find_names_of_people`` returns, ``units`` are TEXT_UNITS.
    """
    # A name with a number, such as "Charles I of Spain", is a fact itself: the text need say none.
    distinct_names = _as_objects(named["name"].drop_duplicates())
    numbered_names = [name for name in distinct_names if numbered(name)]
    units_with_numbers = _as_objects(named["text_unit_id"][named["name"].isin(numbered_names)])
    units_with_facts = {*facts, *units_with_numbers}
    named = named[named["text_unit_id"].isin(units_with_facts)]

    # Text unit -> name -> match key.
    keys_of_names: dict[str, dict[str, str]] = defaultdict(dict)
    columns = [_as_objects(named[column]) for column in ("text_unit_id", "name", "key")]
    for unit, name, key in zip(*columns, strict=True):
        keys_of_names[unit][name] = key
    units = units[units["id"].isin(keys_of_names.keys())]
    rows: list[tuple[object, ...]] = []
    unit_ids = _as_objects(units["id"])
    document_ids = _as_objects(units["document_id"])
    for unit, document in zip(unit_ids, document_ids, strict=True):
        text, facts_of_text = facts.get(unit, ("", []))
        counts = Counter(bearers_of(keys_of_names[unit], text, facts_of_text))
        for (key, bearer), count in counts.items():
            cells = [getattr(bearer, field) for field in BEARER_FIELDS]
            rows.append((unit, document, key, *cells, count))
    return BEARERS.frame(rows)


def _list_full_names(named: pd.DataFrame) -> pd.DataFrame:
    """Return FULL_NAMES for the names that ``find_names_of_people`` returns."""
    full_and_bare: list[tuple[str, str]] = []
    for full in _as_objects(named["key"].drop_duplicates()):
        full_and_bare += [(full, bare) for bare in bare_names(full)]
    bare_keys = pd.DataFrame(full_and_bare, columns=["full", "key"], dtype="str")
    full_keys = named[["text_unit_id", "key"]].drop_duplicates()
    full_keys = full_keys.rename(columns={"key": "full"})
    return full_keys.merge(bare_keys, on="full")[FULL_NAMES.columns]


def _choose_suffixes(bearers: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield document, text unit and suffix where one person of a name is meant.

    The text unit is empty if the whole document means that person. ``bearers`` are the BEARERS of
    one name.
    """
    cells = bearers[BEARER_FIELDS].itertuples(index=False, name=None)
    facts = [Bearer(*fields) for fields in cells]
    counts: Counter[Bearer] = Counter()
    for bearer, count in zip(facts, bearers["count"].tolist(), strict=True):
        counts[bearer] += count
    person_of = people(counts)
    if not person_of:
        return  # All facts fit one person.
    # Document -> text unit -> the people whom it gives facts about.
    persons: dict[str, dict[str, set[Bearer]]] = defaultdict(lambda: defaultdict(set))
    places = zip(facts, bearers["document_id"], bearers["text_unit_id"], strict=True)
    for bearer, document, unit in places:
        persons[document][unit].add(person_of[bearer])
    for document, persons_by_unit in persons.items():
        persons_of_document = set[Bearer]().union(*persons_by_unit.values())
        if len(persons_of_document) == 1:
            (person,) = persons_of_document
            yield document, "", person.suffix
            continue
        for unit, persons_of_unit in persons_by_unit.items():
            if len(persons_of_unit) == 1:
                (person,) = persons_of_unit
                yield document, unit, person.suffix


def _as_objects(texts: pd.Series) -> np.ndarray:
    """Return the texts as Python strings, which are read faster than cells of an Arrow column."""
    return texts.to_numpy(dtype=object)
