"""Find what people have made or edited in a graph of LightRAG: what no paid reply gives."""

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.text.ids import clean_name

Row = Mapping[str, Any]

BETWEEN_PARTS = "<SEP>"
BY_HAND = "manual_creation"
"""The ``source_id`` that LightRAG gives to what a person has made."""
NO_TYPE = frozenset({"", "unknown"})
_TAGS = re.compile(r"</?(p|br)\s*/?>", re.IGNORECASE)
"""Tags that LightRAG removes from texts."""


@dataclass(frozen=True)
class Edit:
    """A row or a part of a row of LightRAG's graph that no reply gives.

    ``place`` names the node or edge. ``fields`` are those of a line of corrections.jsonl, or empty
    if none can express it. ``fact`` says what a person did.
    """

    place: str
    fact: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Said:
    """The statements of replies. Names and texts are keys as ``fold`` makes them.

    - ``texts`` has all descriptions and summaries.
    - ``types`` and ``described`` have the types and descriptions that are given for each name.
    - ``names`` has the spelling of each name that finished documents give.
    - ``pairs`` has the directed pairs of names, by both keys in order.
    - ``sources`` has the documents that name each key.
    """

    texts: set[str] = field(default_factory=set)
    types: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    described: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    names: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    pairs: defaultdict[tuple[str, ...], set[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    sources: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, record: Row, source: str = "") -> None:
        """Add a record of a reply; ``source`` is its document if this one is imported."""
        text = fold(record["description"])
        self.texts.add(text)
        names = [record[key] for key in ("name", "source", "target") if record.get(key)]
        for name in names:
            key = fold(name)
            self.known.add(key)
            self.described[key].add(text)
            if source:
                self.names.setdefault(key, name)
                self.sources[key].add(source)
        if record["kind"] == "entity":
            self.types[fold(record["name"])].add(fold(record["type"]))
        elif record["source"] and record["target"]:
            ends = record["source"], record["target"]
            self.pairs[tuple(sorted(map(fold, ends)))].add(ends)


def fold(text: str) -> str:
    """Return a text without what LightRAG changes in texts: spaces, quotes, width and case."""
    plain = unicodedata.normalize("NFKC", _TAGS.sub("", html.unescape(text)))
    return "".join(filter(str.isalnum, plain.casefold())) or plain.strip()


@dataclass(frozen=True)
class ReadRows:
    """The nodes and edges of a graph, by keys, and those of them whose edits may not be found.

    An edit of an ``unread`` node or edge may not be found, since a reply about it is not there. A
    node that a person has made is unread if a neighbour is. ``is_whole`` says that the index has
    every document finished, with all replies.
    """

    names: frozenset[str]
    unread_names: frozenset[str]
    pairs: frozenset[tuple[str, ...]]
    unread_pairs: frozenset[tuple[str, ...]]
    is_whole: bool

    def shows_node(self, name: str) -> bool:
        """Check that an edit of the node with this name would be found."""
        key = fold(name)
        return self.is_whole or (key in self.names and key not in self.unread_names)

    def shows_edge(self, source: str, target: str) -> bool:
        """Check that an edit of the edge between these nodes would be found."""
        pair = tuple(sorted((fold(source), fold(target))))
        is_read = pair in self.pairs and pair not in self.unread_pairs
        return self.is_whole or (is_read and self.shows_node(source) and self.shows_node(target))

    def lacks_edge(self, source: str, target: str) -> bool:
        """Check that both nodes are there, and no edge between them."""
        keys = sorted((fold(source), fold(target)))
        return self.names.issuperset(keys) and tuple(keys) not in self.pairs


def find_read_rows(rows: Iterable[Row], unread: frozenset[str], is_whole: bool) -> ReadRows:
    """Return which rows of a graph come from none of the passages ``unread``."""
    names: set[str] = set()
    made: set[str] = set()
    unread_names: set[str] = set()
    pairs: set[tuple[str, ...]] = set()
    unread_pairs: set[tuple[str, ...]] = set()
    for row in rows:
        passages = _passages_of(row)
        is_unread = not unread.isdisjoint(passages)
        if "source" in row and "target" in row:
            pairs.add(_pair_of(row))
            if is_unread:
                unread_pairs.add(_pair_of(row))
        elif row.get("name"):
            key = fold(str(row["name"]))
            names.add(key)
            if is_unread:
                unread_names.add(key)
            elif not passages:
                made.add(key)
    _spread_to_made(unread_names, made, pairs)
    return ReadRows(
        frozenset(names), frozenset(unread_names), frozenset(pairs), frozenset(unread_pairs),
        is_whole,
    )  # fmt: skip


def _spread_to_made(
    unread_names: set[str], made: set[str], pairs: Iterable[tuple[str, ...]]
) -> None:
    """Add the nodes that a person has made and that edges connect with unread ones."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            neighbours[one].add(other)
    waiting = list(unread_names)
    while waiting:
        found = (neighbours[waiting.pop()] & made) - unread_names
        unread_names |= found
        waiting += found


def find_edits(
    rows: Iterable[Row], said: Said, left_out: frozenset[str], lacking: frozenset[str]
) -> list[Edit]:
    """Return the edits in the nodes and edges of a graph, in their order.

    ``left_out`` has the ids of passages that are not imported, and ``lacking`` those of passages
    without one of their replies. Nodes and edges of these alone are no edits. Where a passage
    lacks a reply, nobody knows who has written a type or a description, so it is no edit either.
    """
    nodes: dict[str, Row] = {}
    spellings: list[tuple[str, Row]] = []
    edges: list[Row] = []
    for row in rows:
        if "source" in row and "target" in row:
            edges.append(row)
        elif row.get("name"):
            key = fold(str(row["name"]))
            nodes[key] = row
            spellings.append((key, row))
    ordered = sorted(edges, key=_place_of)
    graph = _Graph(nodes, spellings, ordered, said, left_out | lacking, lacking)
    return list(graph.edits())


@dataclass
class _Graph:
    """A graph of LightRAG and what replies say about it.

    ``nodes`` has one node of each key, ``spellings`` all: names may differ by case alone.
    ``unread`` has the passages of which no reply or not every reply is read, ``lacking`` those of
    them whose document is imported.
    """

    nodes: Mapping[str, Row]
    spellings: list[tuple[str, Row]]
    edges: list[Row]
    said: Said
    unread: frozenset[str]
    lacking: frozenset[str]

    def edits(self) -> Iterator[Edit]:
        unsaid = {key: node for key, node in self.nodes.items() if key not in self.said.known}
        made = {key for key, node in unsaid.items() if self._is_imported(node)}
        renamed = self._find_renamed(made)
        for key, name in renamed.items():
            to = clean_name(str(self.nodes[key]["name"]))
            yield Edit(to, f"renamed from {name}", {"kind": "rename", "entity": name, "to": to})
        new_names = {fold(old): key for key, old in renamed.items()}
        pairs = {tuple(sorted(new_names.get(end, end) for end in pair)): pair
                 for pair in self.said.pairs}  # fmt: skip
        statements = list(self._statements(pairs, made - set(renamed)))
        yield from statements
        stated = {fold(edit.fields[end]) for edit in statements if edit.fields
                  for end in ("source", "target")}  # fmt: skip
        for key, node in self.spellings:
            if not self._is_imported(node):
                continue
            if key in made and key not in renamed:
                yield from self._made_node(node, key in stated)
            else:
                yield from self._edited_node(node, fold(renamed.get(key, key)))
        for edge in self.edges:
            pair = pairs.get(_pair_of(edge))
            if pair and self._is_imported(edge):
                yield from self._edited_edge(edge, self.said.pairs[pair])
        gone = set(self.said.names) - set(self.nodes) - set(new_names)
        for key in sorted(gone):
            fact = "LightRAG's graph has no such node: a person has deleted or merged it"
            yield Edit(self.said.names[key], fact)

    def _is_imported(self, row: Row) -> bool:
        passages = _passages_of(row)
        return not passages or not passages <= self.unread

    def _find_renamed(self, made: set[str]) -> dict[str, str]:
        """Return the former name of each node that a person has renamed.

        A node is that of a name which the graph lacks, if it has a description of that name.
        """
        lost = {key: name for key, name in self.said.names.items() if key not in self.nodes}
        found: dict[str, str] = {}
        for key in sorted(made):
            parts = {fold(part) for part in _parts_of(self.nodes[key])}
            names = [name for old, name in lost.items() if parts & self.said.described[old]]
            if len(names) == 1:
                found[key] = names[0]
        return found

    def _statements(self, pairs: Mapping[tuple[str, ...], Any], made: set[str]) -> Iterator[Edit]:
        """Yield an edit for each edge between names that no reply relates.

        Its document is one that names an end, the first by name. An end that only other new edges
        name has the document of these.
        """
        waiting = [one for one in self.edges if _pair_of(one) not in pairs]
        waiting = [one for one in waiting if self._is_imported(one)]
        sources = {key: min(found) for key, found in self.said.sources.items()}
        while waiting:
            placed = [one for one in waiting if any(end in sources for end in _pair_of(one))]
            for edge in placed:
                yield self._statement(edge, sources, made)
            if not placed:
                break
            is_placed = set(map(id, placed))
            waiting = [one for one in waiting if id(one) not in is_placed]
        for edge in waiting:
            yield Edit(_place_of(edge), "made by hand between nodes that no document names")

    def _statement(self, edge: Row, sources: dict[str, str], made: set[str]) -> Edit:
        # LightRAG keeps no direction, and its stores give the ends in different orders.
        source, target = sorted(clean_name(str(edge[end])) for end in ("source", "target"))
        one, two = fold(source), fold(target)
        both = self.said.sources[one] & self.said.sources[two]
        document = min(both) if both else sources.get(one) or sources[two]
        for key in (one, two):
            sources.setdefault(key, document)
        fields = {
            "kind": "add_statement",
            "source": source,
            "target": target,
            "type": clean_name(str(edge.get("keywords", "")).split(",")[0]),
            "description": _description_of(edge),
            "document": document,
        }
        for end, key in (("source", one), ("target", two)):
            type = str(self.nodes.get(key, {}).get("entity_type", ""))
            if key in made and type.lower() not in NO_TYPE:
                fields[f"{end}_type"] = type.upper()
        fact = "made by hand; its document is one that names an end"
        return Edit(_place_of(edge), fact, {key: text for key, text in fields.items() if text})

    def _made_node(self, node: Row, is_stated: bool) -> Iterator[Edit]:
        name, text = clean_name(str(node["name"])), _description_of(node)
        if not is_stated:
            fact = "made by hand, and no edge relates it to a node that a document names"
            yield Edit(name, fact)
        elif text:
            fields = {"kind": "describe_entity", "entity": name, "description": text}
            yield Edit(name, "made by hand", fields)

    def _edited_node(self, node: Row, said_as: str) -> Iterator[Edit]:
        if _passages_of(node) & self.lacking:
            return
        name = clean_name(str(node["name"]))
        type = str(node.get("entity_type", ""))
        if type.lower() not in NO_TYPE and fold(type) not in self.said.types[said_as]:
            fields = {"kind": "set_type", "entity": name, "to": type.upper()}
            yield Edit(name, f"no reply gives the type {type}", fields)
        if self._is_edited(node):
            text = _description_of(node)
            fields = {"kind": "describe_entity", "entity": name, "description": text}
            yield Edit(name, f"no reply gives this description ({text[:120]})", fields)

    def _edited_edge(self, edge: Row, directions: set[tuple[str, str]]) -> Iterator[Edit]:
        if _passages_of(edge) & self.lacking or not self._is_edited(edge):
            return
        text = _description_of(edge)
        for source, target in sorted(directions):
            fields = {"kind": "describe_statement", "source": source, "target": target}
            fact = f"no reply gives this description ({text[:120]})"
            yield Edit(_place_of(edge), fact, {**fields, "description": text})

    def _is_edited(self, row: Row) -> bool:
        return any(fold(part) not in self.said.texts for part in _parts_of(row))


def find_lost_names(rows: Iterable[Row], said: Said) -> list[str]:
    """Return the names that finished documents give and of which the graph has no node."""
    there = {fold(str(row["name"])) for row in rows if row.get("name")}
    return [name for key, name in said.names.items() if key not in there]


def count_rows_of(rows: Iterable[Row], passages: frozenset[str]) -> int:
    """Return the number of nodes and edges that come from these passages alone."""
    return sum(1 for row in rows if _passages_of(row) and _passages_of(row) <= passages)


def _pair_of(edge: Row) -> tuple[str, ...]:
    return tuple(sorted(fold(str(edge[end])) for end in ("source", "target")))


def _place_of(edge: Row) -> str:
    return " - ".join(sorted(clean_name(str(edge[end])) for end in ("source", "target")))


def _passages_of(row: Row) -> set[str]:
    passages = str(row.get("source_id", "")).split(BETWEEN_PARTS)
    return {passage for passage in passages if passage and passage != BY_HAND}


def _parts_of(row: Row) -> list[str]:
    parts = str(row.get("description", "")).split(BETWEEN_PARTS)
    return [part for part in parts if part.strip()]


def _description_of(row: Row) -> str:
    return " ".join(" ".join(_parts_of(row)).split())
