"""The facts about a community that a request for a report shows, within a budget of tokens.

If the facts are too many, reports on sub-communities take the place of some. The choice and the
order of the facts depend on the members of the community alone. They do not depend on ids, on
levels, or on relationships with entities outside.
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
"""The marks around a table, and what replaces them inside a cell."""
SHARE_OF_A_CELL = 4
"""A cell takes at most the budget divided by this number."""

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
    """A line of a section, with its number of tokens. ``ends`` has the ids of its entities."""

    section: Section
    line: str
    tokens: int
    ends: tuple[str, ...] = ()

    @cached_property
    def fact(self) -> str:
        """A digest of the section and the line."""
        return digest(self.section, self.line)


@dataclass(frozen=True)
class Community:
    """A community: its members, the relationships between them, and its sub-communities."""

    id: str
    entity_ids: Sequence[str]
    relationship_ids: Sequence[str]
    children: Sequence["Community"]


@dataclass(frozen=True)
class ContextPage:
    """A page of at most ``budget`` tokens: makes the rows for it and chooses those that fit."""

    budget: int
    tokenizer: Tokenizer

    def row(self, section: Section, cells: Iterable[str], ends: tuple[str, ...] = ()) -> ContextRow:
        """Return the cells as one row of CSV, with its number of tokens.

        Text in a cell can neither begin a line nor close the fence around the table. A cell that
        is too long is cut.
        """
        most_tokens = self.budget // SHARE_OF_A_CELL
        short_cells: list[str] = []
        for cell in cells:
            on_one_line = " ".join(cell.split())
            short_cells.append(cut(on_one_line, most_tokens, self.tokenizer))
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(short_cells)
        text = line.getvalue().replace(FENCE, NO_FENCE)
        return ContextRow(section, text, self.tokenizer.count(text), ends)

    @cached_property
    def left(self) -> int:
        """The number of tokens for rows, which the headers of all sections leave."""
        frames = (
            FRAME.format(section, ",".join(header), "") for section, header in HEADERS.items()
        )
        return self.budget - self.tokenizer.count("\n".join(frames))

    def fits(self, rows: Iterable[ContextRow]) -> bool:
        """Return whether all these rows fit."""
        return sum(row.tokens for row in rows) <= self.left

    def within(self, rows: Iterable[ContextRow]) -> str:
        """Return the rows that fit as text.

        They are taken in their order; one that no longer fits is skipped.
        """
        left = self.left
        kept: list[ContextRow] = []
        for row in rows:
            if row.tokens <= left:
                left -= row.tokens
                kept.append(row)
        text = _format_tables(kept)
        # Lines may have more tokens together than the sum of their counts.
        while self.tokenizer.count(text) > self.budget:
            kept.pop()
            text = _format_tables(kept)
        return text


@dataclass(frozen=True)
class ReportFacts:
    """The rows of a whole graph: entities and relationships by id, claims by their entity's id."""

    page: ContextPage
    entities: Mapping[str, ContextRow]
    relationships: Mapping[str, ContextRow]
    claims: Mapping[str, Sequence[ContextRow]]

    def fit(self, community: Community) -> bool:
        """Return whether all facts about the community fit into one request."""
        return self.page.fits(self._rows_of(community))

    def made_of(self, community: Community) -> list[str]:
        """Return the digests of all facts about the community, sorted."""
        return sorted({row.fact for row in self._rows_of(community)})

    def context(self, community: Community, reports: Mapping[str, Report]) -> str:
        """Return the facts about the community as text that fits the budget.

        All rows are shown if they fit. If not, ``reports`` on sub-communities, the largest first,
        replace the rows about their members until the rest fits. If the whole reports are too long
        for that, their summaries are used. Rows that still do not fit are left out, from the end.
        """
        rows = self._rank_rows(community)
        if self.page.fits(rows):
            return self.page.within(rows)
        children = {child.id: child for child in community.children if child.id in reports}
        shown = rows
        for text_of_report in (_full_text, _summary_text):
            report_rows: dict[str, ContextRow] = {}
            for id in children:
                report_rows[id] = self.page.row("Reports", text_of_report(reports[id]))
            shown = self._replace_by_reports(rows, children, report_rows)
            if self.page.fits(shown):
                break
        return self.page.within(shown)

    def _rows_of(self, community: Community) -> Iterator[ContextRow]:
        """Yield all rows about the members and relationships of the community."""
        for id in community.entity_ids:
            yield self.entities[id]
            yield from self.claims.get(id, ())
        for id in community.relationship_ids:
            yield self.relationships[id]

    def _rank_rows(self, community: Community) -> list[ContextRow]:
        """Return all rows about the community, the most important ones first.

        Relationships are ranked by the degree of their ends within the community. Each stands
        behind its two ends and their claims. Entities without a relationship come last.
        """
        links = [self.relationships[id] for id in community.relationship_ids]
        # Both directions between two entities count as one neighbour.
        neighbours = {frozenset(link.ends) for link in links}
        degree: Counter[str] = Counter()
        for ends in neighbours:
            degree.update(ends)

        def most_linked_first(link: ContextRow) -> tuple[int, str]:
            degree_of_ends = sum(degree[end] for end in link.ends)
            return -degree_of_ends, link.line

        links.sort(key=most_linked_first)
        rows: list[ContextRow] = []
        shown: set[str] = set()
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

    def _replace_by_reports(
        self,
        rows: Sequence[ContextRow],
        children: Mapping[str, Community],
        reports: Mapping[str, ContextRow],
    ) -> list[ContextRow]:
        """Return as many reports as needed, then the rows that they do not replace.

        ``children`` and ``reports`` are by the ids of sub-communities.
        """
        child_of: dict[str, str] = {}
        for id, child in children.items():
            child_of.update(dict.fromkeys(child.entity_ids, id))
        # Rows by the sub-community that holds them whole; "" for none.
        homes = [_find_child(row, child_of) for row in rows]
        tokens_of: Counter[str] = Counter()
        for row, home in zip(rows, homes, strict=True):
            tokens_of[home] += row.tokens
        total = sum(tokens_of.values())
        # A report that is longer than the facts saves nothing.
        shorter = [id for id, report in reports.items() if report.tokens < tokens_of[id]]
        largest_first = sorted(shorter, key=lambda child: (-tokens_of[child], reports[child].line))
        chosen: list[str] = []
        for id in largest_first:
            if total <= self.page.left:
                break
            total += reports[id].tokens - tokens_of[id]
            chosen.append(id)
        shown = [reports[id] for id in chosen]
        replaced = frozenset(chosen)
        for row, home in zip(rows, homes, strict=True):
            if home not in replaced:
                shown.append(row)
        return shown


def collect_facts(
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    covariates: pd.DataFrame | None,
    page: ContextPage,
) -> ReportFacts:
    """Return the rows for all entities, relationships and claims; ``covariates`` has the claims."""
    entity_rows: dict[str, ContextRow] = {}
    entity_columns = ["id", *HEADERS["Entities"]]
    for id, *words in entities[entity_columns].itertuples(index=False, name=None):
        entity_rows[id] = page.row("Entities", words, (id,))

    link_rows: dict[str, ContextRow] = {}
    link_columns = ["id", "source_entity_id", "target_entity_id", *HEADERS["Relationships"]]
    links = relationships[link_columns].itertuples(index=False, name=None)
    for id, source_id, target_id, source, target, keywords, description in links:
        words = (source, target, ", ".join(keywords), description)
        link_rows[id] = page.row("Relationships", words, (source_id, target_id))

    claim_rows: dict[str, list[ContextRow]] = {}
    if covariates is not None:
        claim_rows = _collect_claims(covariates, frozenset(entities["id"]), page)
    return ReportFacts(page, entity_rows, link_rows, claim_rows)


def _collect_claims(
    covariates: pd.DataFrame, entities: frozenset[str], page: ContextPage
) -> dict[str, list[ContextRow]]:
    """Return the distinct claims of each entity, sorted by line.

    A claim belongs to its subject, or to its object if only that is an entity.
    """
    # Entity -> line -> row: claims with the same line are one.
    rows_of: dict[str, dict[str, ContextRow]] = defaultdict(dict)
    cells = covariates[["subject_id", "object_id", *HEADERS["Claims"]]]
    for subject, object, *words in cells.itertuples(index=False, name=None):
        entity = subject if subject in entities else object
        if entity in entities:
            row = page.row("Claims", words, (entity,))
            rows_of[entity][row.line] = row
    claims: dict[str, list[ContextRow]] = {}
    for entity, rows_by_line in rows_of.items():
        claims[entity] = [rows_by_line[line] for line in sorted(rows_by_line)]
    return claims


def _find_child(row: ContextRow, child_of: Mapping[str, str]) -> str:
    """Return the sub-community that contains all ends of the row, or "" if none does.

    ``child_of`` maps an entity to its sub-community.
    """
    homes = {child_of.get(end, "") for end in row.ends}
    return homes.pop() if len(homes) == 1 else ""


def _full_text(report: Report) -> tuple[str, str]:
    """Return the title, and the summary with all findings."""
    texts = [report.summary]
    for finding in report.findings:
        texts += [finding.summary, finding.explanation]
    return report.title, " ".join(texts)


def _summary_text(report: Report) -> tuple[str, str]:
    """Return the title and the summary."""
    return report.title, report.summary


def _format_tables(rows: Sequence[ContextRow]) -> str:
    """Return a fenced CSV table for each section that has rows."""
    lines: dict[Section, list[str]] = defaultdict(list)
    for row in rows:
        lines[row.section].append(row.line)
    tables = []
    for section, header in HEADERS.items():
        if section in lines:
            rows_as_text = "".join(lines[section])
            tables.append(FRAME.format(section, ",".join(header), rows_as_text))
    return "\n".join(tables)
