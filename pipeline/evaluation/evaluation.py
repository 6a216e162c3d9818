"""What an evaluation has found: a row for each question and mode, and their means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.evaluation.gold import Targets
from pipeline.evaluation.metrics import NOWHERE, Place, names
from pipeline.evaluation.questions import Gold, Question
from pipeline.evaluation.setup import Setup

FORMAT = 1
TOKEN_COLUMNS = ["prompt_tokens", "entity_tokens", "relationship_tokens", "chunk_tokens"]
RESULT_COLUMNS = ["mode", "id", "type", "places", "chunks", *TOKEN_COLUMNS, "cut", "latency_ms"]
DIGITS = 6


@dataclass(frozen=True)
class LeftOut:
    """A question that is in no figure: some of its gold is unknown. ``unknown``: that gold -> why it is."""

    question: Question
    unknown: Mapping[Gold, str]

    @classmethod
    def of(cls, question: Question, unknown: Mapping[Gold, str]) -> "LeftOut":
        return cls(question, {gold: unknown[gold] for gold in question.gold if gold in unknown})


@dataclass(frozen=True)
class Evaluation:
    """``results``: RESULT_COLUMNS and a column a metric, a row for each mode and question; ``chunks`` are the ids in
    the order of their ranks, ``places`` those of the question's gold, ``cut`` how many chunks no budget had room for,
    ``latency_ms`` the time of the retrieval without that of models.

    ``stores``: what was loaded; ``documents``: source and title by id; ``passages``: document_id and excerpt of every
    chunk that was retrieved, by id; ``notes``: what queries said of the stores.
    """

    setup: Setup
    stores: Mapping[str, Any]
    chunk_top_k: int
    questions: tuple[Question, ...]
    left_out: tuple[LeftOut, ...]
    targets: Targets
    results: pd.DataFrame
    documents: pd.DataFrame
    passages: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> list[str]:
        return names(self.setup.ks, self.setup.budget)

    def summary(self) -> pd.DataFrame:
        """Means by mode: the metrics, the tokens, ``cut``; p50_ms and p95_ms of the latency."""
        latency = self.results.groupby("mode", sort=False)["latency_ms"]
        quantiles = pd.DataFrame({"p50_ms": latency.quantile(0.5), "p95_ms": latency.quantile(0.95)})
        return self._means(self.results).join(quantiles.round(2))

    def by_type(self) -> dict[str, pd.DataFrame]:
        """Type -> means by mode, ``questions`` among them; empty where no question has a type."""
        if not self.results["type"].any():
            return {}
        return {str(type): self._means(rows) for type, rows in self.results.groupby("type")}

    def _means(self, rows: pd.DataFrame) -> pd.DataFrame:
        means = rows.groupby("mode", sort=False)[[*self.metrics, *TOKEN_COLUMNS, "cut"]].mean().round(DIGITS)
        means.insert(0, "questions", rows.groupby("mode", sort=False).size())
        return means

    def to_json(self) -> dict[str, Any]:
        """The same for the same questions and stores, but for ``timings``."""
        return {
            "format": FORMAT,
            "setup": {**self.setup.to_json(), "chunk_top_k": self.chunk_top_k},
            "stores": dict(self.stores),
            "modes": _records(self._means(self.results)),
            "types": {type: _records(means) for type, means in self.by_type().items()},
            "questions": [self._question_json(question) for question in self.questions],
            "passages": {
                str(id): {"document": row.document_id, **self._document_json(str(row.document_id))}
                for id, row in zip(self.passages.index, self.passages.itertuples(index=False), strict=True)
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
                for mode, row in _records(self.summary()).items()
            },
        }

    def _document_json(self, id: str) -> dict[str, str]:
        known = id in self.documents.index
        return {column: str(self.documents.at[id, column]) if known else "" for column in ("source", "title")}

    def _question_json(self, question: Question) -> dict[str, Any]:
        rows = self.results[self.results["id"] == question.id]
        return {
            "id": question.id,
            "question": question.text,
            "type": question.type,
            "gold": [
                {"kind": gold.kind, "name": gold.name, "ids": sorted(self.targets[gold])} for gold in question.gold
            ],
            "modes": {
                row["mode"]: {
                    **{name: round(row[name], DIGITS) for name in self.metrics},
                    **{name: row[name] for name in [*TOKEN_COLUMNS, "cut"]},
                    "ranks": [rank_of(place) for place in row["places"]],
                    "chunks": row["chunks"],
                }
                for row in rows.to_dict("records")
            },
        }


def rank_of(place: Place) -> int | None:
    return None if place.rank == NOWHERE else int(place.rank)


def _records(means: pd.DataFrame) -> dict[str, dict[str, float]]:
    rows = means.astype(object).to_dict("records")
    return {str(mode): {str(name): row[name] for name in row} for mode, row in zip(means.index, rows, strict=True)}
