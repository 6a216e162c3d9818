"""Read an ontology in RDF or OWL: its classes, properties, domains, ranges and labels (rdflib)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from pipeline.errors import SettingsError, UsageError
from pipeline.ontology.schema import KEEP
from pipeline.text.ids import match_key

EXTRA = "ontology"
JSON_LD = ".jsonld"
RDF_XML = frozenset((".rdf", ".owl", ".xml"))
LONGEST_ADDRESS = 200
"""Characters of an address that a message shows."""
_NESTED = re.compile(r"[&%](?!amp;|lt;|gt;|quot;|apos;|#)\w")
"""A reference to another entity; those to single characters expand to nothing longer."""
_NUMBERS = frozenset(
    ("integer", "int", "long", "short", "decimal", "float", "double", "nonNegativeInteger",
     "positiveInteger")
)  # fmt: skip
_DATES = frozenset(("date", "dateTime", "gYear", "gYearMonth"))
"""Types of XML Schema that are read as numbers or dates; all others are texts."""


@dataclass(frozen=True)
class Imported:
    """The content of ontology.yaml that was read, and the statements that were not understood."""

    content: dict[str, Any]
    not_understood: tuple[str, ...]


def read_turtle(path: Path) -> Imported:
    """Return the ontology of a file: Turtle, or another form of RDF by its suffix.

    Raises UsageError without the extra, SettingsError if the file cannot be read.
    """
    try:
        import rdflib
    except ImportError:
        raise UsageError(
            f"{path}: RDF needs the extra '{EXTRA}'; install graphmill[{EXTRA}]"
        ) from None
    graph = rdflib.Graph()
    if path.suffix.lower() == JSON_LD:
        _refuse_other_contexts(path)
    if path.suffix.lower() in RDF_XML:
        _refuse_nested_entities(path)
    try:
        graph.parse(path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}; name a file to read") from None
    # Each parser of rdflib has errors of its own.
    except Exception as error:  # noqa: BLE001
        first_line = str(error).strip().partition("\n")[0]
        raise SettingsError(f"{path}: no RDF ({first_line[:200]}); correct it") from None
    return _Reader(graph).read()


def _refuse_nested_entities(path: Path) -> None:
    """Raise SettingsError if an entity of an XML file refers to another entity.

    A few lines of such entities expand to a text of any length, and the parser is busy for hours.
    Entities that shorten an address, as OWL files have them, refer to nothing.
    """

    def check(name: str, _is_parameter: bool, value: str | None, *_rest: Any) -> None:
        if _NESTED.search(value or ""):
            raise SettingsError(
                f"{path}: the entity {name[:LONGEST_ADDRESS]!r} refers to another one; write its"
                " value out in its declaration"
            )

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = check
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    # The parser of RDF says below what is wrong with the file.
    except (OSError, expat.ExpatError):
        pass


def _refuse_other_contexts(path: Path) -> None:
    """Raise SettingsError if a file of JSON-LD names a context that stands elsewhere.

    The parser would fetch it, from any address or file. No command reads more than it is given.
    """
    try:
        waiting: list[Any] = [json.loads(path.read_bytes())]
    # The parser says below what is wrong with the file.
    except (OSError, ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        if not isinstance(value, dict):
            continue
        waiting += value.values()
        for key in ("@context", "@import"):
            named = value.get(key)
            contexts = named if isinstance(named, list) else [named]
            elsewhere = [context for context in contexts if isinstance(context, str)]
            if elsewhere:
                raise SettingsError(
                    f"{path}: {key} {elsewhere[0][:LONGEST_ADDRESS]!r} is not in the file, and"
                    " nothing is fetched; write the context itself there"
                )


class _Reader:
    """Reads one graph; ``used`` has the triples that were understood."""

    def __init__(self, graph: Any):
        from rdflib import OWL, RDF, RDFS, SKOS

        self.graph = graph
        self.owl, self.rdf, self.rdfs, self.skos = OWL, RDF, RDFS, SKOS
        self.used: set[Any] = set()

    def read(self) -> Imported:
        """Return the ontology, and each triple that says something else."""
        entity_types = {
            node: self._named(node) for node in self._of_types(self.owl.Class, self.rdfs.Class)
        }
        for node, one in entity_types.items():
            self._add_parent(node, one, entity_types)
        relationship_types: list[dict[str, Any]] = []
        patterns: list[list[str]] = []
        properties = self._of_types(self.owl.ObjectProperty, self.rdf.Property)
        with_values = set(self._of_types(self.owl.DatatypeProperty))
        # A property of RDF may have values too, as its range says.
        with_values |= {node for node in properties if self._has_values(node)}
        for node in properties:
            if node in with_values:
                continue
            one = self._named(node)
            if self._use(node, self.rdf.type, self.owl.SymmetricProperty):
                one["symmetric"] = True
            relationship_types.append(one)
            patterns += self._patterns_of(node, one["name"], entity_types)
        for node in sorted(with_values):
            self._add_property(node, entity_types)
        content = {
            "entity_types": sorted(entity_types.values(), key=lambda one: one["name"]),
            "relationship_types": sorted(relationship_types, key=lambda one: one["name"]),
            "patterns": sorted(patterns),
            # Most ontologies give a domain to some of their properties only.
            "otherwise": {"patterns": KEEP},
        }
        return Imported({key: value for key, value in content.items() if value}, self._unused())

    def _of_types(self, *types: Any) -> list[Any]:
        """Return the named nodes of one of these types, sorted."""
        from rdflib import URIRef

        found: set[Any] = set()
        for type in types:
            for node in self.graph.subjects(self.rdf.type, type):
                if isinstance(node, URIRef):
                    self._use(node, self.rdf.type, type)
                    found.add(node)
        return sorted(found)

    def _use(self, *triple: Any) -> bool:
        """Note that a triple is understood; return whether it is there."""
        if triple not in self.graph:
            return False
        self.used.add(triple)
        return True

    def _objects(self, node: Any, predicate: Any) -> list[Any]:
        found = sorted(self.graph.objects(node, predicate))
        self.used.update((node, predicate, one) for one in found)
        return found

    def _named(self, node: Any) -> dict[str, Any]:
        """Return the entry of a node: its name, and labels and comments where it has such."""
        name = _local_name(node)
        labels = [
            *self._objects(node, self.rdfs.label),
            *self._objects(node, self.skos.prefLabel),
            *self._objects(node, self.skos.altLabel),
        ]
        synonyms: dict[str, str] = {}
        for label in labels:
            if match_key(str(label)) != match_key(name):
                synonyms.setdefault(match_key(str(label)), str(label))
        comments = [
            *self._objects(node, self.rdfs.comment),
            *self._objects(node, self.skos.definition),
        ]
        entry: dict[str, Any] = {"name": name}
        if comments:
            entry["description"] = " ".join(str(comments[0]).split())
        if synonyms:
            entry["synonyms"] = list(synonyms.values())
        return entry

    def _add_parent(
        self, node: Any, one: dict[str, Any], entity_types: dict[Any, dict[str, Any]]
    ) -> None:
        """Add the first class that the class is a subclass of; a type has one parent."""
        for parent in sorted(self.graph.objects(node, self.rdfs.subClassOf)):
            # Reasoners write that each class is a subclass of itself.
            is_itself = parent == node
            if parent in entity_types and not is_itself:
                if "parent" in one:
                    return
                one["parent"] = entity_types[parent]["name"]
                self._use(node, self.rdfs.subClassOf, parent)

    def _patterns_of(
        self, node: Any, name: str, entity_types: dict[Any, dict[str, Any]]
    ) -> Iterator[list[str]]:
        """Yield a pattern for each domain and range of a property that are classes."""
        ends: list[list[str]] = []
        for predicate in (self.rdfs.domain, self.rdfs.range):
            known = [one for one in self.graph.objects(node, predicate) if one in entity_types]
            for one in known:
                self._use(node, predicate, one)
            ends.append(sorted(entity_types[one]["name"] for one in known) or ["*"])
        if ends == [["*"], ["*"]]:
            return
        for source in ends[0]:
            for target in ends[1]:
                yield [source, name, target]

    def _has_values(self, node: Any) -> bool:
        """Check that a range of the property is a type of values, not a class."""
        from rdflib import XSD

        ranges = self.graph.objects(node, self.rdfs.range)
        return any(one == self.rdfs.Literal or one in XSD for one in ranges)

    def _add_property(self, node: Any, entity_types: dict[Any, dict[str, Any]]) -> None:
        """Add a property with values to the classes that are its domain.

        A property that is of none of them is not understood, with all that is said of it.
        """
        given = sorted(self.graph.objects(node, self.rdfs.domain))
        domains = [one for one in given if one in entity_types]
        if not domains:
            self.used.difference_update(self.graph.triples((node, None, None)))
            return
        kind = "string"
        for value in self._objects(node, self.rdfs.range):
            if _local_name(value) in _NUMBERS:
                kind = "number"
            elif _local_name(value) in _DATES:
                kind = "date"
        described = self._named(node)
        described.pop("synonyms", None)
        for domain in domains:
            self._use(node, self.rdfs.domain, domain)
            entity_types[domain].setdefault("properties", []).append({**described, "type": kind})

    def _unused(self) -> tuple[str, ...]:
        """Return the triples that were not understood, but for what the ontology says of itself."""
        about = set(self.graph.subjects(self.rdf.type, self.owl.Ontology))
        lines: list[str] = []
        for triple in self.graph:
            if triple in self.used or triple[0] in about:
                continue
            lines.append(" ".join(_local_name(part) for part in triple))
        return tuple(sorted(lines))


def _local_name(node: Any) -> str:
    """Return the last part of an address; of other nodes the whole."""
    text = str(node)
    return text.rstrip("/#").replace("#", "/").rpartition("/")[2] if "://" in text else text
