"""Gold, looked up in what is loaded: which document or chunks it is, or that there is nothing such."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.evaluation.questions import Gold, Question
from pipeline.stores.base import VectorStore

IDS_AT_ONCE = 5000
Targets = Mapping[Gold, frozenset[str]]
"""What counts as found: the id of a document, or those of the chunks any of which will do."""


def find_gold(
    questions: Iterable[Question], documents: pd.DataFrame, vectors: VectorStore
) -> tuple[Targets, Mapping[Gold, str]]:
    """What the gold is, and of gold that is unknown, why. ``documents``: id, source, title of all that are loaded."""
    gold = list(dict.fromkeys(item for question in questions for item in question.gold))
    names = {kind: [item.name for item in gold if item.kind == kind] for kind in ("document", "chunk", "text")}
    found = {
        "document": documents_named(names["document"], documents),
        "chunk": {id: frozenset([id]) for id in _known_chunks(names["chunk"], vectors)},
        "text": chunks_holding(names["text"], vectors.rows("chunks", ["content"])) if names["text"] else {},
    }
    targets = {item: found[item.kind].get(item.name, frozenset()) for item in gold}
    known = {item: ids for item, ids in targets.items() if len(ids) == 1 or (ids and item.kind == "text")}
    unknown = {item: _why(item, len(ids)) for item, ids in targets.items() if item not in known}
    return known, unknown


def documents_named(names: Sequence[str], documents: pd.DataFrame) -> dict[str, frozenset[str]]:
    """The ids of the documents that a name names: by id, else by source, else by title, which several may have."""
    named: dict[str, frozenset[str]] = {}
    wanted = set(names)
    for column in ("title", "source", "id"):
        chosen = documents[documents[column].isin(wanted)]
        named |= {str(name): frozenset(ids) for name, ids in chosen.groupby(column)["id"]}
    return named


def chunks_holding(texts: Sequence[str], chunks: Iterable[pd.DataFrame]) -> dict[str, frozenset[str]]:
    """The ids of the chunks that hold a text, whatever the white space in either. One pass over the chunks (columns
    id and content): a text is looked for only where its longest inner word is, which a chunk has whole or not."""
    flat = {text: " ".join(text.split()) for text in texts}
    by_word: dict[str, list[str]] = defaultdict(list)
    for text, words in flat.items():
        by_word[max(words.split(" ")[1:-1], key=len, default="")].append(text)
    anywhere = by_word.pop("", [])
    held: dict[str, set[str]] = defaultdict(set)
    for page in chunks:
        for id, content in zip(page["id"], page["content"], strict=True):
            words = content.split()
            whole = " ".join(words)
            for text in (*anywhere, *_under(by_word, words)):
                if flat[text] in whole:
                    held[text].add(id)
    return {text: frozenset(ids) for text, ids in held.items()}


def _under(by_word: Mapping[str, list[str]], words: Sequence[str]) -> Iterator[str]:
    for word in by_word.keys() & set(words):
        yield from by_word[word]


def _known_chunks(ids: Sequence[str], vectors: VectorStore) -> list[str]:
    live = vectors.live()
    if live is None or not ids:
        return []
    nothing = np.zeros(live.dimensions, dtype=np.float32)  # their similarity to a question does not matter here
    pages = (ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE))
    return [id for page in pages for id in vectors.chunks(page, nothing)["id"]]


def _why(gold: Gold, found: int) -> str:
    if found:
        return f"the title of {found} documents; name one by its source"
    return {
        "document": "no document with this source, id or title",
        "chunk": "no chunk with this id",
        "text": "no chunk holds this text",
    }[gold.kind]
