"""summarize_descriptions: ask a chat model to summarize long lists of descriptions."""

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
from pipeline.verbs.join_descriptions import (
    cut,
    fits,
    join_texts,
    join_within,
    replace_descriptions,
)

LIST_MARK_TOKENS = 3
"""Tokens that are allowed for the dash before a description and the line end after it."""
BRANCHES = 4
"""The greatest number of branches of a group, in the tree by which descriptions are summarized."""
BITS_OF_A_BRANCH = 2
"""Bits of a description's digest that choose its branch."""
RELATIONSHIP = "the relationship between the two subjects that the descriptions name"
"""The name of every relationship in prompts.

The display names of its ends are not used. They may change while the descriptions do not, and a
changed prompt would have to be paid for again.
"""
SummaryOutcome = str | Problem


class SummarizeParams(Params):
    """Limits of descriptions and requests.

    The model is asked if the descriptions have more than ``max_tokens`` tokens together.
    ``max_length`` is the number of words that it may use. ``max_input_tokens`` limits the
    descriptions in one request.
    """

    max_tokens: int = Field(default=600, ge=1)
    max_length: int = Field(default=200, ge=1)
    max_input_tokens: int = Field(default=8000, ge=BRANCHES)


@dataclass(frozen=True)
class Subject:
    """An entity or a relationship. Prompts use its ``name``, messages to people its ``label``."""

    id: str
    name: str
    label: str
    descriptions: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """A node of the tree by which many descriptions are summarized.

    A leaf has descriptions; another node has branches.
    """

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
    """Return both tables with one ``description`` in place of ``descriptions``, and rejects.

    Descriptions of at most ``max_tokens`` tokens are joined in their order; longer ones are
    summarized. A request depends on the set of descriptions alone.

    If the descriptions exceed ``max_input_tokens``, groups of them are summarized, and then the
    summaries. The group of a description follows from its digest. So another description changes
    the groups between its leaf and the root, and no others. If a summary fails, the row keeps as
    many of its descriptions as fit ``max_tokens``, and is a reject.
    """
    labels = merged_relationships["source"] + " → " + merged_relationships["target"]
    subjects = [
        *_make_subjects(merged_entities, merged_entities["name"], None),
        *_make_subjects(merged_relationships, labels, RELATIONSHIP),
    ]
    large = [
        subject
        for subject in subjects
        if not fits(join_texts(subject.descriptions), params.max_tokens, tokenizer)
    ]
    question = SummaryQuestion(params, summarize, tokenizer)
    outcomes = chat.converse(summarise(subject, question) for subject in large)
    summaries = {subject.id: outcome for subject, outcome in zip(large, outcomes, strict=True)}

    def describe(subject: Subject) -> str:
        summary = summaries.get(subject.id, join_texts(subject.descriptions))
        if isinstance(summary, Problem):
            return join_within(subject.descriptions, params.max_tokens, tokenizer)
        return summary

    texts = [describe(subject) for subject in subjects]
    entity_texts = texts[: len(merged_entities)]
    relationship_texts = texts[len(merged_entities) :]
    return (
        replace_descriptions(merged_entities, entity_texts, DESCRIBED_ENTITIES),
        replace_descriptions(merged_relationships, relationship_texts, DESCRIBED_RELATIONSHIPS),
        REJECTS.frame(_reject_rows(large, outcomes)),
    )


def _make_subjects(frame: pd.DataFrame, labels: pd.Series, name: str | None) -> list[Subject]:
    """Return a subject for each row; prompts use ``name``, or the label if it is None."""
    rows = zip(frame["id"], labels, frame["descriptions"], strict=True)
    return [
        Subject(id, name or label, label, tuple(descriptions)) for id, label, descriptions in rows
    ]


@dataclass(frozen=True)
class SummaryQuestion:
    """The requests that ask a chat model for a summary."""

    params: SummarizeParams
    prompt: Prompt
    tokenizer: Tokenizer

    def request(self, subject: Subject, texts: Sequence[str]) -> ChatRequest:
        """Return the request to summarize these texts about the subject."""
        prompt = self.prompt.render(
            name=subject.name,
            descriptions="\n".join(f"- {text}" for text in texts),
            max_length=str(self.params.max_length),
        )
        return ChatRequest(subject.id, ({"role": "user", "content": prompt},), check=_complaint)

    def cut(self, text: str, share: int) -> str:
        """Return the beginning of the text that fits into one request beside others.

        ``share`` is the number of texts of that length that one request can hold.
        """
        return cut(text, self.params.max_input_tokens // share, self.tokenizer)

    def fits(self, texts: Sequence[str]) -> bool:
        """Return whether these texts fit into one request."""
        tokens = sum(self.tokenizer.count(text) + LIST_MARK_TOKENS for text in texts)
        return tokens <= self.params.max_input_tokens


def summarise(subject: Subject, question: SummaryQuestion) -> Talk[SummaryOutcome]:
    """Hold the conversation about the descriptions of one subject."""
    by_digest = tuple(sorted(set(subject.descriptions), key=digest))
    if len(by_digest) == 1:
        (reply,) = yield (question.request(subject, [question.cut(by_digest[0], 1)]),)
        return _read_summary(reply)
    root = _build_tree(by_digest, 0, question)
    (outcome,) = yield from _summarize_groups([root], subject, question)
    return outcome


def _build_tree(descriptions: tuple[str, ...], depth: int, question: SummaryQuestion) -> Group:
    """Return the tree over these descriptions, which are in one group at this depth."""
    texts = tuple(question.cut(text, 2) for text in descriptions)
    if len(texts) == 1 or question.fits(texts):
        return Group(texts)
    branches: list[list[str]] = [[] for _ in range(BRANCHES)]
    for description in descriptions:
        # Each depth looks at further bits of the digest.
        bits = int(digest(description), 16) >> (BITS_OF_A_BRANCH * depth)
        branches[bits & (BRANCHES - 1)].append(description)
    groups = [_build_tree(tuple(branch), depth + 1, question) for branch in branches if branch]
    # A group of one group would be summarized twice.
    return groups[0] if len(groups) == 1 else Group((), tuple(groups))


def _summarize_groups(
    groups: Sequence[Group], subject: Subject, question: SummaryQuestion
) -> Talk[list[SummaryOutcome]]:
    """Return the summary of each group, or the problem for which there is none.

    The branches of all groups are summarized first. So the requests of one level of the tree are
    sent at the same time.
    """
    branches = [branch for group in groups for branch in group.branches]
    summaries: list[SummaryOutcome] = []
    if branches:
        summaries = yield from _summarize_groups(branches, subject, question)
    next_summary = iter(summaries)
    inputs: list[list[str] | Problem] = []
    for group in groups:
        own_summaries = [next(next_summary) for _ in group.branches]
        inputs.append(_choose_input(group, own_summaries, question))
    # A single text needs no summary.
    requests = [
        question.request(subject, texts)
        for texts in inputs
        if not isinstance(texts, Problem) and len(texts) > 1
    ]
    replies = iter((yield requests) if requests else [])
    outcomes: list[SummaryOutcome] = []
    for texts in inputs:
        if isinstance(texts, Problem):
            outcomes.append(texts)
        else:
            outcomes.append(_read_summary(next(replies)) if len(texts) > 1 else texts[0])
    return outcomes


def _choose_input(
    group: Group, summaries: Sequence[SummaryOutcome], question: SummaryQuestion
) -> list[str] | Problem:
    """Return the texts of which a group is summarized, or the first problem of its branches.

    ``summaries`` are those of its branches.
    """
    if not group.branches:
        return list(group.descriptions)
    texts = []
    for summary in summaries:
        if isinstance(summary, Problem):
            return summary
        texts.append(question.cut(summary, BRANCHES))
    return texts


def _complaint(text: str) -> str | None:
    """Return what is wrong with a reply, or None."""
    problem = unusable(text)
    return problem.message if problem else None


def _read_summary(reply: ChatReply) -> SummaryOutcome:
    """Return the summary in a reply on one line, or the problem with it."""
    return failed(reply) or unusable(reply.text) or one_line(plain(reply.text))


def _reject_rows(
    subjects: Sequence[Subject], outcomes: Sequence[SummaryOutcome]
) -> Iterator[dict[str, object]]:
    """Yield a row of REJECTS for each subject whose summary failed."""
    for subject, summary in zip(subjects, outcomes, strict=True):
        if isinstance(summary, Problem):
            row = {"step": "", "row_id": subject.id, "kind": "row"}
            yield {
                **row,
                "reason": summary.reason,
                "message": f"{subject.label}: {summary.message}",
            }
