"""Questions and their gold, the gold looked up in what is loaded, and what a ranking is worth.

A document is found at the place it has among the distinct documents of the ranking, a chunk or a
text at the place of its chunk: k passages are k documents for the one, k chunks for the other.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.errors import UsageError
from pipeline.stores.reads import VectorStore
from pipeline.text.ids import clean

Kind = Literal["document", "chunk", "text"]
KEYS: dict[str, Kind] = {"documents": "document", "chunks": "chunk", "texts": "text"}
"""Key of a line -> what its names are."""

MOST_FAULTS = 5
Record = Mapping[str, Any]
Questions = str | Path | Iterable[Record]
"""A file of questions, or what its lines would hold."""
IDS_AT_ONCE = 5000
NOWHERE = math.inf


@dataclass(frozen=True)
class Gold:
    """Something to be found, as the questions name it: a document by source, id or title, a chunk
    by id, or a text that a chunk holds."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Question:
    """``type``: what it is counted under, "" where it has none; ``line``: where it stands, from
    1."""

    id: str
    text: str
    gold: tuple[Gold, ...]
    type: str
    line: int


class _LineError(Exception):
    """What is wrong with one line."""


def read_questions(questions: Questions, by: str = "type") -> list[Question]:
    """In their order. ``by``: the key whose value is a question's ``type``. Blank lines count as
    lines.

    Raises UsageError that names the lines which cannot be read, or where there is no question at
    all.
    """
    where = str(questions) if isinstance(questions, str | Path) else "questions"
    lines = (
        _lines(Path(questions))
        if isinstance(questions, str | Path)
        else enumerate(questions, start=1)
    )
    read, faults, seen = [], [], {}
    for number, line in lines:
        try:
            question = _question(_record(line) if isinstance(line, bytes) else line, number, by)
            if question.id in seen:
                raise _LineError(
                    f"id '{question.id}' is that of line {seen[question.id]} too; give each its own"
                )
        except _LineError as fault:
            faults.append(f"line {number}: {fault}")
            continue
        seen[question.id] = number
        read.append(question)
    if faults:
        more = f"; and {len(faults) - MOST_FAULTS} lines more" if len(faults) > MOST_FAULTS else ""
        raise UsageError(f"{where}: {'; '.join(faults[:MOST_FAULTS])}{more}")
    if not read:
        raise UsageError(
            f"{where}: no questions; write one JSON object a line (docs/evaluation.md)"
        )
    return read


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Those that are not blank; without the mark that some editors begin a file with."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); name a file of questions"
        ) from None
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _record(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _LineError("not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise _LineError(
            f"not JSON ({error.msg}, column {error.colno}); write one object a line"
        ) from None
    except (RecursionError, ValueError):  # nested or numbers too large for any reader
        raise _LineError("not JSON that can be read; write one object a line") from None


def _question(record: Any, line: int, by: str) -> Question:
    if not isinstance(record, Mapping):
        raise _LineError("no object; write {...}, one a line")
    text = record.get("question")
    if not isinstance(text, str) or not any(map(str.isalnum, text)):
        raise _LineError("no question; give its text under 'question'")
    gold = [Gold(kind, name) for key, kind in KEYS.items() for name in _names(record, key)]
    if not gold:
        raise _LineError(f"no gold; name what is to be found under one of {', '.join(KEYS)}")
    given, kind = record.get("id"), record.get(by)
    return Question(
        str(line) if given is None else _scalar(given, "id"),
        clean(text).strip(),
        tuple(dict.fromkeys(gold)),
        "" if kind is None else _scalar(kind, by),
        line,
    )


def _names(record: Record, key: str) -> list[str]:
    """A list of texts; a text alone is a list of one."""
    given = record.get(key)
    names = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(
        isinstance(name, str) and clean(name).strip() for name in names
    ):
        raise _LineError(f"'{key}' is no list of texts; write a list of texts that are not empty")
    return [clean(name).strip() for name in names]


def _scalar(value: Any, key: str) -> str:
    """Texts, numbers and truth values, as a text."""
    if isinstance(value, str | int | float):
        written = clean(value if isinstance(value, str) else json.dumps(value)).strip()
        if written:
            return written
    raise _LineError(f"'{key}' is no text or number; write one, or leave it out")


Targets = Mapping[Gold, frozenset[str]]
"""What counts as found: the id of a document, or those of the chunks any of which will do."""


def find_gold(
    questions: Iterable[Question], documents: pd.DataFrame, vectors: VectorStore
) -> tuple[Targets, Mapping[Gold, str]]:
    """What the gold is, and of gold that is unknown, why. ``documents``: id, source, title of all
    that are loaded."""
    gold = list(dict.fromkeys(item for question in questions for item in question.gold))
    names = {
        kind: [item.name for item in gold if item.kind == kind]
        for kind in ("document", "chunk", "text")
    }
    found = {
        "document": documents_named(names["document"], documents),
        "chunk": {id: frozenset([id]) for id in _known_chunks(names["chunk"], vectors)},
        "text": chunks_holding(names["text"], map(_frame, vectors.contents()))
        if names["text"]
        else {},
    }
    targets = {item: found[item.kind].get(item.name, frozenset()) for item in gold}
    known = {
        item: ids for item, ids in targets.items() if len(ids) == 1 or (ids and item.kind == "text")
    }
    unknown = {item: _why(item, len(ids)) for item, ids in targets.items() if item not in known}
    return known, unknown


def _frame(contents: Sequence[tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(contents, columns=["id", "content"])


def documents_named(names: Sequence[str], documents: pd.DataFrame) -> dict[str, frozenset[str]]:
    """The ids of the documents that a name names: by id, else by source, else by title, which
    several may have."""
    named: dict[str, frozenset[str]] = {}
    wanted = set(names)
    for column in ("title", "source", "id"):
        chosen = documents[documents[column].isin(wanted)]
        named |= {str(name): frozenset(ids) for name, ids in chosen.groupby(column)["id"]}
    return named


def chunks_holding(
    texts: Sequence[str], chunks: Iterable[pd.DataFrame]
) -> dict[str, frozenset[str]]:
    """The ids of the chunks that hold a text, whatever the white space in either. One pass over the
    chunks (columns id and content): a text is looked for only where its longest inner word is,
    which a chunk has whole or not."""
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
    nothing = np.zeros(
        live.dimensions, dtype=np.float32
    )  # their similarity to a question does not matter here
    pages = (ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE))
    return [chunk.id for page in pages for chunk in vectors.chunks(page, nothing)]


def _why(gold: Gold, found: int) -> str:
    if found:
        return f"the title of {found} documents; name one by its source"
    return {
        "document": "no document with this source, id or title",
        "chunk": "no chunk with this id",
        "text": "no chunk holds this text",
    }[gold.kind]


@dataclass(frozen=True)
class Passage:
    """A chunk of a ranking."""

    id: str
    document_id: str


def ranks(gold: Iterable[tuple[Kind, frozenset[str]]], ranking: Sequence[Passage]) -> list[float]:
    """At which rank each of the gold is first met, from 1, among documents or chunks; infinite for
    what was not found. Gold is its kind, and ids of which any will do."""
    documents = _ranks([passage.document_id for passage in ranking])
    chunks = _ranks([passage.id for passage in ranking])
    return [
        min(
            (
                rank
                for id, rank in (documents if kind == "document" else chunks).items()
                if id in ids
            ),
            default=NOWHERE,
        )
        for kind, ids in gold
    ]


def names(ks: Iterable[int], with_budget: bool = False) -> list[str]:
    """recall@k and all_gold@k; with a budget also recall@budget and all_gold@budget."""
    limits = [*map(str, ks), *(["budget"] if with_budget else [])]
    return [f"{metric}@{limit}" for metric in ("recall", "all_gold") for limit in limits]


def metrics(
    found: Sequence[float], ks: Sequence[int], shown: Sequence[float] | None = None
) -> dict[str, float]:
    """By their names. ``found``: the ranks of a question's gold, of which there is some; ``shown``:
    those in a prompt of the budget."""
    shares = [sum(rank <= k for rank in found) / len(found) for k in ks]
    if shown is not None:
        shares.append(sum(rank < NOWHERE for rank in shown) / len(shown))
    columns = names(ks, with_budget=shown is not None)
    return dict(zip(columns, [*shares, *(float(share == 1) for share in shares)], strict=True))


def _ranks(ids: Sequence[str]) -> dict[str, int]:
    """Id -> its place among the distinct ids, from 1."""
    return {id: rank for rank, id in enumerate(dict.fromkeys(ids), start=1)}
