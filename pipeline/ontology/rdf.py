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
JSON_LD, RDF_XML = "json-ld", "xml"
PARSERS = {
    ".ttl": "turtle",
    ".owl": RDF_XML,
    ".rdf": RDF_XML,
    ".nt": "nt",
    ".n3": "n3",
    ".jsonld": JSON_LD,
    ".xml": RDF_XML,
}
"""Suffix -> the parser of rdflib for it. rdflib chooses none, so that each one has its guard."""
TEXT_TYPE = "string"
"""The type of ontology.yaml for values that are texts."""
LONGEST_ADDRESS = 200
"""Characters of an address that a message shows."""
_NESTED = re.compile(r"[&%](?!amp;|lt;|gt;|quot;|apos;|#)\w")
"""A reference to another XML entity. References to single characters are allowed: they cannot
grow."""
_INTEGERS = (
    "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger"
    " negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"
)
_NUMBERS = frozenset((*_INTEGERS.split(), "decimal", "float", "double"))
"""Types of XML Schema that are read as numbers."""
_DATES = frozenset(("date", "dateTime", "dateTimeStamp", "gYear", "gYearMonth"))
"""Types of XML Schema that are read as dates; all that are no numbers either are texts."""


@dataclass(frozen=True)
class Imported:
    """An ontology in the form of ontology.yaml, and the statements that were not understood."""

    content: dict[str, Any]
    not_understood: tuple[str, ...]


def read_rdf(path: Path) -> Imported:
    """Return the ontology of a file in a form of RDF, which its suffix names (PARSERS).

    Raises UsageError without the extra, SettingsError if the file cannot be read.
    """
    try:
        import rdflib
    except ImportError:
        raise UsageError(
            f"{path}: RDF needs the extra '{EXTRA}'; install graphmill[{EXTRA}]"
        ) from None
    graph = rdflib.Graph()
    try:
        _parse_into(graph, path)
    except SettingsError:
        raise
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}; name a file to read") from None
    # Each parser of rdflib has errors of its own.
    except Exception as error:  # noqa: BLE001
        first_line = str(error).strip().partition("\n")[0]
        raise SettingsError(f"{path}: no RDF ({first_line[:200]}); correct it") from None
    return _Reader(graph).read()


def _parse_into(graph: Any, path: Path) -> None:
    """Add the triples of a file to the graph. Raises SettingsError for what no file may ask for."""
    parser = PARSERS[path.suffix.lower()]
    if parser == JSON_LD:
        content = json.loads(path.read_bytes())
        _refuse_other_contexts(path, content)
        # What was checked is parsed, not the file: another reader of JSON may read more into it.
        graph.parse(data=json.dumps(content), format=parser, publicID=path.absolute().as_uri())
        return
    if parser == RDF_XML:
        _refuse_nested_entities(path)
    graph.parse(path, format=parser)


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
    # rdflib parses the file next, and what it says is told.
    except (OSError, expat.ExpatError):
        pass


def _refuse_other_contexts(path: Path, content: Any) -> None:
    """Raise SettingsError if the content of a JSON-LD file names a context that stands elsewhere.

    The parser would fetch it, from any address or file. No command reads more than it is given.
    """
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        if not isinstance(value, dict):
            continue
        waiting += value.values()
        for key in ("@context", "@import"):
            elsewhere = list(_strings_in(value.get(key)))
            if elsewhere:
                raise SettingsError(
                    f"{path}: {key} {elsewhere[0][:LONGEST_ADDRESS]!r} is not in the file, and"
                    " nothing is fetched; write the context itself there"
                )


def _strings_in(value: Any) -> Iterator[str]:
    """Yield the strings of a value of JSON and of the lists in it, however deep."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            yield one


class _Reader:
    """Reads one graph. ``used`` has the triples that were understood.

    Methods that begin with ``_take`` note the triples that they read as understood.
    """

    def __init__(self, graph: Any):
        from rdflib import OWL, RDF, RDFS, SKOS

        self.graph = graph
        self.owl, self.rdf, self.rdfs, self.skos = OWL, RDF, RDFS, SKOS
        self.used: set[Any] = set()

    def read(self) -> Imported:
        """Return the ontology, and the triples that it does not express."""
        classes = self._take_nodes(self.owl.Class, self.rdfs.Class)
        entity_types: dict[Any, dict[str, Any]] = {}
        for node in classes:
            entity_types[node] = self._take_type(node)
        for node, entry in entity_types.items():
            self._take_parent(node, entry, entity_types)
        relationship_types: list[dict[str, Any]] = []
        patterns: list[list[str]] = []
        rdf_properties = self._take_nodes(self.owl.ObjectProperty, self.rdf.Property)
        value_properties = set(self._take_nodes(self.owl.DatatypeProperty))
        # A property of RDF may have values too, as its range says.
        value_properties |= {node for node in rdf_properties if self._has_values(node)}
        for node in rdf_properties:
            if node in value_properties:
                continue
            entry = self._take_type(node)
            if self._take(node, self.rdf.type, self.owl.SymmetricProperty):
                entry["symmetric"] = True
            relationship_types.append(entry)
            patterns += self._take_patterns(node, entry["name"], entity_types)
        for node in sorted(value_properties):
            self._take_value_property(node, entity_types)
        content = {
            "entity_types": sorted(entity_types.values(), key=lambda entry: entry["name"]),
            "relationship_types": sorted(relationship_types, key=lambda entry: entry["name"]),
            "patterns": sorted(patterns),
            # Most ontologies give a domain to some of their properties only.
            "otherwise": {"patterns": KEEP},
        }
        filled = {key: value for key, value in content.items() if value}
        return Imported(filled, self._list_unused())

    def _take(self, *triple: Any) -> bool:
        """Return whether a triple is there."""
        if triple not in self.graph:
            return False
        self.used.add(triple)
        return True

    def _take_nodes(self, *types: Any) -> list[Any]:
        """Return the named nodes of one of these types, sorted."""
        from rdflib import URIRef

        found: set[Any] = set()
        for type in types:
            for node in self.graph.subjects(self.rdf.type, type):
                if isinstance(node, URIRef):
                    self._take(node, self.rdf.type, type)
                    found.add(node)
        return sorted(found)

    def _take_type(self, node: Any) -> dict[str, Any]:
        """Return the entry of a type: its name, description and synonyms."""
        entry = self._take_description(node)
        synonyms: dict[str, str] = {}
        for predicate in (self.rdfs.label, self.skos.prefLabel, self.skos.altLabel):
            for label in sorted(self.graph.objects(node, predicate)):
                self._take(node, predicate, label)
                key = match_key(str(label))
                if key != match_key(entry["name"]):
                    synonyms.setdefault(key, str(label))
        if synonyms:
            entry["synonyms"] = list(synonyms.values())
        return entry

    def _take_description(self, node: Any) -> dict[str, Any]:
        """Return an entry of the node's name and its first comment, if it has one.

        Further comments are not understood: ontology.yaml has one description.
        """
        entry: dict[str, Any] = {"name": _find_local_name(node)}
        for predicate in (self.rdfs.comment, self.skos.definition):
            for comment in sorted(self.graph.objects(node, predicate)):
                text = " ".join(str(comment).split())
                if entry.setdefault("description", text) == text:
                    self._take(node, predicate, comment)
        return entry

    def _take_parent(
        self, node: Any, entry: dict[str, Any], entity_types: dict[Any, dict[str, Any]]
    ) -> None:
        """Set the parent of a type: the first class that it is a subclass of and that is known.

        A type has one parent, so further ones are not understood.
        """
        for parent in sorted(self.graph.objects(node, self.rdfs.subClassOf)):
            # Reasoners write that each class is a subclass of itself.
            is_itself = parent == node
            if parent in entity_types and not is_itself:
                entry["parent"] = entity_types[parent]["name"]
                self._take(node, self.rdfs.subClassOf, parent)
                return

    def _take_patterns(
        self, node: Any, name: str, entity_types: dict[Any, dict[str, Any]]
    ) -> Iterator[list[str]]:
        """Yield a pattern for each pair of a domain and a range.

        ``*`` stands for an end without a known class. There is no pattern if both ends are so.
        """
        ends: list[list[str]] = []
        for predicate in (self.rdfs.domain, self.rdfs.range):
            names: list[str] = []
            for end in self.graph.objects(node, predicate):
                if end in entity_types:
                    self._take(node, predicate, end)
                    names.append(entity_types[end]["name"])
            ends.append(sorted(names) or ["*"])
        if ends == [["*"], ["*"]]:
            return
        for source in ends[0]:
            for target in ends[1]:
                yield [source, name, target]

    def _has_values(self, node: Any) -> bool:
        """Return whether a range of the property is a type of values, not a class."""
        from rdflib import XSD

        ranges = self.graph.objects(node, self.rdfs.range)
        return any(range == self.rdfs.Literal or range in XSD for range in ranges)

    def _take_value_property(self, node: Any, entity_types: dict[Any, dict[str, Any]]) -> None:
        """Add a property with values to the classes that are its domain.

        Without a known domain, none of its triples counts as understood. Its labels count only if
        they are its name: a property of ontology.yaml has no synonyms.
        """
        domains = [
            domain
            for domain in sorted(self.graph.objects(node, self.rdfs.domain))
            if domain in entity_types
        ]
        if not domains:
            self.used.difference_update(self.graph.triples((node, None, None)))
            return
        entry = self._take_description(node)
        for predicate in (self.rdfs.label, self.skos.prefLabel, self.skos.altLabel):
            for label in self.graph.objects(node, predicate):
                if match_key(str(label)) == match_key(entry["name"]):
                    self._take(node, predicate, label)
        entry["type"] = self._take_value_type(node)
        for domain in domains:
            self._take(node, self.rdfs.domain, domain)
            properties = entity_types[domain].setdefault("properties", [])
            properties.append(dict(entry))

    def _take_value_type(self, node: Any) -> str:
        """Return the type of a property's values, as ontology.yaml names it.

        It is a text if there is no range, and if the ranges are of several types. In the latter
        case no range counts as understood.
        """
        ranges = list(self.graph.objects(node, self.rdfs.range))
        types = {_choose_value_type(range) for range in ranges}
        if len(types) != 1:
            return TEXT_TYPE
        for range in ranges:
            self._take(node, self.rdfs.range, range)
        return types.pop()

    def _list_unused(self) -> tuple[str, ...]:
        """Return the triples that were not understood, but for what the ontology says of itself."""
        about = set(self.graph.subjects(self.rdf.type, self.owl.Ontology))
        lines: list[str] = []
        for triple in self.graph:
            if triple in self.used or triple[0] in about:
                continue
            lines.append(" ".join(_find_local_name(part) for part in triple))
        return tuple(sorted(lines))


def _choose_value_type(range: Any) -> str:
    """Return the type of values that stands for a range."""
    name = _find_local_name(range)
    if name in _NUMBERS:
        return "number"
    return "date" if name in _DATES else TEXT_TYPE


def _find_local_name(node: Any) -> str:
    """Return the last part of an address, or the whole text of a node that is none."""
    text = str(node)
    if "://" not in text:
        return text
    path = text.rstrip("/#").replace("#", "/")
    return path.rpartition("/")[2]
