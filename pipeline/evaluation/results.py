"""What an evaluation asks for and has found: a row for each question and mode, their means, and its
JSON file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from pipeline.errors import UsageError
from pipeline.evaluation.questions import NOWHERE, Gold, Question, Targets, names
from pipeline.settings.query_fields import Mode

ANSWERING = frozenset({"bypass", "community", "drift"})
"""Modes that find no text units before a model answers."""
MODES = tuple(mode for mode in get_args(Mode) if mode not in ANSWERING)
"""Those that retrieve."""
KS = (2, 5, 10, 20)
FORMAT = 1
TOKEN_COLUMNS = ["prompt_tokens", "entity_tokens", "relationship_tokens", "chunk_tokens"]
RESULT_COLUMNS = ["mode", "id", "type", "ranks", "chunks", *TOKEN_COLUMNS, "cut", "latency_ms"]
DIGITS = 6
Values = Mapping[str, float]
"""Metric -> value."""


@dataclass(frozen=True)
class Setup:
    """``budget``: tokens of a prompt that is looked at too; ``by``: the questions' key to count
    apart by; ``keywords``: the chat model is asked for them, as in a query, where else the question
    itself is searched for; ``rerank``: so is the reranker, where else nothing is ranked anew."""

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
        """None: MODES, KS. Raises UsageError for what makes no sense."""
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
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class SkippedQuestion:
    """A question that is in no figure: some of its gold is unknown. ``unknown``: that gold -> why
    it is."""

    question: Question
    unknown: Mapping[Gold, str]

    @classmethod
    def of(cls, question: Question, unknown: Mapping[Gold, str]) -> "SkippedQuestion":
        return cls(question, {gold: unknown[gold] for gold in question.gold if gold in unknown})


@dataclass(frozen=True)
class Evaluation:
    """``results``: RESULT_COLUMNS and a column a metric, a row for each mode and question;
    ``chunks`` are the ids in the order of their ranks, ``ranks`` those of the question's gold,
    ``cut`` how many chunks no budget had room for, ``latency_ms`` the time of the retrieval without
    that of models.

    ``stores``: what was loaded; ``documents``: source and title by id; ``passages``: document_id
    and excerpt of every chunk that was retrieved, by id; ``notes``: what queries said of the
    stores.
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
        return names(self.setup.ks, self.setup.budget is not None)

    def summary(self) -> pd.DataFrame:
        """Means by mode: the metrics, the tokens, ``cut``; p50_ms and p95_ms of the latency."""
        latency = self.results.groupby("mode", sort=False)["latency_ms"]
        quantiles = pd.DataFrame(
            {"p50_ms": latency.quantile(0.5), "p95_ms": latency.quantile(0.95)}
        )
        return self._means(self.results).join(quantiles.round(2))

    def by_type(self) -> dict[str, pd.DataFrame]:
        """Type -> means by mode, ``questions`` among them; empty where no question has a type."""
        if not self.results["type"].any():
            return {}
        return {str(type): self._means(rows) for type, rows in self.results.groupby("type")}

    def _means(self, rows: pd.DataFrame) -> pd.DataFrame:
        means = (
            rows.groupby("mode", sort=False)[[*self.metrics, *TOKEN_COLUMNS, "cut"]]
            .mean()
            .round(DIGITS)
        )
        means.insert(0, "questions", rows.groupby("mode", sort=False).size())
        return means

    def to_json(self) -> dict[str, Any]:
        """The same for the same questions and stores, but for ``timings``."""
        return {
            "format": FORMAT,
            "setup": {**self.setup.to_json(), "chunk_top_k": self.chunk_top_k},
            "stores": dict(self.stores),
            "modes": self._means(self.results).to_dict("index"),
            "types": {type: means.to_dict("index") for type, means in self.by_type().items()},
            "questions": [self._question_json(question) for question in self.questions],
            "passages": {
                str(id): {"document": row.document_id, **self._document_json(str(row.document_id))}
                for id, row in zip(
                    self.passages.index, self.passages.itertuples(index=False), strict=True
                )
            },
            "left_out": [
                {
                    "id": left.question.id,
                    "line": left.question.line,
                    "question": left.question.text,
                    "unknown_gold": [
                        {"kind": gold.kind, "name": gold.name, "reason": reason}
                        for gold, reason in left.unknown.items()
                    ],
                }
                for left in self.left_out
            ],
            "notes": list(self.notes),
            "timings": {
                mode: {name: row[name] for name in ("p50_ms", "p95_ms")}
                for mode, row in self.summary().to_dict("index").items()
            },
        }

    def _document_json(self, id: str) -> dict[str, str]:
        known = id in self.documents.index
        return {
            column: str(self.documents.at[id, column]) if known else ""
            for column in ("source", "title")
        }

    def _question_json(self, question: Question) -> dict[str, Any]:
        rows = self.results[self.results["id"] == question.id]
        return {
            "id": question.id,
            "question": question.text,
            "type": question.type,
            "gold": [
                {"kind": gold.kind, "name": gold.name, "ids": sorted(self.targets[gold])}
                for gold in question.gold
            ],
            "modes": {
                row["mode"]: {
                    **{name: round(row[name], DIGITS) for name in self.metrics},
                    **{name: row[name] for name in [*TOKEN_COLUMNS, "cut"]},
                    "ranks": [told_rank(rank) for rank in row["ranks"]],
                    "chunks": row["chunks"],
                }
                for row in rows.to_dict("records")
            },
        }


def told_rank(rank: float) -> int | None:
    return None if rank == NOWHERE else int(rank)


@dataclass(frozen=True)
class StoredEvaluation:
    """``modes``: means by mode; ``rows``: by mode, then by question: its id and text."""

    name: str
    modes: Mapping[str, Values]
    rows: Mapping[str, Mapping[tuple[str, str], Values]]


def read_evaluation(path: str | Path) -> StoredEvaluation:
    """Raises UsageError for what ``graphmill eval --output`` has not written."""
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
    """``content``: what ``Evaluation.to_json`` gives."""
    if content["format"] != FORMAT:
        raise ValueError(name)
    modes = {mode: _values(means) for mode, means in content["modes"].items()}
    rows: dict[str, dict[tuple[str, str], Values]] = {mode: {} for mode in modes}
    for question in content["questions"]:
        for mode, values in question["modes"].items():
            rows[mode][question["id"], question["question"]] = _values(values)
    return StoredEvaluation(name, modes, rows)


def _values(content: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in content.items()
        if "@" in name or name in TOKEN_COLUMNS
    }
