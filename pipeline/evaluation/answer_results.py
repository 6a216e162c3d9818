"""Setup and results of an evaluation of answers: measures of each answer, means, and the JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from pipeline.errors import UsageError
from pipeline.evaluation.answer_match import agreement, contains_gold, exact_match, token_f1
from pipeline.evaluation.judge import PARTLY, RIGHT
from pipeline.evaluation.questions import Gold, Question, Targets
from pipeline.evaluation.results import (
    ANSWER_MEASURES,
    ANSWERS,
    DIGITS,
    FORMAT,
    MODES,
    SkippedQuestion,
    describe_left_out,
)
from pipeline.query.citations.annotations import Annotation
from pipeline.query.data_citations import CITATION


@dataclass(frozen=True)
class AnswerSetup:
    """The setup of an evaluation of answers.

    ``modes``: none stands for the project's default mode. ``by``, ``keywords`` and ``rerank``: as
    in ``Setup``. ``model``: the name in models.chat of the model that answers; "" for the project's
    default. ``judge``: the name of the model that judges, "" for none. ``max_cost`` and
    ``max_tokens``: limits, as in RunOptions.
    """

    modes: tuple[str, ...] = ()
    by: str = "type"
    keywords: bool = False
    rerank: bool = False
    model: str = ""
    judge: str = ""
    max_cost: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        strange = [mode for mode in self.modes if mode not in MODES]
        if strange:
            raise UsageError(
                f"eval: modes: {', '.join(strange)}: answers are evaluated in modes that find text"
                f" units, {', '.join(MODES)}"
            )

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        # Limits say what may be spent, and change no result.
        del content["max_cost"], content["max_tokens"]
        return {**content, "modes": list(self.modes)}


@dataclass(frozen=True)
class Citation:
    """A cited passage. ``is_gold``: it is, or belongs to, gold of the question.

    ``supported``: the share of its citations whose statement it supports.
    """

    chunk: str
    document: str
    citations: int
    supported: int
    is_gold: bool


@dataclass(frozen=True)
class GivenAnswer:
    """The answer to a question in a mode.

    ``plain``: the text without the marks of its citations. ``abstention``: the reason why it is no
    answer, "" if it is one. ``found``: gold that is cited. ``verdict``: that of the judge, or "".
    """

    mode: str
    question: Question
    text: str
    plain: str
    abstention: str
    citations: tuple[Citation, ...]
    found: tuple[Gold, ...]
    prompt_tokens: int
    notes: tuple[str, ...] = ()
    verdict: str = ""
    unjudged: str = ""

    @property
    def is_judgeable(self) -> bool:
        """True if there is an answer, and gold to compare it with."""
        return bool(self.question.answers) and not self.abstention


def measure_answer(given: GivenAnswer, has_judge: bool) -> dict[str, float | None]:
    """Return the measures of an answer, by the names of ANSWER_MEASURES.

    A refusal of an answerable question matches nothing, cites nothing, and is not right.
    """
    question = given.question
    refused = float(bool(given.abstention))
    values: dict[str, float | None] = dict.fromkeys(ANSWER_MEASURES)
    if not question.answerable:
        values["refused"] = refused
        return values
    values["wrongly_refused"] = refused
    if question.answers:
        values |= _match_gold(given)
    if has_judge and question.answers and not given.unjudged:
        values["judged_right"] = float(given.verdict == RIGHT)
        values["judged_partly"] = float(given.verdict == PARTLY)
    cited = given.citations
    if question.gold:
        values["citation_recall"] = len(given.found) / len(question.gold)
    if question.gold and cited:
        n_gold = sum(1 for citation in cited if citation.is_gold)
        values["citation_precision"] = n_gold / len(cited)
    if cited:
        n_supported = sum(citation.supported for citation in cited)
        n_citations = sum(citation.citations for citation in cited)
        values["supported"] = n_supported / n_citations
    return values


def _match_gold(given: GivenAnswer) -> dict[str, float]:
    if given.abstention:
        return {"exact_match": 0.0, "f1": 0.0, "contains_gold": 0.0}
    golds = given.question.answers
    return {
        "exact_match": exact_match(given.plain, golds),
        "f1": token_f1(given.plain, golds),
        "contains_gold": contains_gold(given.plain, golds),
    }


@dataclass(frozen=True)
class AnswerEvaluation:
    """The results of an evaluation of answers.

    ``stores``: the load that was evaluated. ``answers``: in the order of modes and questions.
    ``failed``: mode, question and reason of each question without a reply. ``documents``: source
    and title by id. ``usage``: calls, tokens and cost of this evaluation.
    """

    setup: AnswerSetup
    stores: Mapping[str, Any]
    questions: tuple[Question, ...]
    left_out: tuple[SkippedQuestion, ...]
    targets: Targets
    answers: tuple[GivenAnswer, ...]
    failed: tuple[tuple[str, Question, str], ...]
    documents: pd.DataFrame
    usage: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def results(self) -> pd.DataFrame:
        """Return a row for each answer: mode, id, type, answerable, its measures and tokens."""
        rows: list[dict[str, Any]] = []
        for given in self.answers:
            row: dict[str, Any] = {
                "mode": given.mode,
                "id": given.question.id,
                "type": given.question.type,
                "answerable": given.question.answerable,
            }
            row |= measure_answer(given, bool(self.setup.judge))
            row["prompt_tokens"] = given.prompt_tokens
            rows.append(row)
        columns = ["mode", "id", "type", "answerable", *ANSWER_MEASURES, "prompt_tokens"]
        frame = pd.DataFrame(rows, columns=columns)
        kinds = dict.fromkeys([*ANSWER_MEASURES, "prompt_tokens"], float)
        return frame.astype(kinds)

    def summary(self) -> pd.DataFrame:
        """Return by mode the numbers of questions, and means over those that have a measure."""
        return _mean_measures(self.results())

    def by_type(self) -> dict[str, pd.DataFrame]:
        """Return type -> the same; empty without types."""
        results = self.results()
        if not results["type"].any():
            return {}
        return {str(type): _mean_measures(rows) for type, rows in results.groupby("type")}

    def agreements(self) -> dict[str, dict[str, Any]]:
        """Return by mode the agreement of the judge's "right" with ``contains_gold``.

        Refusals are not judged, and count in neither.
        """
        by_mode: dict[str, dict[str, Any]] = {}
        for mode in self.setup.modes:
            right_by_judge: list[bool] = []
            right_by_gold: list[bool] = []
            for given in self.answers:
                if given.mode == mode and given.verdict:
                    right_by_judge.append(given.verdict == RIGHT)
                    right_by_gold.append(_match_gold(given)["contains_gold"] == 1)
            share, kappa = agreement(right_by_judge, right_by_gold)
            by_mode[mode] = {
                "answers": len(right_by_judge),
                "agreement": share,
                "kappa": kappa,
            }
        return by_mode

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as JSON; only ``usage`` differs if replies are known already."""
        types: dict[str, Any] = {}
        for type, means in self.by_type().items():
            types[type] = _as_json(means)
        return {
            "format": FORMAT,
            "kind": ANSWERS,
            "setup": self.setup.to_json(),
            "stores": dict(self.stores),
            "modes": _as_json(self.summary()),
            "types": types,
            "judge": self.agreements() if self.setup.judge else {},
            "questions": self._questions_json(),
            "left_out": [describe_left_out(left) for left in self.left_out],
            "failed": [_failure_json(*failure) for failure in self.failed],
            "notes": list(self.notes),
            "usage": dict(self.usage),
        }

    def _questions_json(self) -> list[dict[str, Any]]:
        by_question: dict[str, dict[str, Any]] = {question.id: {} for question in self.questions}
        for given in self.answers:
            by_question[given.question.id][given.mode] = self._answer_json(given)
        content: list[dict[str, Any]] = []
        for question in self.questions:
            gold = [{"kind": item.kind, "name": item.name} for item in question.gold]
            content.append(
                {
                    "id": question.id,
                    "question": question.text,
                    "type": question.type,
                    "answerable": question.answerable,
                    "answers": list(question.answers),
                    "gold": gold,
                    "modes": by_question[question.id],
                }
            )
        return content

    def _answer_json(self, given: GivenAnswer) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in measure_answer(given, bool(self.setup.judge)).items():
            values[name] = None if value is None else round(value, DIGITS)
        values["prompt_tokens"] = given.prompt_tokens
        values["answer"] = given.text
        values["reason"] = given.abstention
        values["verdict"] = given.verdict
        values["unjudged"] = given.unjudged
        values["citations"] = [asdict(citation) for citation in given.citations]
        values["notes"] = list(given.notes)
        return values


def _mean_measures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return by mode the numbers of questions and the means of all measures."""
    by_mode = rows.groupby("mode", sort=False)
    means = by_mode[[*ANSWER_MEASURES, "prompt_tokens"]].mean().round(DIGITS)
    n_answerable = by_mode["answerable"].sum().astype(int)
    n_questions = by_mode.size()
    means.insert(0, "questions", n_questions)
    means.insert(1, "answerable", n_answerable)
    means.insert(2, "unanswerable", n_questions - n_answerable)
    means.insert(3, "with_citations", by_mode["supported"].count())
    return means


def _as_json(means: pd.DataFrame) -> dict[Any, Any]:
    """Return mode -> values; None stands for a measure that no question has."""
    content: dict[Any, Any] = {}
    for mode, values in means.to_dict("index").items():
        of_mode: dict[Any, Any] = {}
        for name, value in values.items():
            # JSON has no NaN.
            of_mode[name] = None if pd.isna(value) else value
        content[mode] = of_mode
    return content


def _failure_json(mode: str, question: Question, reason: str) -> dict[str, Any]:
    return {"mode": mode, "id": question.id, "question": question.text, "reason": reason}


def cited_gold(
    question: Question, targets: Targets, chunks: Iterable[str], documents: Iterable[str]
) -> tuple[Gold, ...]:
    """Return the gold of the question among cited chunks, or the documents of cited chunks."""
    cited = {"document": set(documents), "chunk": set(chunks)}
    cited["text"] = cited["chunk"]
    return tuple(gold for gold in question.gold if targets[gold] & cited[gold.kind])


def without_citations(text: str, marks: Iterable[Annotation]) -> str:
    """Return the text of an answer without the marks of its citations.

    A citation of records is removed whole; only its numbers of passages are annotations.
    """
    spans = [(mark.start, mark.end) for mark in marks]
    spans += [citation.span() for citation in CITATION.finditer(text)]
    parts: list[str] = []
    place = 0
    for start, end in sorted(spans):
        parts.append(text[place:start])
        place = max(place, end)
    parts.append(text[place:])
    return "".join(parts)
