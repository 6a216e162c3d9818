"""summarize_descriptions: one description per entity and relationship, by a model where they are
many."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
)
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Talk, Tokenizer
from pipeline.models.parse.graph import Problem, failed, unusable
from pipeline.models.parse.lenient_json import one_line, plain
from pipeline.text.ids import digest
from pipeline.verbs.join_descriptions import cut, fits, join_within, joined, with_description

LIST_MARK_TOKENS = 3
"""Counted for the dash before a description and the line end after it."""
BRANCHES = 4
BITS_OF_A_BRANCH = 2
RELATIONSHIP = "the relationship between the two subjects that the descriptions name"
"""What a relationship is called in a prompt: its ends' display names may change while its
descriptions do not."""
SummaryOutcome = str | Problem


class SummarizeParams(Params):
    """``max_tokens``: above it the model is asked; ``max_length``: words it may use;
    ``max_input_tokens``: of descriptions in one request."""

    max_tokens: int = Field(default=600, ge=1)
    max_length: int = Field(default=200, ge=1)
    max_input_tokens: int = Field(default=8000, ge=BRANCHES)


@dataclass(frozen=True)
class Subject:
    """A row on its way to one description. ``name`` as prompts have it, ``label`` as people know
    it."""

    id: str
    name: str
    label: str
    descriptions: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """A node of the tree in which many descriptions are summarised: descriptions at the leaves,
    groups above."""

    descriptions: tuple[str, ...]
    branches: tuple["Group", ...] = ()


@verb(
    inputs={"merged_entities": MERGED_ENTITIES, "merged_relationships": MERGED_RELATIONSHIPS},
    outputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
        "rejects": REJECTS,
    },
    keyed={"merged_entities": ("id",), "merged_relationships": ("id",)},
    row_of={"described_entities": "id", "described_relationships": "id", "rejects": "row_id"},
    placeholders={"summarize": Placeholders(("descriptions",), ("name", "max_length"))},
    libraries=("rs-bpe",),
)
def summarize_descriptions(
    merged_entities: pd.DataFrame,
    merged_relationships: pd.DataFrame,
    params: SummarizeParams,
    summarize: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """``descriptions`` become one ``description``: joined in order up to ``max_tokens``, summarised
    above.

    What is asked depends on the set of descriptions alone. Where they exceed ``max_input_tokens``,
    groups of them are summarised, then the summaries; which group a description is in follows from
    its digest, so that one more of them changes the groups on its way to the root and no others. A
    row whose summary fails keeps as many of its descriptions as fit ``max_tokens``, and is a
    reject.
    """
    labels = merged_relationships["source"] + " → " + merged_relationships["target"]
    subjects = [
        *_subjects(merged_entities, merged_entities["name"], None),
        *_subjects(merged_relationships, labels, RELATIONSHIP),
    ]
    large = [
        one for one in subjects if not fits(joined(one.descriptions), params.max_tokens, tokenizer)
    ]
    asking = SummaryQuestion(params, summarize, tokenizer)
    told = chat.converse(summarise(one, asking) for one in large)
    summaries = {one.id: summary for one, summary in zip(large, told, strict=True)}

    def text(subject: Subject) -> str:
        summary = summaries.get(subject.id, joined(subject.descriptions))
        if isinstance(summary, Problem):
            return join_within(subject.descriptions, params.max_tokens, tokenizer)
        return summary

    texts = [text(subject) for subject in subjects]
    return (
        with_description(merged_entities, texts[: len(merged_entities)], DESCRIBED_ENTITIES),
        with_description(
            merged_relationships, texts[len(merged_entities) :], DESCRIBED_RELATIONSHIPS
        ),
        REJECTS.frame(_rejects(large, told)),
    )


def _subjects(frame: pd.DataFrame, labels: pd.Series, name: str | None) -> list[Subject]:
    rows = zip(frame["id"], labels, frame["descriptions"], strict=True)
    return [
        Subject(id, name or label, label, tuple(descriptions)) for id, label, descriptions in rows
    ]


@dataclass(frozen=True)
class SummaryQuestion:
    """How a model is asked for a summary."""

    params: SummarizeParams
    prompt: Prompt
    tokenizer: Tokenizer

    def request(self, subject: Subject, texts: Sequence[str]) -> ChatRequest:
        prompt = self.prompt.render(
            name=subject.name,
            descriptions="\n".join(f"- {text}" for text in texts),
            max_length=str(self.params.max_length),
        )
        return ChatRequest(subject.id, ({"role": "user", "content": prompt},), check=_complaint)

    def cut(self, text: str, share: int) -> str:
        """What of the text fits a share of one request."""
        return cut(text, self.params.max_input_tokens // share, self.tokenizer)

    def fits(self, texts: Sequence[str]) -> bool:
        tokens = sum(self.tokenizer.count(text) + LIST_MARK_TOKENS for text in texts)
        return tokens <= self.params.max_input_tokens


def summarise(subject: Subject, asking: SummaryQuestion) -> Talk[SummaryOutcome]:
    """The conversation about one subject's descriptions."""
    by_digest = tuple(sorted(set(subject.descriptions), key=digest))
    if len(by_digest) == 1:
        (reply,) = yield (asking.request(subject, [asking.cut(by_digest[0], 1)]),)
        return _summary(reply)
    (told,) = yield from _told([_grouped(by_digest, 0, asking)], subject, asking)
    return told


def _grouped(descriptions: tuple[str, ...], depth: int, asking: SummaryQuestion) -> Group:
    """The tree over descriptions that agree in the branches above ``depth``."""
    texts = tuple(asking.cut(text, 2) for text in descriptions)
    if len(texts) == 1 or asking.fits(texts):
        return Group(texts)
    branches: list[list[str]] = [[] for _ in range(BRANCHES)]
    for description in descriptions:
        branches[
            int(digest(description), 16) >> (BITS_OF_A_BRANCH * depth) & (BRANCHES - 1)
        ].append(description)
    groups = [_grouped(tuple(branch), depth + 1, asking) for branch in branches if branch]
    return groups[0] if len(groups) == 1 else Group((), tuple(groups))


def _told(
    groups: Sequence[Group], subject: Subject, asking: SummaryQuestion
) -> Talk[list[SummaryOutcome]]:
    """The summary of each group, those of one level asked for at the same time; or why there is
    none."""
    below = [branch for group in groups for branch in group.branches]
    summaries = iter((yield from _told(below, subject, asking)) if below else [])
    parts = [
        [next(summaries) for _ in group.branches] or list(group.descriptions) for group in groups
    ]
    lost = [next((part for part in own if isinstance(part, Problem)), None) for own in parts]
    texts = [[asking.cut(part, BRANCHES) for part in own if isinstance(part, str)] for own in parts]
    texts = [
        own if group.branches else list(group.descriptions)
        for own, group in zip(texts, groups, strict=True)
    ]
    asked = [
        own for own, problem in zip(texts, lost, strict=True) if problem is None and len(own) > 1
    ]
    replies = iter((yield [asking.request(subject, own) for own in asked]) if asked else [])
    return [
        problem or (_summary(next(replies)) if len(own) > 1 else own[0])
        for own, problem in zip(texts, lost, strict=True)
    ]


def _complaint(text: str) -> str | None:
    problem = unusable(text)
    return problem.message if problem else None


def _summary(reply: ChatReply) -> SummaryOutcome:
    return failed(reply) or unusable(reply.text) or one_line(plain(reply.text))


def _rejects(
    subjects: Sequence[Subject], told: Sequence[SummaryOutcome]
) -> Iterator[dict[str, object]]:
    for subject, summary in zip(subjects, told, strict=True):
        if isinstance(summary, Problem):
            row = {"step": "", "row_id": subject.id, "kind": "row"}
            yield {
                **row,
                "reason": summary.reason,
                "message": f"{subject.label}: {summary.message}",
            }
