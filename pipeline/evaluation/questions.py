"""Questions and their gold: reading them, finding the gold in the stores, and metrics of a ranking.

Gold is what a question should find: a document, a chunk or a text. The rank of a document is its
place among the distinct documents of the ranking. The rank of a chunk, or of the chunk that holds
a text, is its place among the chunks. So k means k documents for the one and k chunks for the
others.
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
"""Key of a line -> kind of the gold that it names."""
ANSWER_KEYS = ("answers", "answer")
"""Keys of a line that hold gold answers."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors write it at the beginning of a file in UTF-8."""
MOST_FAULTS = 5
"""Most faulty lines that a message quotes."""
Record = Mapping[str, Any]
Questions = str | Path | Iterable[Record]
"""The path of a file of questions, or its records."""
IDS_AT_ONCE = 5000
"""Chunks that are looked up with one query of the store."""
NOWHERE = math.inf
"""The rank of gold that was not found."""


@dataclass(frozen=True)
class Gold:
    """An item that a question should find, as the question names it.

    A document is named by source, id or title, a chunk by id, and a text by its words.
    """

    kind: Kind
    name: str


@dataclass(frozen=True)
class Question:
    """A question with its gold.

    ``type``: the type by which results are grouped, or "". ``line``: its line in the file, from 1.
    ``answers``: right short answers, any of which is enough. ``answerable``: false if the documents
    do not answer it, so that a refusal is right; it has no gold then.
    """

    id: str
    text: str
    gold: tuple[Gold, ...]
    type: str
    line: int
    answers: tuple[str, ...] = ()
    answerable: bool = True


class _LineError(Exception):
    """A fault in one line of a file of questions."""


def read_questions(
    questions: Questions, by: str = "type", for_answers: bool = False
) -> list[Question]:
    """Return the questions in the order of their lines.

    ``by`` is the key whose value is a question's type. ``for_answers``: gold answers alone are
    enough gold. Blank lines count as lines. Raises UsageError if a line cannot be read, or if there
    are no questions.
    """
    if isinstance(questions, str | Path):
        where = str(questions)
        lines: Iterable[tuple[int, Any]] = _read_lines(Path(questions))
    else:
        where = "questions"
        lines = enumerate(questions, start=1)
    valid: list[Question] = []
    faults: list[str] = []
    line_of_id: dict[str, int] = {}
    for number, line in lines:
        try:
            record = _parse_json(line) if isinstance(line, bytes) else line
            question = _parse_question(record, number, by, for_answers)
            _refuse_second_use(question.id, line_of_id)
        except _LineError as fault:
            faults.append(f"line {number}: {fault}")
            continue
        line_of_id[question.id] = number
        valid.append(question)
    if faults:
        shown = "; ".join(faults[:MOST_FAULTS])
        n_more = len(faults) - MOST_FAULTS
        more = f"; and {n_more} lines more" if n_more > 0 else ""
        raise UsageError(f"{where}: {shown}{more}")
    if not valid:
        raise UsageError(
            f"{where}: no questions; write one JSON object a line (docs/evaluation.md)"
        )
    return valid


def _refuse_second_use(id: str, line_of_id: Mapping[str, int]) -> None:
    """Raise _LineError if an earlier line has the same id."""
    other_line = line_of_id.get(id)
    if other_line is not None:
        raise _LineError(f"id '{id}' is that of line {other_line} too; give each its own")


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers; a byte order mark is skipped."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); name a file of questions"
        ) from None
    lines = content.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _parse_json(line: bytes) -> Any:
    """Return the JSON value of a line. Raises _LineError if there is none."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _LineError("not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise _LineError(
            f"not JSON ({error.msg}, column {error.colno}); write one object a line"
        ) from None
    # Values are nested too deeply, or numbers are too large.
    except (RecursionError, ValueError):
        raise _LineError("not JSON that can be read; write one object a line") from None


def _parse_question(record: Any, line: int, by: str, for_answers: bool) -> Question:
    """Return the question of a record. Raises _LineError if it is no valid question."""
    if not isinstance(record, Mapping):
        raise _LineError("no object; write {...}, one a line")
    text = record.get("question")
    if not isinstance(text, str) or not any(map(str.isalnum, text)):
        raise _LineError("no question; give its text under 'question'")
    gold: list[Gold] = []
    for key, kind in KEYS.items():
        gold += [Gold(kind, name) for name in _gold_names(record, key)]
    answers: list[str] = []
    for key in ANSWER_KEYS:
        answers += _gold_answers(record, key)
    answerable = record.get("answerable", True)
    if not isinstance(answerable, bool):
        raise _LineError("'answerable' is neither true nor false; write false, or leave it out")
    if not answerable and (gold or answers):
        raise _LineError("gold of a question that is not answerable; leave one of the two out")
    has_gold = bool(gold) or (for_answers and bool(answers))
    if answerable and not has_gold:
        raise _LineError(_say_missing_gold(for_answers))
    id, type = record.get("id"), record.get(by)
    return Question(
        id=str(line) if id is None else _scalar(id, "id"),
        text=clean(text).strip(),
        gold=tuple(dict.fromkeys(gold)),
        type="" if type is None else _scalar(type, by),
        line=line,
        answers=tuple(dict.fromkeys(answers)),
        answerable=answerable,
    )


def _gold_answers(record: Record, key: str) -> list[str]:
    """Return the answers under the key; an empty text under "answer" stands for none."""
    if key == "answer" and record.get(key) == "":
        return []
    return _gold_names(record, key)


def _say_missing_gold(for_answers: bool) -> str:
    keys = ", ".join(KEYS)
    if for_answers:
        return f"no gold; give 'answers', or name what is to be found under one of {keys}"
    return f"no gold; name what is to be found under one of {keys}"


def _gold_names(record: Record, key: str) -> list[str]:
    """Return the texts under the key; a single text counts as a list of one.

    Raises _LineError if the value is no list of texts that are not empty.
    """
    value = record.get(key)
    if value is None:
        return []
    items = [value] if isinstance(value, str) else value
    is_list_of_texts = isinstance(items, list | tuple) and all(
        isinstance(item, str) for item in items
    )
    names = [clean(item).strip() for item in items] if is_list_of_texts else []
    if not is_list_of_texts or not all(names):
        raise _LineError(f"'{key}' is no list of texts; write a list of texts that are not empty")
    return names


def _scalar(value: Any, key: str) -> str:
    """Return a text, number or truth value as a text that is not empty.

    Raises _LineError for anything else.
    """
    if isinstance(value, str | int | float):
        text = value if isinstance(value, str) else json.dumps(value)
        cleaned = clean(text).strip()
        if cleaned:
            return cleaned
    raise _LineError(f"'{key}' is no text or number; write one, or leave it out")


Targets = Mapping[Gold, frozenset[str]]
"""Gold -> ids that count as found: a document's id, or ids of chunks any of which is enough."""


def find_gold(
    questions: Iterable[Question], documents: pd.DataFrame, vectors: VectorStore
) -> tuple[Targets, Mapping[Gold, str]]:
    """Return the ids of the known gold, and the reasons why other gold is unknown.

    ``documents`` has the columns id, source and title of all documents in the stores.
    """
    distinct_gold: dict[Gold, None] = {}
    for question in questions:
        distinct_gold |= dict.fromkeys(question.gold)
    names: dict[Kind, list[str]] = {"document": [], "chunk": [], "text": []}
    for item in distinct_gold:
        names[item.kind].append(item.name)
    found: dict[Kind, dict[str, frozenset[str]]] = {
        "document": find_documents(names["document"], documents),
        "chunk": {id: frozenset([id]) for id in _known_chunks(names["chunk"], vectors)},
        "text": {},
    }
    # All chunks are read for texts, so they are read only if there is a text.
    if names["text"]:
        pages = map(_as_frame, vectors.contents())
        found["text"] = find_chunks(names["text"], pages)
    known: dict[Gold, frozenset[str]] = {}
    unknown: dict[Gold, str] = {}
    for item in distinct_gold:
        ids = found[item.kind].get(item.name, frozenset())
        # Several chunks may hold a text, but a document or chunk must be a single one.
        is_known = bool(ids) if item.kind == "text" else len(ids) == 1
        if is_known:
            known[item] = ids
        else:
            unknown[item] = _why_unknown(item, len(ids))
    return known, unknown


def _as_frame(contents: Sequence[tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(contents, columns=["id", "content"])


def find_documents(names: Sequence[str], documents: pd.DataFrame) -> dict[str, frozenset[str]]:
    """Return name -> ids of the documents with this id, or else source, or else title.

    Several documents may have the same title.
    """
    ids_by_name: dict[str, frozenset[str]] = {}
    wanted = set(names)
    # A later column replaces what an earlier one has found.
    for column in ("title", "source", "id"):
        has_name = documents[column].isin(wanted)
        for name, ids in documents[has_name].groupby(column)["id"]:
            ids_by_name[str(name)] = frozenset(ids)
    return ids_by_name


def find_chunks(texts: Sequence[str], chunks: Iterable[pd.DataFrame]) -> dict[str, frozenset[str]]:
    """Return text -> ids of the chunks that hold it; differences of white space do not count.

    ``chunks`` are pages with the columns id and content, read once. A text is compared only with
    chunks that have its longest inner word: the first and the last word may be cut in the text.
    """
    flat_texts = {text: " ".join(text.split()) for text in texts}
    texts_by_word: dict[str, list[str]] = defaultdict(list)
    for text, flat_text in flat_texts.items():
        inner_words = flat_text.split(" ")[1:-1]
        longest_word = max(inner_words, key=len, default="")
        texts_by_word[longest_word].append(text)
    # A text of one or two words has no inner word: it is compared with every chunk.
    without_word = texts_by_word.pop("", [])
    holders: dict[str, set[str]] = defaultdict(set)
    for page in chunks:
        for id, content in zip(page["id"], page["content"], strict=True):
            words = content.split()
            flat_content = " ".join(words)
            candidates = list(without_word)
            for word in texts_by_word.keys() & set(words):
                candidates += texts_by_word[word]
            for text in candidates:
                if flat_texts[text] in flat_content:
                    holders[text].add(id)
    return {text: frozenset(ids) for text, ids in holders.items()}


def _known_chunks(ids: Sequence[str], vectors: VectorStore) -> list[str]:
    """Return the ids that are chunks in the stores."""
    live = vectors.live()
    if live is None or not ids:
        return []
    # The similarity of the chunks to a question does not matter here.
    no_question = np.zeros(live.dimensions, dtype=np.float32)
    known: list[str] = []
    for start in range(0, len(ids), IDS_AT_ONCE):
        page = ids[start : start + IDS_AT_ONCE]
        known += [chunk.id for chunk in vectors.chunks(page, no_question)]
    return known


def _why_unknown(gold: Gold, found: int) -> str:
    if found:
        return f"the title of {found} documents; name one by its source"
    return {
        "document": "no document with this source, id or title",
        "chunk": "no chunk with this id",
        "text": "no chunk holds this text",
    }[gold.kind]


@dataclass(frozen=True)
class Passage:
    """A chunk in a ranking, with the id of its document."""

    id: str
    document_id: str


def rank_gold(
    gold: Iterable[tuple[Kind, frozenset[str]]], ranking: Sequence[Passage]
) -> list[float]:
    """Return the rank, from 1, of each item of the gold; infinity for one that was not found.

    An item is its kind and a set of ids; the id with the best rank counts.
    """
    document_ranks = _distinct_ranks([passage.document_id for passage in ranking])
    chunk_ranks = _distinct_ranks([passage.id for passage in ranking])
    gold_ranks: list[float] = []
    for kind, ids in gold:
        rank_of = document_ranks if kind == "document" else chunk_ranks
        found = [rank_of[id] for id in ids if id in rank_of]
        gold_ranks.append(min(found, default=NOWHERE))
    return gold_ranks


def metric_names(ks: Iterable[int], with_budget: bool = False) -> list[str]:
    """Return the names of the metrics: recall@k, then all_gold@k.

    With a budget of prompt tokens, each metric ends with @budget: recall@5, recall@budget,
    all_gold@5, all_gold@budget.
    """
    limits = [str(k) for k in ks]
    if with_budget:
        limits.append("budget")
    return [f"{metric}@{limit}" for metric in ("recall", "all_gold") for limit in limits]


def compute_metrics(
    found: Sequence[float], ks: Sequence[int], shown: Sequence[float] | None = None
) -> dict[str, float]:
    """Return metric -> value for one question, with the names of `metric_names`.

    ``found`` are the ranks of the question's gold, at least one. ``shown`` are its ranks in a
    prompt within the budget. Recall is the share of the gold that was found; all_gold is 1 if all
    of it was, otherwise 0.
    """
    recalls: list[float] = []
    for k in ks:
        n_found = sum(1 for rank in found if rank <= k)
        recalls.append(n_found / len(found))
    if shown is not None:
        n_shown = sum(1 for rank in shown if rank < NOWHERE)
        recalls.append(n_shown / len(shown))
    all_gold = [float(recall == 1) for recall in recalls]
    # The names stand in this order: recall at each limit, then all_gold at each.
    names = metric_names(ks, with_budget=shown is not None)
    return dict(zip(names, [*recalls, *all_gold], strict=True))


def _distinct_ranks(ids: Sequence[str]) -> dict[str, int]:
    """Return id -> its place among the distinct ids, from 1."""
    return {id: rank for rank, id in enumerate(dict.fromkeys(ids), start=1)}
