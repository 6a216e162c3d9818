"""Find the corrections that may hold for a record, by the names that they are about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd

from pipeline.text.ids import match_key

Record = dict[str, Any]
"""A row of EXTRACTIONS."""
Rule = Any
"""A row of CORRECTIONS, a named tuple."""


@dataclass(frozen=True)
class Rules:
    """The corrections, found by the match keys of the names that they are about.

    ``renamed_everywhere``: the renaming of each match key that has one in all text units.
    """

    by_kind: Mapping[str, Sequence[Rule]]
    renamed_everywhere: Mapping[str, Rule]

    @classmethod
    def from_table(cls, corrections: pd.DataFrame) -> "Rules":
        """Return the rules of a table CORRECTIONS, in the order of their ids."""
        by_kind: dict[str, list[Rule]] = {}
        rules: Iterator[Any] = corrections.sort_values("id").itertuples(index=False)
        for rule in rules:
            by_kind.setdefault(rule.kind, []).append(rule)
        renamed_everywhere = {
            match_key(rule.source): rule
            for rule in by_kind.get("rename", ())
            if _is_everywhere(rule)
        }
        return cls(by_kind, renamed_everywhere)

    def select_for(self, records: Iterable[Record]) -> "Rules":
        """Return the rules that may hold for one of the records, in their order.

        Without this, each text unit would be compared with each rule.
        """
        keys: set[str] = set()
        for record in records:
            keys |= list_keys(record)
        # Rules for the new name of an entity hold for it too. A name is renamed once only.
        for rule in self._list_rules(keys):
            if rule.kind == "rename":
                keys.add(match_key(rule.to))
        by_kind: dict[str, list[Rule]] = {}
        for rule in self._list_rules(keys):
            by_kind.setdefault(rule.kind, []).append(rule)
        return Rules(by_kind, self.renamed_everywhere)

    def _list_rules(self, keys: Iterable[str]) -> list[Rule]:
        """Return the rules about names with these match keys, before or after renaming."""
        places = {place for key in keys for place in self._places_by_key.get(key, ())}
        return [self._all_rules[place] for place in sorted(places)]

    @cached_property
    def _all_rules(self) -> Sequence[Rule]:
        return list(chain.from_iterable(self.by_kind.values()))

    @cached_property
    def _places_by_key(self) -> Mapping[str, Sequence[int]]:
        """The places in ``_all_rules`` of the rules about a match key."""
        places: dict[str, list[int]] = {}
        for place, rule in enumerate(self._all_rules):
            for key in {match_key(rule.source), self.follow(rule.source)}:
                places.setdefault(key, []).append(place)
        return places

    def follow(self, name: str) -> str:
        """Return the match key of a name after it was renamed everywhere."""
        key = match_key(name)
        renaming = self.renamed_everywhere.get(key)
        return key if renaming is None else match_key(renaming.to)

    @cached_property
    def all_keys(self) -> frozenset[str]:
        """The match keys of all names for which a rule may hold that is no renaming everywhere.

        A rule about a new name holds for the names that become it, too.
        """
        keys: set[str] = set()
        for kind, rules in self.by_kind.items():
            # Names that are decided to be different keep aliases away, and change no record.
            holding = () if kind == "different" else rules
            for rule in holding:
                if kind == "rename" and _is_everywhere(rule):
                    continue
                names = [name for name in (rule.source, rule.target) if name]
                keys.update(map(match_key, names))
                keys.update(map(self.follow, names))
        renamed = {old for old in self.renamed_everywhere if self.follow(old) in keys}
        return frozenset(keys | renamed)

    @cached_property
    def additions(self) -> Mapping[str, Sequence[Rule]]:
        """The statements to add, and the values that are cited, by document."""
        by_document: dict[str, list[Rule]] = {}
        for kind in ("add_statement", "set_property"):
            for rule in self.by_kind.get(kind, ()):
                if rule.document_id:
                    by_document.setdefault(rule.document_id, []).append(rule)
        return by_document


def list_keys(record: Record) -> set[str]:
    """Return the match keys of the names in a record."""
    names = (record["name"], record["source"], record["target"])
    return {match_key(name) for name in names if name}


def _is_everywhere(rule: Rule) -> bool:
    """Check that a renaming holds for all text units."""
    return not (rule.type or rule.document_id or rule.quote)
