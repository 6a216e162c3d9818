"""report_communities: ask a chat model for a report on each community, with or without claims.

Where the facts about a community do not fit into one request, the reports on its sub-communities
stand in for them. So these are asked for first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
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
from pipeline.verbs.kept_reports import KeptReports, read_kept_reports
from pipeline.verbs.read_text import REPAIR, Mark, as_message, reject_rows
from pipeline.verbs.report_context import Community, ContextPage, ReportFacts, collect_facts

SHORTEN: Message = {
    "role": "user",
    "content": (
        "Your last message was cut off at its end, so that it could not be read. Write the report"
        " again, complete, in half as many words, in exactly the output format that was asked for,"
        " with nothing before it and nothing after it."
    ),
}
MENDING: Mapping[str, Message] = {"parse": REPAIR, "truncated": SHORTEN}
"""The message to the model after an unusable reply, by the reason why it is unusable."""

REPORT_PROMPT = {"report": Placeholders(("context",), ("max_length",))}


class RequestParams(Params):
    """Limits of the requests for reports.

    ``max_input_tokens`` limits the facts about a community in one request. ``max_length`` is the
    number of words of a report. ``structured`` says whether the request carries the JSON schema,
    which not every endpoint accepts. ``repair`` says whether the model is asked once more after an
    unreadable or cut reply.
    """

    max_input_tokens: int = Field(default=8000, ge=500)
    max_length: int = Field(default=1000, ge=50)
    structured: bool = False
    repair: bool = True


class ReportParams(RequestParams):
    """Limits of the requests for reports, and when an old report is kept.

    A report of the last run is kept if less than the share ``keep_within`` of the facts that it was
    made from has changed.
    """

    keep_within: float = Field(default=0.0, ge=0, le=0.5)

    def trade(self) -> str:
        """Return a sentence on what ``keep_within`` gives up for a lower price, or ""."""
        if not self.keep_within:
            return ""
        return (
            f"keep_within {self.keep_within:g}: a report stands while less of what it was made of"
            " has changed"
        )


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
    """Return a report on each community (COMMUNITY_REPORTS), and rejects.

    A report has a title, a summary, a rating and findings; ``content`` is the whole report as
    Markdown. ``weight`` is the number of distinct text units in which its entities appear.

    A request depends on nothing but the facts about the community's members. If they stay as they
    are, the model is not asked again. If the facts exceed ``max_input_tokens``, the reports on
    sub-communities stand in for them. Only such a community waits for its sub-communities. A
    community whose reply is unusable is a reject, and the request for its parent shows its members
    instead. With ``keep_within``, ``made_of`` has digests of the facts that the report was made
    from. A report that is kept although facts have changed is marked in the rejects.
    """
    page = ContextPage(params.max_input_tokens, tokenizer)
    known = collect_facts(entities, relationships, None, page)
    kept = read_kept_reports(last, params.keep_within)
    question = ReportQuestion(params, report, params.keep_within > 0)
    found, faults = write_reports(communities, known, question, chat, kept)
    return add_source_units(found, communities, _pair_with_units(relationships)), faults


@dataclass(frozen=True)
class ReportQuestion:
    """The requests that ask a chat model for a report.

    With ``is_kept``, a report is stored with digests of the facts that it was made from.
    """

    params: RequestParams
    prompt: Prompt
    is_kept: bool = False

    def opening(self, community: str, context: str) -> ChatRequest:
        """Return the first request about this community; ``context`` has the facts as text."""
        text = self.prompt.render(context=context, max_length=str(self.params.max_length))
        return self._request(community, ({"role": "user", "content": text},), None)

    def mending(
        self, opening: ChatRequest, reply: ChatReply, problem: Problem
    ) -> ChatRequest | None:
        """Return a request that answers an unusable reply, or None if no further one is sent."""
        if not self.params.repair or problem.reason not in MENDING:
            return None
        messages = (*opening.messages, as_message(reply), MENDING[problem.reason])
        return self._request(opening.row_id, messages, opening)

    def _request(
        self, community: str, messages: tuple[Message, ...], mends: ChatRequest | None
    ) -> ChatRequest:
        response_format = REPORT_JSON_FORMAT if self.params.structured else None
        return ChatRequest(community, messages, response_format, _complaint, mends)


@dataclass(frozen=True)
class ReportOutcome:
    """A report, or None, with remarks on how it was obtained or why it is missing.

    ``made_of`` has digests of the facts that the report was made from.
    """

    report: Report | None
    marks: tuple[Mark, ...] = ()
    made_of: tuple[str, ...] | None = None


def write_reports(
    communities: pd.DataFrame,
    known: ReportFacts,
    question: ReportQuestion,
    chat: ChatModel,
    kept: KeptReports,
    given: Mapping[str, ReportOutcome] = MappingProxyType({}),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return COMMUNITY_REPORTS and REJECTS, asking the model where no report can be kept.

    The model is asked in rounds; the requests of one round do not wait for each other. ``given``
    has the reports that are there already, by community id.
    """
    outcomes: dict[str, ReportOutcome] = dict(given)
    for turn in plan_rounds(communities, known):
        if kept.within:
            missing = [community for community in turn if community.id not in outcomes]
            outcomes |= _keep_reports(missing, known, kept)
        asked = [community for community in turn if community.id not in outcomes]
        below = {id: outcome.report for id, outcome in outcomes.items() if outcome.report}
        answers = chat.converse(
            discuss_community(community, known, below, question) for community in asked
        )
        for community, answer in zip(asked, answers, strict=True):
            outcomes[community.id] = answer
    rows = []
    for community in communities.to_dict("records"):
        outcome = outcomes[community["id"]]
        if outcome.report:
            rows.append(_report_row(community, outcome.report, outcome.made_of))
    marks = reject_rows((id, outcome.marks) for id, outcome in outcomes.items())
    return COMMUNITY_REPORTS.frame(rows), REJECTS.frame(marks)


def _keep_reports(
    turn: Sequence[Community], known: ReportFacts, kept: KeptReports
) -> dict[str, ReportOutcome]:
    """Return the kept report of each community of this round that has one, by community id."""
    outcomes = {}
    for community in turn:
        found = kept.find_similar(known.made_of(community))
        if found is None:
            continue
        marks: tuple[Mark, ...] = ()
        if found.changed:
            message = f"{found.changed:.0%} of what it was made of has changed"
            marks = (Mark("unrefreshed", "unrefreshed", message),)
        outcomes[community.id] = ReportOutcome(found.report, marks, found.made_of)
    return outcomes


def plan_rounds(communities: pd.DataFrame, known: ReportFacts) -> list[list[Community]]:
    """Return the communities of each round of requests.

    A community whose facts do not fit into a request comes one round after the last of its
    sub-communities. All others come in the first round.
    """
    turns: list[list[Community]] = []
    planned: dict[str, tuple[Community, int]] = {}
    deepest_first = communities.sort_values(["level", "id"], ascending=[False, True])
    columns = ["id", "entity_ids", "relationship_ids", "children"]
    cells = deepest_first[columns].itertuples(index=False, name=None)
    for id, members, links, children in cells:
        # Sub-communities are deeper, so they have been planned already.
        below = [planned[child] for child in children if child in planned]
        community = Community(id, members, links, [child for child, _ in below])
        turn = 0
        if not known.fit(community):
            turn = max((turn_below + 1 for _, turn_below in below), default=0)
        planned[id] = community, turn
        while len(turns) <= turn:
            turns.append([])
        turns[turn].append(community)
    return turns


def discuss_community(
    community: Community, known: ReportFacts, below: Mapping[str, Report], question: ReportQuestion
) -> Talk[ReportOutcome]:
    """Hold the conversation about one community: a request, and one more if the reply is unusable.

    ``below`` has the reports that have been written so far, by community id.
    """
    opening = question.opening(community.id, known.context(community, below))
    made_of = tuple(known.made_of(community)) if question.is_kept else None
    (reply,) = yield (opening,)
    report = _read_report(reply)
    if isinstance(report, Report):
        return ReportOutcome(report, made_of=made_of)
    problem = report
    request = question.mending(opening, reply, problem)
    if request:
        (reply,) = yield (request,)
        mended = _read_report(reply)
        if isinstance(mended, Report):
            message = f"{problem.message}; read when asked again"
            mark = Mark("recovered", problem.reason, message)
            return ReportOutcome(mended, (mark,), made_of)
    return ReportOutcome(None, (Mark("row", problem.reason, problem.message),))


# Each reply is parsed twice: when it is checked and when it is used. The cache saves the second.
@lru_cache(maxsize=256)
def _parse_report_text(reply: str) -> Report | Problem:
    return parse_report(reply)


def _complaint(reply: str) -> str | None:
    """Return what is wrong with a reply, or None."""
    report = _parse_report_text(reply)
    return report.message if isinstance(report, Problem) else None


def _read_report(reply: ChatReply) -> Report | Problem:
    """Return the report in a reply, or the problem of a failed request or an unusable reply."""
    return failed(reply) or _parse_report_text(reply.text)


def _report_row(
    community: Mapping[Any, Any], report: Report, made_of: tuple[str, ...] | None
) -> dict[str, object]:
    """Return a row of COMMUNITY_REPORTS."""
    title = report.title or community["title"]
    copied = ("id", "level", "parent", "text_unit_ids", "size")
    return {
        **{name: community[name] for name in copied},
        "title": title,
        "summary": report.summary,
        "content": "\n\n".join(_format_markdown(title, report)),
        "rating": report.rating,
        "rating_explanation": report.rating_explanation,
        "findings": [vars(finding) for finding in report.findings],
        "weight": len(community["text_unit_ids"]),
        "made_of": made_of,
    }


def _format_markdown(title: str, report: Report) -> Iterator[str]:
    """Yield the paragraphs of the report as Markdown."""
    yield f"# {title}"
    yield report.summary
    for finding in report.findings:
        yield f"## {finding.summary}"
        if finding.explanation:
            yield finding.explanation


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
    """Return reports and rejects as report_communities does, with claims among the facts.

    A claim belongs to its subject, or to its object if the subject is no entity. A community
    without claims gets the same request as from report_communities, so one cached reply serves
    both.
    """
    page = ContextPage(params.max_input_tokens, tokenizer)
    known = collect_facts(entities, relationships, covariates, page)
    kept = read_kept_reports(last, params.keep_within)
    question = ReportQuestion(params, report, params.keep_within > 0)
    found, faults = write_reports(communities, known, question, chat, kept)
    sources = list_sources(entities, relationships, covariates)
    return add_source_units(found, communities, sources), faults


def list_sources(
    entities: pd.DataFrame, relationships: pd.DataFrame, covariates: pd.DataFrame
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield pairs of an entity's or relationship's id and text units of facts about it."""
    subjects = covariates["subject_id"]
    homes = subjects.where(subjects.isin(entities["id"]), covariates["object_id"])
    units_of_claims = ([unit] for unit in covariates["text_unit_id"])
    claims = zip(homes, units_of_claims, strict=True)
    return chain(_pair_with_units(relationships), claims)


def _pair_with_units(relationships: pd.DataFrame) -> Iterator[tuple[str, Sequence[str]]]:
    """Return pairs of a relationship's id and the ids of its text units."""
    return zip(relationships["id"], relationships["text_unit_ids"], strict=True)


def add_source_units(
    reports: pd.DataFrame, communities: pd.DataFrame, found: Iterable[tuple[str, Sequence[str]]]
) -> pd.DataFrame:
    """Return the reports with the text units of all facts in ``text_unit_ids``.

    ``found`` has pairs of an entity's or relationship's id and ids of text units. A claim or an
    imported relationship may come from a text unit that mentions no member. Somebody who may not
    see that text unit must not be shown the report.
    """
    units: dict[str, set[str]] = defaultdict(set)
    for id, units_of_fact in found:
        units[id].update(units_of_fact)
    columns = ["id", "entity_ids", "relationship_ids", "text_unit_ids"]
    sources: dict[str, list[str]] = {}
    for id, members, links, own in communities[columns].itertuples(index=False, name=None):
        units_of_community = set(own)
        for fact in (*members, *links):
            units_of_community.update(units.get(fact, ()))
        sources[id] = sorted(units_of_community)
    return reports.assign(text_unit_ids=reports["id"].map(sources))
