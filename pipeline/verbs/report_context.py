"""What a report on a community is made of: facts within a budget of tokens, reports on its parts
where they are many.

Which facts, and in which order, follows from the community's own members alone: not from ids,
levels, or what is linked to it from outside.
"""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pandas as pd

from pipeline.models.base import Tokenizer
from pipeline.models.parse.graph import Report
from pipeline.text.ids import digest
from pipeline.verbs.join_descriptions import cut

FENCE, NO_FENCE = "```", "'''"
SHARE_OF_A_CELL = 4
"""A cell takes at most this part of the budget."""

Section = Literal["Reports", "Entities", "Relationships", "Claims"]
HEADERS: Mapping[Section, tuple[str, ...]] = {
    "Reports": ("title", "report"),
    "Entities": ("name", "type", "description"),
    "Relationships": ("source", "target", "keywords", "description"),
    "Claims": ("subject", "object", "type", "status", "start_date", "end_date", "description"),
}
FRAME = "-----{}-----\n```csv\n{}\n{}```\n"


@dataclass(frozen=True)
class ContextRow:
    """A line of a section, and what it costs. ``ends``: the entities that it is about."""

    section: Section
    line: str
    tokens: int
    ends: tuple[str, ...] = ()

    @cached_property
    def fact(self) -> str:
        """A digest of what it says."""
        return digest(self.section, self.line)


@dataclass(frozen=True)
class Community:
    id: str
    entity_ids: Sequence[str]
    relationship_ids: Sequence[str]
    children: Sequence["Community"]


@dataclass(frozen=True)
class ContextPage:
    """Writes rows, and counts each once."""

    budget: int
    tokenizer: Tokenizer

    def row(self, section: Section, cells: Iterable[str], ends: tuple[str, ...] = ()) -> ContextRow:
        """What the cells say can neither close the fence around them nor begin a line."""
        share = self.budget // SHARE_OF_A_CELL
        line = io.StringIO()
        flat = [cut(" ".join(cell.split()), share, self.tokenizer) for cell in cells]
        csv.writer(line, lineterminator="\n").writerow(flat)
        text = line.getvalue().replace(FENCE, NO_FENCE)
        return ContextRow(section, text, self.tokenizer.count(text), ends)

    @cached_property
    def left(self) -> int:
        """Tokens for rows."""
        frames = (
            FRAME.format(section, ",".join(header), "") for section, header in HEADERS.items()
        )
        return self.budget - self.tokenizer.count("\n".join(frames))

    def fits(self, rows: Iterable[ContextRow]) -> bool:
        return sum(row.tokens for row in rows) <= self.left

    def within(self, rows: Iterable[ContextRow]) -> str:
        """The rows that fit, the first ones before the others, as text."""
        left, kept = self.left, list[ContextRow]()
        for row in rows:
            if row.tokens <= left:
                left -= row.tokens
                kept.append(row)
        while (
            self.tokenizer.count(text := _text(kept)) > self.budget
        ):  # lines may count more together than one by one
            kept.pop()
        return text


@dataclass(frozen=True)
class ReportFacts:
    """The rows of a whole graph: of entities and relationships by id, of claims by the entity they
    are told with."""

    page: ContextPage
    entities: Mapping[str, ContextRow]
    relationships: Mapping[str, ContextRow]
    claims: Mapping[str, Sequence[ContextRow]]

    def fit(self, community: Community) -> bool:
        """Whether all that is known of the community can be shown."""
        return self.page.fits(self._of(community))

    def made_of(self, community: Community) -> list[str]:
        """Digests of all that is known of the community."""
        return sorted({row.fact for row in self._of(community)})

    def context(self, community: Community, reports: Mapping[str, Report]) -> str:
        """All rows where they fit. Where not, the ``reports`` of parts, the largest part first,
        take the place of the rows that lie within them, until the rest fits; their summaries, where
        the whole reports are too long for that; and in the end what matters less is cut."""
        rows = self._ranked(community)
        if self.page.fits(rows):
            return self.page.within(rows)
        parts = {part.id: part for part in community.children if part.id in reports}
        told = self._with_reports(
            rows, parts, {id: self.page.row("Reports", _whole(reports[id])) for id in parts}
        )
        if not self.page.fits(told):
            told = self._with_reports(
                rows, parts, {id: self.page.row("Reports", _short(reports[id])) for id in parts}
            )
        return self.page.within(told)

    def _of(self, community: Community) -> Iterator[ContextRow]:
        for id in community.entity_ids:
            yield self.entities[id]
            yield from self.claims.get(id, ())
        for id in community.relationship_ids:
            yield self.relationships[id]

    def _ranked(self, community: Community) -> list[ContextRow]:
        """Relationships by the degree of their ends within the community, each after its ends and
        their claims."""
        links = [self.relationships[id] for id in community.relationship_ids]
        degree = Counter(end for ends in {frozenset(link.ends) for link in links} for end in ends)
        links.sort(key=lambda link: (-sum(degree[end] for end in link.ends), link.line))
        rows, shown = list[ContextRow](), set[str]()
        for link in links:
            for end in link.ends:
                if end not in shown:
                    shown.add(end)
                    rows += [self.entities[end], *self.claims.get(end, ())]
            rows.append(link)
        others = [id for id in community.entity_ids if id not in shown]
        for id in sorted(others, key=lambda other: self.entities[other].line):
            rows += [self.entities[id], *self.claims.get(id, ())]
        return rows

    def _with_reports(
        self,
        rows: Sequence[ContextRow],
        parts: Mapping[str, Community],
        reports: Mapping[str, ContextRow],
    ) -> list[ContextRow]:
        part_of = {entity: id for id, part in parts.items() for entity in part.entity_ids}
        homes = [_home(row, part_of) for row in rows]
        tokens: Counter[str] = Counter()
        for row, home in zip(rows, homes, strict=True):
            tokens[home] += row.tokens
        total = sum(tokens.values())
        shorter = [id for id, report in reports.items() if report.tokens < tokens[id]]
        chosen = list[str]()
        for id in sorted(shorter, key=lambda part: (-tokens[part], reports[part].line)):
            if total <= self.page.left:
                break
            total += reports[id].tokens - tokens[id]
            chosen.append(id)
        replaced = frozenset(chosen)
        kept = (row for row, home in zip(rows, homes, strict=True) if home not in replaced)
        return [*(reports[id] for id in chosen), *kept]


def facts(
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame | None,
    page: ContextPage,
) -> ReportFacts:
    """The rows of all tables."""
    cells = entities[["id", *HEADERS["Entities"]]].itertuples(index=False, name=None)
    links = relationships[
        [
            "id",
            "source_entity_id",
            "target_entity_id",
            "source",
            "target",
            "keywords",
            "description",
        ]
    ].itertuples(index=False, name=None)
    return ReportFacts(
        page,
        {id: page.row("Entities", words, (id,)) for id, *words in cells},
        {
            id: page.row(
                "Relationships", (source, target, ", ".join(keywords), description), (one, other)
            )
            for id, one, other, source, target, keywords, description in links
        },
        {} if covariates is None else _claims(covariates, frozenset(entities["id"]), page),
    )


def _claims(
    covariates: pd.DataFrame, entities: frozenset[str], page: ContextPage
) -> dict[str, list[ContextRow]]:
    """Claims by their subject, or by their object where only that is an entity; equal ones once."""
    told: dict[str, dict[str, ContextRow]] = defaultdict(dict)
    cells = covariates[["subject_id", "object_id", *HEADERS["Claims"]]].itertuples(
        index=False, name=None
    )
    for subject, object, *words in cells:
        home = subject if subject in entities else object
        if home in entities:
            row = page.row("Claims", words, (home,))
            told[home][row.line] = row
    return {home: [rows[line] for line in sorted(rows)] for home, rows in told.items()}


def _home(row: ContextRow, part_of: Mapping[str, str]) -> str:
    """The part that the row lies within; "" for one between parts, or in none."""
    homes = {part_of.get(end, "") for end in row.ends}
    return homes.pop() if len(homes) == 1 else ""


def _whole(report: Report) -> tuple[str, str]:
    findings = (f"{finding.summary} {finding.explanation}" for finding in report.findings)
    return report.title, " ".join([report.summary, *findings])


def _short(report: Report) -> tuple[str, str]:
    return report.title, report.summary


def _text(rows: Sequence[ContextRow]) -> str:
    """A table for each section that has rows."""
    lines: dict[Section, list[str]] = defaultdict(list)
    for row in rows:
        lines[row.section].append(row.line)
    return "\n".join(
        FRAME.format(section, ",".join(header), "".join(lines[section]))
        for section, header in HEADERS.items()
        if section in lines
    )
