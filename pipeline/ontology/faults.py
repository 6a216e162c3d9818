"""Find the mistakes in an ontology that one key alone does not show."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.ontology.schema import (
    ANY_TYPE,
    OTHER,
    OTHER_TYPE,
    EnumValue,
    Ontology,
    Property,
    TypeSection,
)
from pipeline.ontology.text_patterns import find_pattern_fault
from pipeline.ontology.type_names import TypeNames, type_key
from pipeline.settings.validation import did_you_mean

Place = tuple[str | int, ...]
"""The keys and positions that lead to a value of the file."""


@dataclass(frozen=True)
class Fault:
    """A mistake: its place in the file, and a message that says what to do."""

    place: Place
    message: str


def find_faults(ontology: Ontology) -> Iterator[Fault]:
    """Yield the mistakes of an ontology whose keys and values are valid by themselves."""
    yield from _check_types("entity_types", ontology.entity_types)
    yield from _check_types("relationship_types", ontology.relationship_types)
    otherwise = ontology.otherwise
    if otherwise.entity_types == OTHER:
        yield from _check_other("entity_types", ontology.entity_types)
    if OTHER in (otherwise.relationship_types, otherwise.patterns):
        yield from _check_other("relationship_types", ontology.relationship_types)
    yield from _check_parents(ontology)
    yield from _check_patterns(ontology)


def names_of(types: Iterable[TypeSection]) -> TypeNames:
    """Return the names of the types with their synonyms."""
    return TypeNames.of((one.name, one.synonyms) for one in types)


def _check_types(section: str, types: Sequence[TypeSection]) -> Iterator[Fault]:
    yield from _check_names((section,), types, type_key)
    for position, one in enumerate(types):
        yield from _check_properties((section, position, "properties"), one.properties)


def _check_other(section: str, types: Sequence[TypeSection]) -> Iterator[Fault]:
    """Yield a fault for a type that is OTHER in another spelling, for there would be two of it."""
    for position, one in enumerate(types):
        if one.name != OTHER_TYPE and type_key(one.name) == type_key(OTHER_TYPE):
            fact = f"'{one.name}' is not {OTHER_TYPE}, the type of everything outside"
            yield Fault((section, position, "name"), f"{fact}; write {OTHER_TYPE}")


def _check_names(
    place: Place,
    named: Sequence[TypeSection | Property | EnumValue],
    key_of: Callable[[str], str],
) -> Iterator[Fault]:
    """Yield a fault for each name or synonym that means something else too.

    Spellings that have one key by ``key_of`` are the same.
    """
    taken: dict[str, str] = {}
    times = Counter(one.name for one in named)
    for position, one in enumerate(named):
        spellings = [("name", one.name)]
        spellings += [("synonyms", synonym) for synonym in one.synonyms]
        for key, spelling in spellings:
            known = taken.setdefault(key_of(spelling), one.name)
            if known != one.name or (key == "name" and times[one.name] > 1):
                yield Fault(
                    (*place, position, key),
                    f"'{spelling}' is a name of '{known}' already; remove one of them",
                )


def _check_properties(place: Place, properties: Sequence[Property]) -> Iterator[Fault]:
    yield from _check_names(place, properties, type_key)
    for position, one in enumerate(properties):
        here = (*place, position)
        # Signs tell values apart: A and A- are two.
        yield from _check_names((*here, "values"), one.values, str.casefold)
        if one.type == "enum" and not one.values:
            yield Fault((*here, "type"), "an enum needs values; list those that are allowed")
        if one.values and one.type != "enum":
            yield Fault((*here, "values"), f"a {one.type} has no values; write type: enum")
        if one.unit and one.type != "number":
            yield Fault((*here, "unit"), f"a {one.type} has no unit; write type: number")
        if one.pattern and one.type not in ("string", "list"):
            yield Fault((*here, "pattern"), f"a {one.type} has no pattern; write type: string")
        pattern_fault = find_pattern_fault(one.pattern)
        if pattern_fault:
            yield Fault((*here, "pattern"), f"no regular expression ({pattern_fault}); correct it")


def _check_parents(ontology: Ontology) -> Iterator[Fault]:
    names = names_of(ontology.entity_types)
    parents = parents_of(ontology)
    for position, one in enumerate(ontology.entity_types):
        place = ("entity_types", position, "parent")
        if one.parent is None:
            continue
        if names.find(one.parent) is None:
            suggestion = did_you_mean(one.parent, set(names.exact.values()))
            yield Fault(place, f"no entity type '{one.parent}'; {suggestion}")
        elif one.name in ancestors_of(one.name, parents)[1:]:
            yield Fault(place, f"'{one.name}' is its own parent, directly or by others; remove it")


def _check_patterns(ontology: Ontology) -> Iterator[Fault]:
    entities = ends_of(ontology)
    relationships = names_of(ontology.relationship_types)
    kinds = (
        ("entity type", entities),
        ("relationship type", relationships),
        ("entity type", entities),
    )
    for position, pattern in enumerate(ontology.patterns):
        for part, (name, (kind, names)) in enumerate(zip(pattern, kinds, strict=True)):
            if names.find(name) is None:
                suggestion = did_you_mean(name, set(names.exact.values()))
                yield Fault(("patterns", position, part), f"no {kind} '{name}'; {suggestion}")


def ends_of(ontology: Ontology) -> TypeNames:
    """Return the names of the types that the ends of a pattern may have.

    Every type may be meant by ANY_TYPE. OTHER is one of them if the ontology gives it to entities
    outside.
    """
    types: list[tuple[str, Sequence[str]]] = [
        (one.name, one.synonyms) for one in ontology.entity_types
    ]
    types.append((ANY_TYPE, ()))
    if ontology.otherwise.entity_types == OTHER:
        types.append((OTHER_TYPE, ()))
    return TypeNames.of(types)


def parents_of(ontology: Ontology) -> dict[str, str]:
    """Return the parent of each entity type that has one, by name."""
    names = names_of(ontology.entity_types)
    parents: dict[str, str] = {}
    for one in ontology.entity_types:
        parent = names.find(one.parent) if one.parent else None
        if parent is not None:
            parents[one.name] = parent
    return parents


def inherited_properties(ontology: Ontology) -> dict[str, tuple[Property, ...]]:
    """Return the properties of each type of entities: its own, and then those of its parents.

    A property of the type itself goes before one of the same name of a parent.
    """
    own = {one.name: one.properties for one in ontology.entity_types}
    parents = parents_of(ontology)
    found: dict[str, tuple[Property, ...]] = {}
    for name in own:
        by_key: dict[str, Property] = {}
        for ancestor in ancestors_of(name, parents):
            for one in own[ancestor]:
                by_key.setdefault(type_key(one.name), one)
        found[name] = tuple(by_key.values())
    return found


def ancestors_of(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return the type, its parent, the parent of that, and so on.

    If the type is its own ancestor, it is in the list twice.
    """
    found = [name]
    seen = {name}
    while (parent := parents.get(found[-1])) is not None:
        found.append(parent)
        if parent in seen:
            break
        seen.add(parent)
    return found
