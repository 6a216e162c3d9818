"""Read the communities, reports and claims of an index of Microsoft GraphRAG."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.documents.graphrag import GraphragRejects, find_units, text_of, texts_of
from pipeline.documents.graphrag_tables import Row
from pipeline.models.parse.records import Problem, claim
from pipeline.models.parse.report import GREATEST_RATING
from pipeline.text.ids import claim_id, community_id, entity_id


def read_communities(
    rows: Sequence[Row],
    entities: Mapping[str, str],
    units: Mapping[str, Sequence[str]],
    rejects: GraphragRejects,
) -> dict[str, Row]:
    """Return rows of IMPORTED_COMMUNITIES by GraphRAG's number of the community.

    ``entities`` maps GraphRAG's ids of entities to ours, ``units`` those of text units. Of several
    communities of one level with the same members, the first counts, also as a parent. Communities
    that name an unknown entity are added to the rejects. An unknown text unit is a reject of its
    own: the community and its report stay, for the list is no part of what a report is on.
    """
    found: dict[str, Row] = {}
    ids: dict[str, str] = {}
    taken: set[str] = set()
    parents: dict[str, str] = {}
    for place, row in enumerate(rows):
        number, level = text_of(row["community"]), _read_level(row["level"])
        theirs = texts_of(row["entity_ids"])
        if not number or level is None or not theirs:
            message = "no number, no level, or no entity"
            rejects.add("communities", place, "row", "incomplete", message)
            continue
        missing = [id for id in theirs if id not in entities]
        if missing:
            message = f"{len(missing)} of its entities are not there: {missing[0]}"
            rejects.add("communities", place, "row", "dangling", message)
            continue
        members = sorted({entities[id] for id in theirs})
        id = community_id(level, members)
        if id in taken or number in ids:
            ids.setdefault(number, id)
            message = f"an earlier community has this number or these members: {number}"
            rejects.add("communities", place, "row", "duplicate_id", message)
            continue
        taken.add(id)
        ids[number] = id
        # A column with an empty cell is one of floats, so number 0 is 0.0 there.
        parents[number] = text_of(row["parent"]).removesuffix(".0")
        found[number] = {
            "id": id,
            "level": level,
            "entity_ids": members,
            "text_unit_ids": sorted(set(find_units(row, "communities", place, units, rejects))),
        }
    for number, row in found.items():
        row["parent"] = ids.get(parents[number], "")
    return found


def _read_level(cell: Any) -> int | None:
    """Return the level of a community; None if the cell holds no level."""
    try:
        level = int(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return level if level >= 0 else None


def read_reports(
    rows: Sequence[Row], communities: Mapping[str, Row], rejects: GraphragRejects
) -> list[Row]:
    """Return rows of COMMUNITY_REPORTS. ``communities`` is the result of `read_communities`.

    Reports without a summary or a text, on unknown communities, and second ones on a community are
    added to the rejects.
    """
    found: dict[str, Row] = {}
    for place, row in enumerate(rows):
        community = communities.get(text_of(row["community"]))
        title, summary, content = (text_of(row[name]) for name in ("title", "summary", "content"))
        if community is None:
            message = f"its community is not there: {text_of(row['community'])}"
            rejects.add("community_reports", place, "row", "dangling", message)
        elif not summary.strip() or not content.strip():
            message = "no summary, or no text"
            rejects.add("community_reports", place, "row", "incomplete", message)
        elif community["id"] in found:
            message = "there is another report on its community"
            rejects.add("community_reports", place, "row", "duplicate_id", message)
        else:
            units = community["text_unit_ids"]
            found[community["id"]] = {
                "id": community["id"],
                "level": community["level"],
                "parent": community["parent"],
                "title": title or summary.split("\n")[0],
                "summary": summary,
                "content": content,
                "rating": _read_rating(row["rating"]),
                "rating_explanation": text_of(row["rating_explanation"]),
                "findings": list(_read_findings(row["findings"])),
                "weight": len(units),
                "text_unit_ids": units,
                "size": len(community["entity_ids"]),
                "made_of": None,
            }
    return list(found.values())


def _read_rating(cell: Any) -> float:
    """Return the rating of a report from 0 to 10; 0 if the cell holds no number."""
    try:
        rating = float(cell)
    except (TypeError, ValueError):
        return 0.0
    return min(max(rating, 0.0), GREATEST_RATING) if math.isfinite(rating) else 0.0


def _read_findings(cell: Any) -> Iterator[dict[str, str]]:
    """Yield the findings of a report; the cell is a list, or JSON of a list."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return
    for finding in cell if isinstance(cell, list) else ():
        if isinstance(finding, dict):
            names = ("summary", "explanation")
            yield {name: text_of(finding.get(name)) for name in names}


def read_claims(
    rows: Sequence[Row], units: Mapping[str, Sequence[str]], rejects: GraphragRejects
) -> list[Row]:
    """Return rows of COVARIATES, each id once; names and dates have the form of extract_claims.

    Claims without a subject or of an unknown text unit are added to the rejects.
    """
    found: dict[str, Row] = {}
    for place, row in enumerate(rows):
        cells = {name: text_of(row[name]) for name in row if name != "text_unit_ids"}
        read = claim(
            cells["subject"],
            cells["object"],
            cells["status"],
            (cells["start_date"], cells["end_date"]),
            (cells["type"], cells["description"], cells["source_text"]),
            cells["subject"],
        )
        theirs = texts_of(row["text_unit_ids"])
        known = [unit for id in theirs for unit in units.get(id, ())]
        if isinstance(read, Problem):
            rejects.add("covariates", place, "row", "incomplete", "no subject, or too long a name")
            continue
        if not known:
            rejects.add("covariates", place, "row", "dangling", f"no such text unit: {theirs}")
            continue
        words: dict[str, str] = vars(read)
        object_id = entity_id(read.object) if read.object else ""
        ids = {"subject_id": entity_id(read.subject), "object_id": object_id}
        for unit in known:
            id = claim_id(unit, *words.values())
            if id in found:
                message = "an earlier claim of its text unit says the same"
                rejects.add("covariates", place, "row", "duplicate_row", message)
            found[id] = {"id": id, "text_unit_id": unit, **ids, **words}
    return list(found.values())
