"""report_communities: what a chat model says of each community, from the smallest parts up; with
claims, too."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import NOTHING_WRITTEN, LastTables, Params, verb
from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    ENTITIES,
    REJECTS,
    RELATIONSHIPS,
)
from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Message, Talk, Tokenizer
from pipeline.models.parse.graph import REPORT_JSON_FORMAT, Problem, Report, failed, parse_report
from pipeline.verbs.kept_reports import KeptReports, kept_reports
from pipeline.verbs.read_text import REPAIR, Mark, rejects, said
from pipeline.verbs.report_context import Community, ContextPage, ReportFacts, facts

SHORTEN: Message = {
    "role": "user",
    "content": (
        "Your last message was cut off at its end, so that it could not be read. Write the report"
        " again, complete, in half as many words, in exactly the output format that was asked for,"
        " with nothing before it and nothing after it."
    ),
}
MENDING: Mapping[str, Message] = {"parse": REPAIR, "truncated": SHORTEN}
"""What is said to the model after a reply that is of no use for this reason."""

REPORT_PROMPT = {"report": Placeholders(("context",), ("max_length",))}


class ReportParams(Params):
    """``max_input_tokens``: of a community's tables in one request; ``max_length``: words of a
    report; ``structured``: whether the endpoint is sent the JSON schema too (not every one takes
    it); ``repair``: whether an unreadable or cut reply is asked for once more. ``keep_within``: a
    report of the last run stands while less than this share of what it was made of has changed."""

    max_input_tokens: int = Field(default=8000, ge=500)
    max_length: int = Field(default=1000, ge=50)
    structured: bool = False
    repair: bool = True
    keep_within: float = Field(default=0.0, ge=0, le=0.5)

    def trade(self) -> str:
        share = (
            f"keep_within {self.keep_within:g}: a report stands while less of what it was made of"
            " has changed"
        )
        return share if self.keep_within else ""


@verb(
    inputs={"communities": COMMUNITIES, "entities": ENTITIES, "relationships": RELATIONSHIPS},
    outputs={"community_reports": COMMUNITY_REPORTS, "rejects": REJECTS},
    placeholders=REPORT_PROMPT,
    libraries=("json-repair", "rs-bpe"),
)
def report_communities(
    communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    params: ReportParams,
    report: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
    last: LastTables = NOTHING_WRITTEN,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Title, summary, rating and findings per community, ``content`` the whole as Markdown;
    ``weight``: the number of distinct text units that its entities appear in.

    A request is made of what the community's members are and say, so that one whose members stay as
    they are is never asked about again. Where they exceed ``max_input_tokens``, reports on its
    sub-communities stand in for them: only such a community waits for those below. A community
    whose reply cannot be used is a reject, and is shown to the one above it by its members. With
    ``keep_within``, ``made_of`` has digests of what a report was made of when it was asked for, and
    one that stands is marked.
    """
    known = facts(entities, relationships, None, ContextPage(params.max_input_tokens, tokenizer))
    kept = kept_reports(last, params.keep_within)
    told, faults = reports(communities, known, ReportQuestion(params, report), chat, kept)
    return _with_sources(told, communities, _units_of(relationships)), faults


@dataclass(frozen=True)
class ReportQuestion:
    """How a model is asked for a report."""

    params: ReportParams
    prompt: Prompt

    def opening(self, community: str, context: str) -> ChatRequest:
        text = self.prompt.render(context=context, max_length=str(self.params.max_length))
        return self._request(community, ({"role": "user", "content": text},), None)

    def mending(
        self, opening: ChatRequest, reply: ChatReply, problem: Problem
    ) -> ChatRequest | None:
        if not self.params.repair or problem.reason not in MENDING:
            return None
        return self._request(
            opening.row_id, (*opening.messages, said(reply), MENDING[problem.reason]), opening
        )

    def _request(
        self, community: str, messages: tuple[Message, ...], mends: ChatRequest | None
    ) -> ChatRequest:
        response_format = REPORT_JSON_FORMAT if self.params.structured else None
        return ChatRequest(community, messages, response_format, _complaint, mends)


@dataclass(frozen=True)
class ReportOutcome:
    """A report, and what is to be said of how it came, or why it did not."""

    report: Report | None
    marks: tuple[Mark, ...] = ()
    made_of: tuple[str, ...] | None = None


def reports(
    communities: pd.DataFrame,
    known: ReportFacts,
    asking: ReportQuestion,
    chat: ChatModel,
    kept: KeptReports,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Community reports and rejects, by rounds of questions that do not wait for each other."""
    told: dict[str, ReportOutcome] = {}
    for turn in rounds(communities, known):
        if kept.within:
            told |= _standing(turn, known, kept)
        asked = [community for community in turn if community.id not in told]
        below = {id: one.report for id, one in told.items() if one.report}
        answers = chat.converse(tell(community, known, below, asking) for community in asked)
        told |= {community.id: answer for community, answer in zip(asked, answers, strict=True)}
    rows = (
        _row(row, one, one.report)
        for row in communities.to_dict("records")
        if (one := told[row["id"]]).report
    )
    return COMMUNITY_REPORTS.frame(rows), REJECTS.frame(
        rejects((id, one.marks) for id, one in told.items())
    )


def _standing(
    turn: Sequence[Community], known: ReportFacts, kept: KeptReports
) -> dict[str, ReportOutcome]:
    """The communities whose report of the last run stands."""
    found = {community.id: kept.of(known.made_of(community)) for community in turn}
    return {
        id: ReportOutcome(one.report, _marks(one.changed), one.made_of)
        for id, one in found.items()
        if one
    }


def _marks(changed: float) -> tuple[Mark, ...]:
    message = f"{changed:.0%} of what it was made of has changed"
    return (Mark("unrefreshed", "unrefreshed", message),) if changed else ()


def rounds(communities: pd.DataFrame, known: ReportFacts) -> list[list[Community]]:
    """Who is asked about when: a community whose facts do not fit comes after its sub-communities,
    all others first."""
    turns: list[list[Community]] = []
    made: dict[str, tuple[Community, int]] = {}
    deepest_first = communities.sort_values(["level", "id"], ascending=[False, True])
    cells = deepest_first[["id", "entity_ids", "relationship_ids", "children"]].itertuples(
        index=False, name=None
    )
    for id, members, links, children in cells:
        below = [made[child] for child in children if child in made]
        community = Community(id, members, links, [child for child, _ in below])
        turn = 0 if known.fit(community) else max((turn + 1 for _, turn in below), default=0)
        made[id] = community, turn
        turns += [[] for _ in range(turn + 1 - len(turns))]
        turns[turn].append(community)
    return turns


def tell(
    community: Community, known: ReportFacts, below: Mapping[str, Report], asking: ReportQuestion
) -> Talk[ReportOutcome]:
    """The conversation about one community."""
    opening = asking.opening(community.id, known.context(community, below))
    made_of = tuple(known.made_of(community)) if asking.params.keep_within else None
    (reply,) = yield (opening,)
    report = _read(reply)
    if isinstance(report, Report):
        return ReportOutcome(report, made_of=made_of)
    request = asking.mending(opening, reply, report)
    if request:
        (reply,) = yield (request,)
        mended = _read(reply)
        if isinstance(mended, Report):
            return ReportOutcome(
                mended,
                (Mark("recovered", report.reason, f"{report.message}; read when asked again"),),
                made_of,
            )
    return ReportOutcome(None, (Mark("row", report.reason, report.message),))


@lru_cache(maxsize=256)  # each reply is read twice: as it is judged and as it is used
def _parse(reply: str) -> Report | Problem:
    return parse_report(reply)


def _complaint(reply: str) -> str | None:
    report = _parse(reply)
    return report.message if isinstance(report, Problem) else None


def _read(reply: ChatReply) -> Report | Problem:
    return failed(reply) or _parse(reply.text)


def _row(community: Mapping[Any, Any], one: ReportOutcome, report: Report) -> dict[str, object]:
    title = report.title or community["title"]
    return {
        **{name: community[name] for name in ("id", "level", "parent", "text_unit_ids", "size")},
        "title": title,
        "summary": report.summary,
        "content": "\n\n".join(_markdown(title, report)),
        "rating": report.rating,
        "rating_explanation": report.rating_explanation,
        "findings": [vars(finding) for finding in report.findings],
        "weight": len(community["text_unit_ids"]),
        "made_of": one.made_of,
    }


def _markdown(title: str, report: Report) -> Iterator[str]:
    yield from (f"# {title}", report.summary)
    for finding in report.findings:
        yield from filter(None, (f"## {finding.summary}", finding.explanation))


@verb(
    inputs={
        "communities": COMMUNITIES,
        "entities": ENTITIES,
        "relationships": RELATIONSHIPS,
        "covariates": COVARIATES,
    },
    outputs={"community_reports": COMMUNITY_REPORTS, "rejects": REJECTS},
    placeholders=REPORT_PROMPT,
    libraries=("json-repair", "rs-bpe"),
)
def report_communities_with_claims(
    communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame,
    params: ReportParams,
    report: Prompt,
    chat: ChatModel,
    tokenizer: Tokenizer,
    last: LastTables = NOTHING_WRITTEN,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As report_communities, with the claims whose subject (or else object) is a member. A
    community without claims is asked about in the very words of report_communities, so that its
    reply serves both."""
    known = facts(
        entities, relationships, covariates, ContextPage(params.max_input_tokens, tokenizer)
    )
    kept = kept_reports(last, params.keep_within)
    told, faults = reports(communities, known, ReportQuestion(params, report), chat, kept)
    subjects = covariates["subject_id"]
    homes = subjects.where(subjects.isin(entities["id"]), covariates["object_id"])
    claimed = zip(homes, ([unit] for unit in covariates["text_unit_id"]), strict=True)
    return _with_sources(told, communities, chain(_units_of(relationships), claimed)), faults


def _units_of(relationships: pd.DataFrame) -> Iterator[tuple[str, Sequence[str]]]:
    return zip(relationships["id"], relationships["text_unit_ids"], strict=True)


def _with_sources(
    told: pd.DataFrame, communities: pd.DataFrame, found: Iterable[tuple[str, Sequence[str]]]
) -> pd.DataFrame:
    """``found``: text units by the entity or relationship that they are told with. A claim or an
    imported relationship may be of one in which no member was found: who may not see it must not be
    shown the report."""
    units: dict[str, set[str]] = defaultdict(set)
    for id, of_one in found:
        units[id].update(of_one)
    cells = communities[["id", "entity_ids", "relationship_ids", "text_unit_ids"]].itertuples(
        index=False, name=None
    )
    sources = {
        id: sorted(set(own).union(*(units.get(one, ()) for one in (*members, *links))))
        for id, members, links, own in cells
    }
    return told.assign(text_unit_ids=told["id"].map(sources))
