"""Setup and results of an evaluation: a row per question and mode, means, and the JSON file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import UsageError
from pipeline.evaluation.questions import NOWHERE, Gold, Question, Targets, metric_names
from pipeline.settings.query_fields import REPORT_MODES, SEARCH_MODES

MODES = tuple(mode for mode in SEARCH_MODES if mode not in REPORT_MODES)
"""Modes that retrieve text units, which can be evaluated."""
KS = (2, 5, 10, 20)
FORMAT = 1
"""Version of the JSON file."""
TOKEN_COLUMNS = ["prompt_tokens", "entity_tokens", "relationship_tokens", "chunk_tokens"]
RESULT_COLUMNS = ["mode", "id", "type", "ranks", "chunks", *TOKEN_COLUMNS, "cut", "latency_ms"]
DIGITS = 6
ANSWERS = "answers"
"""The ``kind`` in the JSON of an evaluation of answers."""
ANSWER_MEASURES = (
    "exact_match",
    "f1",
    "contains_gold",
    "citation_precision",
    "citation_recall",
    "supported",
    "refused",
    "wrongly_refused",
    "judged_right",
    "judged_partly",
)
Values = Mapping[str, float]
"""Metric -> value."""


@dataclass(frozen=True)
class Setup:
    """The setup of an evaluation.

    ``ks``: numbers of passages at which metrics are taken. ``budget``: tokens of a prompt at which
    they are taken too. ``by``: key of the questions by which results are grouped. ``keywords``: the
    chat model is asked for keywords, as in a query; otherwise the question itself is used.
    ``rerank``: the reranker is used.
    """

    modes: tuple[str, ...] = MODES
    ks: tuple[int, ...] = KS
    budget: int | None = None
    by: str = "type"
    keywords: bool = False
    rerank: bool = False

    @classmethod
    def of(
        cls,
        modes: Sequence[str] | None,
        ks: Sequence[int] | None,
        budget: int | None,
        by: str,
        keywords: bool,
        rerank: bool,
    ) -> "Setup":
        """Return a valid setup; None stands for all MODES and for KS.

        Raises UsageError for an unknown mode, and for a ``ks`` or ``budget`` below 1.
        """
        ks = KS if ks is None else ks
        chosen = MODES if modes is None else tuple(dict.fromkeys(modes))
        if not chosen or not set(chosen) <= set(MODES):
            strange = ", ".join(mode for mode in chosen if mode not in MODES) or "none"
            raise UsageError(
                f"eval: modes: {strange}: what can be evaluated are modes that find text units"
                f" without an answer, {', '.join(MODES)}"
            )
        if not ks or min(ks) < 1:
            raise UsageError("eval: k: give whole numbers from 1, as in 2,5,10,20")
        if budget is not None and budget < 1:
            raise UsageError("eval: budget: give a number of tokens from 1")
        return cls(chosen, tuple(sorted(set(ks))), budget, by, keywords, rerank)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "modes": list(self.modes), "ks": list(self.ks)}


@dataclass(frozen=True)
class SkippedQuestion:
    """A question that is in no figure; ``unknown`` maps its unknown gold to the reasons."""

    question: Question
    unknown: Mapping[Gold, str]

    @classmethod
    def of(cls, question: Question, unknown: Mapping[Gold, str]) -> "SkippedQuestion":
        """Return the question with its share of the unknown gold of all questions."""
        of_question = {gold: unknown[gold] for gold in question.gold if gold in unknown}
        return cls(question, of_question)


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    ``results``: a row for each mode and question, with RESULT_COLUMNS and a column per metric.
    There, ``ranks`` are the ranks of the question's gold and ``chunks`` the ids found, in order;
    ``cut`` is the number of chunks that the budget had no room for. ``latency_ms`` is the time of
    the retrieval without that of models.

    ``stores``: the load that was evaluated. ``documents``: source and title by id. ``passages``:
    document_id and excerpt of every retrieved chunk by id. ``notes``: notes of the queries.
    """

    setup: Setup
    stores: Mapping[str, Any]
    chunk_top_k: int
    questions: tuple[Question, ...]
    left_out: tuple[SkippedQuestion, ...]
    targets: Targets
    results: pd.DataFrame
    documents: pd.DataFrame
    passages: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return metric_names(self.setup.ks, self.setup.budget is not None)

    def summary(self) -> pd.DataFrame:
        """Return means by mode: metrics, tokens and ``cut``; and p50_ms and p95_ms of latency."""
        latency = self.results.groupby("mode", sort=False)["latency_ms"]
        quantiles = pd.DataFrame(
            {"p50_ms": latency.quantile(0.5), "p95_ms": latency.quantile(0.95)}
        )
        return self._means(self.results).join(quantiles.round(2))

    def by_type(self) -> dict[str, pd.DataFrame]:
        """Return type -> means by mode with the number of ``questions``; empty without types."""
        if not self.results["type"].any():
            return {}
        return {str(type): self._means(rows) for type, rows in self.results.groupby("type")}

    def _means(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the means of the rows by mode, with the number of ``questions``."""
        by_mode = rows.groupby("mode", sort=False)
        columns = [*self.metrics, *TOKEN_COLUMNS, "cut"]
        means = by_mode[columns].mean().round(DIGITS)
        means.insert(0, "questions", by_mode.size())
        return means

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as JSON; only ``timings`` differ between equal evaluations."""
        types: dict[str, Any] = {}
        for type, means in self.by_type().items():
            types[type] = means.to_dict("index")
        timings: dict[Any, Any] = {}
        for mode, row in self.summary().to_dict("index").items():
            timings[mode] = {"p50_ms": row["p50_ms"], "p95_ms": row["p95_ms"]}
        return {
            "format": FORMAT,
            "setup": {**self.setup.to_json(), "chunk_top_k": self.chunk_top_k},
            "stores": dict(self.stores),
            "modes": self._means(self.results).to_dict("index"),
            "types": types,
            "questions": [self._question_json(question) for question in self.questions],
            "passages": self._passages_json(),
            "left_out": [describe_left_out(left) for left in self.left_out],
            "notes": list(self.notes),
            "timings": timings,
        }

    def _passages_json(self) -> dict[str, Any]:
        """Return chunk id -> id, source and title of its document."""
        passages: dict[str, Any] = {}
        for id, document_id in self.passages["document_id"].items():
            document = self._document_json(str(document_id))
            passages[str(id)] = {"document": document_id, **document}
        return passages

    def _document_json(self, id: str) -> dict[str, str]:
        """Return source and title of a document; "" if the id is unknown."""
        if id not in self.documents.index:
            return {"source": "", "title": ""}
        return {
            "source": str(self.documents.at[id, "source"]),
            "title": str(self.documents.at[id, "title"]),
        }

    def _question_json(self, question: Question) -> dict[str, Any]:
        """Return a question with its gold and the result of each mode."""
        gold: list[dict[str, Any]] = []
        for item in question.gold:
            ids = sorted(self.targets[item])
            gold.append({"kind": item.kind, "name": item.name, "ids": ids})
        modes: dict[str, Any] = {}
        rows = self.results[self.results["id"] == question.id]
        for row in rows.to_dict("records"):
            values: dict[str, Any] = {}
            for name in self.metrics:
                values[name] = round(row[name], DIGITS)
            for name in (*TOKEN_COLUMNS, "cut"):
                values[name] = row[name]
            values["ranks"] = [rank_or_none(rank) for rank in row["ranks"]]
            values["chunks"] = row["chunks"]
            modes[row["mode"]] = values
        return {
            "id": question.id,
            "question": question.text,
            "type": question.type,
            "gold": gold,
            "modes": modes,
        }


def describe_left_out(left: SkippedQuestion) -> dict[str, Any]:
    """Return a question that is in no figure as JSON."""
    unknown_gold = [
        {"kind": gold.kind, "name": gold.name, "reason": reason}
        for gold, reason in left.unknown.items()
    ]
    return {
        "id": left.question.id,
        "line": left.question.line,
        "question": left.question.text,
        "unknown_gold": unknown_gold,
    }


def rank_or_none(rank: float) -> int | None:
    """Return the rank as an integer; None if it is infinite."""
    return None if rank == NOWHERE else int(rank)


@dataclass(frozen=True)
class StoredEvaluation:
    """An evaluation that was read from its JSON file.

    ``modes``: mode -> means. ``rows``: mode -> (id, text) of a question -> its values.
    """

    name: str
    modes: Mapping[str, Values]
    rows: Mapping[str, Mapping[tuple[str, str], Values]]


def read_evaluation(path: str | Path) -> StoredEvaluation:
    """Read a file that ``graphmill eval --output`` has written.

    Raises UsageError if the file cannot be read or is no such file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or error}); name the JSON of an eval"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(
            f"{path}: not JSON; name a file that 'graphmill eval --output' has written"
        ) from None
    try:
        return stored(str(path), content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"{path}: no evaluation of this version; name a file that 'graphmill eval --output' has"
            " written"
        ) from None


def stored(name: str, content: Mapping[str, Any]) -> StoredEvaluation:
    """Return the evaluation from the result of ``Evaluation.to_json``.

    Raises KeyError, TypeError, ValueError or AttributeError for anything else.
    """
    if content["format"] != FORMAT:
        raise ValueError(name)
    modes: dict[str, Values] = {}
    rows: dict[str, dict[tuple[str, str], Values]] = {}
    for mode, means in content["modes"].items():
        modes[mode] = _values(means)
        rows[mode] = {}
    for question in content["questions"]:
        key = question["id"], question["question"]
        for mode, values in question["modes"].items():
            rows[mode][key] = _values(values)
    return StoredEvaluation(name, modes, rows)


def _values(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics and tokens among the values, without those that have no value."""
    values: dict[str, float] = {}
    for name, value in content.items():
        is_measure = "@" in name or name in TOKEN_COLUMNS or name in ANSWER_MEASURES
        if is_measure and value is not None:
            values[name] = float(value)
    return values
