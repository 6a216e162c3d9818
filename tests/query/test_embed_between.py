from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.models.base import Listener
from pipeline.query.account import Account, AccountedEmbedding
from pipeline.query.prepare import prepare, read_embedding_between
from pipeline.query.search.evidence import Evidence
from tests.query.memory_stores import LetterEmbedding, letters, question, resources, village

NOTHING = (Evidence(), village().chunk_rows)


@dataclass
class Connections:
    """Reads of ``village``; whether one is under way."""

    reading: bool = False
    reads: int = 0

    def read(self, work: Callable[..., Any]) -> tuple[Any, tuple[str, ...]]:
        try:
            self.reading, self.reads = True, self.reads + 1
            return work(village(), village()), ()
        finally:
            self.reading = False


@dataclass
class Watched(LetterEmbedding):
    connections: Connections
    asked: list[tuple[int, bool]] = field(default_factory=list)
    remembered: list[bool] = field(default_factory=list)

    def embed(self, texts: Sequence[str], listener: Listener | None = None, remember: bool = True) -> np.ndarray:
        self.asked.append((len(texts), self.connections.reading))
        self.remembered.append(remember)
        return super().embed(texts, listener)


class Endpoint(Watched):
    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(texts)] if texts else []


def test_a_model_on_this_machine_embeds_within_the_read():
    connections = Connections()
    embedding = Watched(connections)
    prepare(question(mode="graph"), replace(resources(village()), read=connections.read, embedding=embedding))
    assert [reading for _, reading in embedding.asked] == [False, True]
    assert connections.reads == 1


def test_no_read_waits_for_an_endpoint():
    connections = Connections()
    embedding = Endpoint(connections)
    accounted = AccountedEmbedding(embedding, Account())
    prepare(question(mode="graph"), replace(resources(village()), read=connections.read, embedding=accounted))
    assert len(embedding.asked) == 2  # the question, and the paths
    assert not any(reading for _, reading in embedding.asked)
    assert embedding.remembered == [True, False]  # a question may come again, its paths do not
    assert connections.reads == 2


def test_other_modes_read_once():
    connections = Connections()
    prepare(question(mode="mix"), replace(resources(village()), read=connections.read))
    assert connections.reads == 1


def test_texts_that_change_with_every_read_are_not_embedded():
    connections, given = Connections(), []

    def find(embed: Any, *stores: Any) -> Any:
        given.append(embed is not None)
        if embed is not None:
            embed([f"text of read {connections.reads}"])
        return NOTHING

    read_embedding_between(connections.read, find, LetterEmbedding().embed, list)
    assert given == [True, True, True, False]


def test_each_text_is_embedded_once_and_has_its_row():
    asked = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        asked.append(list(texts))
        return LetterEmbedding().embed(texts)

    def find(embed: Any, *stores: Any) -> Any:
        rows = embed(["b", "a", "b"])
        assert np.array_equal(rows, [letters("b"), letters("a"), letters("b")])
        return NOTHING

    read_embedding_between(Connections().read, find, embed, list)
    assert asked == [["b", "a"]]
