"""The two stores' reads in memory, and models that need no network."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from pipeline.contract.conditions import holds
from pipeline.contract.prompts import Prompt
from pipeline.models.base import (
    ChatReply,
    ChatRequest,
    Listener,
    Repeats,
    Result,
    Talk,
    one_question,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.stores.base import Live, Writer
from pipeline.stores.postgres.database import field_names
from pipeline.stores.postgres.lexical import bm25_scores, word_weight
from pipeline.stores.reads import (
    AttributeLimit,
    Hits,
    Lexical,
    PropertyForm,
    VectorSearch,
    Within,
    passages_of,
)
from pipeline.stores.records import (
    Attribute,
    Claim,
    Document,
    Entity,
    EntityMentions,
    Link,
    Membership,
    Passage,
    Relationship,
    Report,
    SharedUnit,
    Statement,
)
from pipeline.text.ids import words
from pipeline.text.terms import Term
from tests.talking import converse

REPORT_COLUMNS, CLAIM_COLUMNS, COMMUNITY_COLUMNS = map(field_names, (Report, Claim, Membership))
CHUNK_COLUMNS, ENTITY_COLUMNS, RELATIONSHIP_COLUMNS = map(
    field_names, (Passage, Entity, Relationship)
)
Record = TypeVar("Record")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PROMPTS = {
    "extract_keywords": "Keywords of: $query",
    "answer_graph": "Answer as $response_type. $user_prompt Graph:",
    "answer_chunks": "Answer as $response_type. $user_prompt Passages:",
    "no_context": "Nothing was found.\n",
    "below_min_score": "Nothing is similar enough.\n",
    "no_room": "Nothing fits.\n",
    "not_in_context": "It is not there.\n",
    "answer_mixed": "Answer as $response_type. $user_prompt Mixed:",
    "community_map": "Points of:",
    "community_rate": "Ratings of:",
    "community_reduce": "Answer as $response_type. $user_prompt Points:",
    "drift_primer": "Begin with:",
    "drift_local": "For: $question",
    "drift_reduce": "Answer as $response_type. $user_prompt Steps:",
    "general_knowledge": "You may add [LLM: verify].",
    "next_questions": "$number questions from:",
}


def letters(text: str) -> np.ndarray:
    """Return how often each letter occurs, as a vector of length 1."""
    counts = np.array([text.lower().count(letter) for letter in LETTERS], dtype=np.float32)
    length = np.linalg.norm(counts)
    return counts / length if length else counts


class LetterEmbedding:
    identity: Mapping[str, Any] = {"model": "letters"}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        return np.array([letters(text) for text in texts], dtype=np.float32).reshape(
            len(texts), len(LETTERS)
        )

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return []

    def keys(self, texts: Sequence[str]) -> set[str]:
        return set()

    def preflight(self) -> None: ...


class CharacterTokens:
    """A tokenizer with a token per character: counts add up, so a budget is met exactly."""

    name = "characters"

    def encode(self, text: str) -> list[int]:
        return list(map(ord, text))

    def count(self, text: str) -> int:
        return len(text)


@dataclass
class ScriptedChat:
    """A chat model that gives the replies in turn, and keeps the requests."""

    replies: list[ChatReply | str]
    asked: list[ChatRequest] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=lambda: {"model": "scripted"})

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        return converse(talks, self._next)

    def complete(
        self, requests: Sequence[ChatRequest], listener: Listener | None = None
    ) -> list[ChatReply]:
        return self.converse(map(one_question, requests))

    @property
    def asked_for(self) -> list[str]:
        return [request.row_id for request in self.asked]

    def _next(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        reply = self.replies.pop(0)
        return ChatReply(reply) if isinstance(reply, str) else reply

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        reply = self._next(request)
        yield from (reply.text[start : start + 5] for start in range(0, len(reply.text), 5))
        return reply

    def preflight(self) -> None: ...


def of_documents(*ids: str) -> Within:
    """Return conditions that admit only these documents."""
    return [{"id": {"in": list(ids)}}]


@dataclass(frozen=True)
class MemoryStores:
    """Both stores over frames of rows; ``reads`` lists the names of all reads made."""

    chunk_rows: pd.DataFrame
    entity_rows: pd.DataFrame
    relationship_rows: pd.DataFrame
    reads: list[str] = field(default_factory=list)
    report_rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=REPORT_COLUMNS))
    claim_rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=CLAIM_COLUMNS))
    community_rows: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=COMMUNITY_COLUMNS)
    )
    attribute_rows: Sequence[Attribute] = ()
    name: str = "memory"
    tables: Sequence[str] = ("chunks", "entities", "relationships")

    def writing(self) -> Any:
        raise NotImplementedError(Writer)

    def live(self) -> Live | None:
        return None

    def close(self) -> None: ...

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        within = (*rights, *within)
        self.reads.append(f"nearest {' '.join(search.table for search in searches)}")
        return [
            self._nearest(search.table, search.vector, search.limit, within) for search in searches
        ]

    def _nearest(self, table: str, vector: np.ndarray, limit: int, within: Within) -> Hits:
        frames = {
            "chunks": self.chunk_rows["content"],
            "entities": self.entity_rows["name"],
            "relationships": self.relationship_rows["description"],
            "reports": self.report_rows["content"],
        }
        ids = self._rows_of(table)["id"]
        scored = [
            (id, float(letters(text) @ vector)) for id, text in zip(ids, frames[table], strict=True)
        ]
        if within:
            origins = self.origins(table, [id for id, _ in scored], within)
            scored = [(id, score) for id, score in scored if origins[id][table == "reports"]]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def nearest_of(
        self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int
    ) -> list[tuple[str, float]]:
        self.reads.append("nearest_of" if table == "chunks" else f"nearest_of {table}")
        rows = _chosen(self._rows_of(table), ids)
        texts = rows["content" if table == "chunks" else "description"]
        scored = [
            (id, float(letters(text) @ vector)) for id, text in zip(rows["id"], texts, strict=True)
        ]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def documents(self, within: Within = ()) -> list[Document]:
        self.reads.append("documents")
        rows = self.chunk_rows[self._allowed(within)].drop_duplicates("document_id")
        return [
            Document(row.document_id, row.title, row.source, row.metadata)
            for row in rows.itertuples()
        ]

    def _allowed(self, within: Within) -> list[bool]:
        """Return for each text unit whether its document satisfies the conditions."""
        fields = [
            {
                **(row.metadata or {}),
                "id": row.document_id,
                "title": row.title,
                "source": row.source,
            }
            for row in self.chunk_rows.itertuples()
        ]
        return [all(holds(conditions, each) for conditions in within) for each in fields]

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> dict[str, tuple[bool, bool]]:
        self.reads.append(f"origins {table}")
        inside = set(self.chunk_rows["id"][self._allowed(within)])
        sources = (
            [[id] for id in ids]
            if table == "chunks"
            else _chosen(self._rows_of(table), ids)["text_unit_ids"]
        )
        return {
            id: (any(unit in inside for unit in units), all(unit in inside for unit in units))
            for id, units in zip(ids, sources, strict=True)
        }

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        self.reads.append("chunks")
        found = _chosen(self.chunk_rows, ids)
        return records(
            Passage,
            found.assign(score=[float(letters(text) @ question) for text in found["content"]]),
        )

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        self.reads.append("lexical")
        rows = self.chunk_rows.loc[self._allowed(rights)]
        texts = list(rows["content"])
        found = [words(text) for text in texts]
        asked = dict.fromkeys(words(question))
        weights = {
            word: word_weight(len(texts), sum(word in text for text in found)) for word in asked
        }
        scores = bm25_scores(texts, weights, sum(map(len, found)) / max(len(texts), 1))
        there = set(self.chunk_rows["id"][self._allowed(within)])
        shown = [
            (id, float(score)) for id, score in zip(rows["id"], scores, strict=True) if id in there
        ]
        hits = [hit for hit in shown if hit[1] > 0]
        return Lexical(sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit], weights)

    def lacking(
        self, terms: Sequence[Term], within: Within = (), rights: Within = ()
    ) -> list[Term]:
        self.reads.append("lacking")
        rows = self.chunk_rows.loc[self._allowed((*rights, *within))]
        texts = [*rows["content"], *rows["title"]]
        return [term for term in terms if not any(map(term.is_in, texts))]

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        self.reads.append("mentions")
        return [
            EntityMentions(
                row.id, row.name, row.text_unit_ids if len(row.text_unit_ids) <= most else []
            )
            for row in self.entity_rows.sort_values("id").itertuples(index=False)
            if row.id in entity_ids or set(row.text_unit_ids) & set(text_unit_ids)
        ]

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], dict[str, tuple[str, str]]]:
        mentioned = self.mentions(text_unit_ids, entity_ids, most)
        return mentioned, self.openings(passages_of(mentioned, passages), length)

    def openings(self, ids: Sequence[str], length: int) -> dict[str, tuple[str, str]]:
        self.reads.append("openings")
        found = _chosen(self.chunk_rows, sorted(ids))
        return {row.id: (row.title, row.content[:length]) for row in found.itertuples()}

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        self.reads.append(f"embeddings {table}")
        found = _chosen(self._rows_of(table), ids)
        texts = found["content" if table == "reports" else "description"]
        return dict(zip(found["id"], map(letters, texts), strict=True))

    def reports(self, ids: Sequence[str]) -> list[Report]:
        self.reads.append("reports")
        return records(Report, _chosen(self.report_rows, ids))

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        self.reads.append("reports_at")
        rows = self.report_rows
        cover = rows[
            (rows["level"] == level) | ((rows["level"] < level) & (rows["children"].map(len) == 0))
        ]
        if within:
            origins = self.origins("reports", cover["id"].tolist(), within)
            cover = cover[[origins[id][1] for id in cover["id"]]]
        ranked = cover.sort_values(["weight", "rating", "id"], ascending=[False, False, True])
        return records(Report, ranked.head(limit))

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        self.reads.append("claims_of")
        rows = self.claim_rows
        found = rows[rows["subject_id"].isin(entity_ids) | rows["object_id"].isin(entity_ids)]
        documents = set(self.chunk_rows["document_id"][self._allowed(within)])
        found = found[found["document_id"].isin(documents)] if within else found
        return records(Claim, found.sort_values(["subject", "id"]).head(limit))

    def statements_of(
        self, relationship_ids: Sequence[str], limit: int, within: Within = ()
    ) -> list[Statement]:
        self.reads.append("statements_of")
        return []

    def properties(self, names: Sequence[str] = ()) -> list[PropertyForm]:
        forms = {PropertyForm(one.name, one.type, one.unit) for one in self.attribute_rows}
        return sorted(form for form in forms if not names or form.name in names)

    def attributes_of(
        self, entity_ids: Sequence[str], limit: AttributeLimit, within: Within = ()
    ) -> list[Attribute]:
        """Return the values of the entities that the conditions let through; none is cut."""
        found = [one for one in self.attribute_rows if one.entity_id in entity_ids]
        documents = set(self.chunk_rows["document_id"][self._allowed(within)])
        return [one for one in found if not within or one.document_id in documents]

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        self.reads.append("communities_of")
        rows = self.community_rows
        found = rows[rows["entity_id"].isin(entity_ids) & (rows["level"] <= level)]
        deepest = (
            found.sort_values("level")
            .drop_duplicates("entity_id", keep="last")
            .sort_values("entity_id")
        )
        return records(Membership, deepest)

    def _rows_of(self, table: str) -> pd.DataFrame:
        return {
            "chunks": self.chunk_rows,
            "entities": self.entity_rows,
            "relationships": self.relationship_rows,
            "reports": self.report_rows,
        }[table]

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        self.reads.append("links")
        few = set(self.entity_rows.loc[self.entity_rows["degree"] <= most, "id"]) & set(entity_ids)
        rows = self.relationship_rows
        touching = rows[rows["source_entity_id"].isin(few) | rows["target_entity_id"].isin(few)]
        return records(Link, touching.sort_values(["rank", "id"]).head(limit))

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        self.reads.append("entities")
        return records(Entity, _chosen(self.entity_rows, ids))

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        self.reads.append("relationships")
        return records(Relationship, _chosen(self.relationship_rows, ids))

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        self.reads.append("relationships_of")
        rows = self.relationship_rows
        touching = rows[
            rows["source_entity_id"].isin(entity_ids) | rows["target_entity_id"].isin(entity_ids)
        ]
        ranked = touching.sort_values(["rank", "weight", "id"], ascending=[False, False, True])
        return records(Relationship, ranked.head(limit))

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        self.reads.append("shared_units")
        units = dict(
            zip(self.entity_rows["id"], map(set, self.entity_rows["text_unit_ids"]), strict=True)
        )
        return [
            SharedUnit(
                id, unit, sum(unit in units[neighbour] for neighbour in self._neighbours(id))
            )
            for id in entity_ids
            for unit in sorted(units[id])
        ]

    def _neighbours(self, id: str) -> set[str]:
        rows = self.relationship_rows
        ends = list(zip(rows["source_entity_id"], rows["target_entity_id"], strict=True))
        return {other for pair in ends for one, other in (pair, pair[::-1]) if one == id}


def records(kind: type[Record], frame: pd.DataFrame) -> list[Record]:
    """Return records of the rows of a frame."""
    return [kind(*row) for row in frame[field_names(kind)].itertuples(index=False)]


def _chosen(frame: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    by_id = frame.set_index("id", drop=False)
    return by_id.loc[[id for id in ids if id in by_id.index]].reset_index(drop=True)


def chunk(id: str, content: str, document: str = "doc-1") -> dict[str, Any]:
    return {
        "id": id, "document_id": document, "source": f"{document}.txt", "title": document.title(),
        "start": 0,
        "end": len(content), "tokens": len(content), "content": content, "metadata": {},
        "score": 0.0,
    }  # fmt: skip


def entity(name: str, units: Sequence[str], degree: int = 1) -> dict[str, Any]:
    return {
        "id": f"ent-{name}", "name": name, "type": "PERSON", "description": f"{name}, a person",
        "degree": degree, "text_unit_ids": list(units),
    }  # fmt: skip


def relationship(
    source: str,
    target: str,
    description: str,
    units: Sequence[str],
    rank: int = 2,
    weight: float = 1.0,
) -> dict[str, Any]:
    return {
        "id": f"rel-{source}-{target}", "source": source, "target": target,
        "source_entity_id": f"ent-{source}", "target_entity_id": f"ent-{target}",
        "description": description, "keywords": ["knows", "since long"],
        "weight": weight, "rank": rank, "text_unit_ids": list(units),
    }  # fmt: skip


def village() -> MemoryStores:
    """Return stores of Ada, Bea, Cid and Dov in four chunks of three documents."""
    return MemoryStores(
        pd.DataFrame(
            [
                chunk("c1", "Ada taught Bea.", "doc-1"),
                chunk("c2", "Bea met Cid, says Ada.", "doc-2"),
                chunk("c3", "Cid sued Dov.", "doc-2"),
                chunk("c4", "zzz zzz", "doc-3"),
            ]
        ),
        pd.DataFrame(
            [
                entity("Ada", ["c1", "c2"], 1),
                entity("Bea", ["c1", "c2"], 2),
                entity("Cid", ["c2", "c3"], 2),
                entity("Dov", ["c3"], 1),
            ]
        ),
        pd.DataFrame(
            [
                relationship("Ada", "Bea", "teaching", ["c1"], rank=3),
                relationship("Bea", "Cid", "meeting", ["c2"], rank=4),
                relationship("Cid", "Dov", "lawsuit", ["c3"], rank=3, weight=2.0),
            ]
        ),
    )


def empty_village() -> MemoryStores:
    return MemoryStores(
        pd.DataFrame(columns=CHUNK_COLUMNS),
        pd.DataFrame(columns=ENTITY_COLUMNS),
        pd.DataFrame(columns=RELATIONSHIP_COLUMNS),
    )


def question(text: str = "Who taught Bea?", /, **wishes: object) -> QueryRequest:
    return QueryRequest.model_validate({"query": text, "mode": "hybrid", **wishes})


def resources(stores: MemoryStores, chat: ScriptedChat | None = None) -> QueryResources:
    return QueryResources(
        read=lambda work: (work(stores, stores), ()),
        embedding=LetterEmbedding(),
        chat=lambda name: chat,
        keyword_chat=lambda name: chat,
        tokenizer=CharacterTokens(),
        prompt=lambda name: Prompt(name, PROMPTS[name]),
    )
