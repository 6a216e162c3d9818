"""summarize_descriptions: one description per entity and relationship, by a model where they are many."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from pydantic import Field

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Tokenizer
from pipeline.models.parse import failed, unusable
from pipeline.models.reply_text import one_line, plain
from pipeline.prompts import Placeholders, Prompt
from pipeline.registry import Params, verb
from pipeline.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
)
from pipeline.verbs.join_descriptions import cut, fits, join_within, joined, with_description

LIST_MARK_TOKENS = 3
"""Counted for the dash before a description and the line end after it."""


class SummarizeParams(Params):
    """``max_tokens``: above it the model is asked; ``max_length``: words it may use; ``max_input_tokens``: of
    descriptions in one request."""

    max_tokens: int = Field(default=600, ge=1)
    max_length: int = Field(default=200, ge=1)
    max_input_tokens: int = Field(default=8000, ge=2)


@dataclass(frozen=True)
class Subject:
    """A row on its way to one description: what is left of its descriptions, or why there is no summary."""

    id: str
    name: str
    descriptions: tuple[str, ...]
    reason: str | None = None
    message: str = ""


@verb(
    inputs={"merged_entities": MERGED_ENTITIES, "merged_relationships": MERGED_RELATIONSHIPS},
    outputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
        "rejects": REJECTS,
    },
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
    """``descriptions`` become one ``description``: joined in order up to ``max_tokens``, summarised above.

    Where they exceed ``max_input_tokens``, groups of them are summarised, then the summaries. A row whose
    summary fails keeps as many of its descriptions as fit ``max_tokens``, and is a reject.
    """
    names = merged_relationships["source"] + " → " + merged_relationships["target"]
    subjects = [*_subjects(merged_entities, merged_entities["name"]), *_subjects(merged_relationships, names)]
    large = [one for one in subjects if not fits(joined(one.descriptions), params.max_tokens, tokenizer)]
    summaries = {one.id: one for one in _summarise(large, params, summarize, chat, tokenizer)}

    def text(subject: Subject) -> str:
        summary = summaries.get(subject.id, subject)
        if summary.reason:
            return join_within(subject.descriptions, params.max_tokens, tokenizer)
        return joined(summary.descriptions)

    texts = [text(subject) for subject in subjects]
    return (
        with_description(merged_entities, texts[: len(merged_entities)], DESCRIBED_ENTITIES),
        with_description(merged_relationships, texts[len(merged_entities) :], DESCRIBED_RELATIONSHIPS),
        REJECTS.frame(_rejects(one for one in summaries.values() if one.reason)),
    )


def _subjects(frame: pd.DataFrame, names: pd.Series) -> list[Subject]:
    rows = zip(frame["id"], names, frame["descriptions"], strict=True)
    return [Subject(id, name, tuple(descriptions)) for id, name, descriptions in rows]


def _summarise(
    subjects: Sequence[Subject],
    params: SummarizeParams,
    summarize: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
) -> list[Subject]:
    """Each subject with its summary as its only description, or with the reason why it has none.

    Every round at least halves a subject's descriptions: any two of them fit into one group.
    """
    done: list[Subject] = []
    while subjects:
        prompts = [_prompts(one, params, summarize, tokenizer) for one in subjects]
        replies = _ask(subjects, prompts, chat)
        told = [_told(one, [replies[p] for p in own]) for one, own in zip(subjects, prompts, strict=True)]
        subjects = [one for one in told if not one.reason and len(one.descriptions) > 1]
        done += [one for one in told if one.reason or len(one.descriptions) == 1]
    return done


def _prompts(subject: Subject, params: SummarizeParams, summarize: Prompt, tokenizer: Tokenizer) -> list[str]:
    return [
        summarize.render(
            name=subject.name,
            descriptions="\n".join(f"- {description}" for description in group),
            max_length=str(params.max_length),
        )
        for group in _groups(subject.descriptions, params.max_input_tokens, tokenizer)
    ]


def _groups(descriptions: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> list[list[str]]:
    """The descriptions in order, as many to a group as fit, but two at least."""
    groups: list[list[str]] = []
    room = 0
    for description in descriptions:
        text = cut(description, max_tokens // 2, tokenizer)
        tokens = tokenizer.count(text) + LIST_MARK_TOKENS
        if not groups or (tokens > room and len(groups[-1]) > 1):
            groups.append([])
            room = max_tokens
        groups[-1].append(text)
        room -= tokens
    return groups


def _ask(subjects: Sequence[Subject], prompts: Sequence[list[str]], chat: ChatModel) -> dict[str, ChatReply]:
    """Prompt -> reply; equal prompts are sent once, for the first subject that has them."""
    requests: dict[str, ChatRequest] = {}
    for subject, own in zip(subjects, prompts, strict=True):
        for prompt in own:
            requests.setdefault(prompt, ChatRequest(subject.id, ({"role": "user", "content": prompt},)))
    replies = chat.complete(list(requests.values()), check=_complaint)
    return dict(zip(requests, replies, strict=True))


def _complaint(text: str) -> str | None:
    problem = unusable(text)
    return problem.message if problem else None


def _told(subject: Subject, replies: Sequence[ChatReply]) -> Subject:
    """The subject with the replies for descriptions, or with the reason of the first that failed."""
    for reply in replies:
        problem = failed(reply) or unusable(reply.text)
        if problem:
            return replace(subject, reason=problem.reason, message=problem.message)
    return replace(subject, descriptions=tuple(one_line(plain(reply.text)) for reply in replies))


def _rejects(subjects: Iterable[Subject]) -> Iterator[dict[str, object]]:
    for subject in subjects:
        row = {"step": "", "row_id": subject.id, "kind": "row"}
        yield {**row, "reason": subject.reason, "message": f"{subject.name}: {subject.message}"}
