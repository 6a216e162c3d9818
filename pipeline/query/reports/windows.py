"""Scored points: what the calls before the last one bring, and what of it the last one is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from pipeline.models.base import ChatReply
from pipeline.models.parse_inquiry import Point
from pipeline.query.context import RESERVE, SECTION, cut
from pipeline.query.data_citations import DataCitations, cited
from pipeline.query.messages import count_tokens, messages
from pipeline.query.prepared import Abstention, Prepared
from pipeline.query.stage import QueryStage

POINT_HEADER = ["score", "point"]


@dataclass(frozen=True)
class Checked:
    """Points without citations of what their call was not shown, and how many of those there were."""

    points: tuple[Point, ...]
    removed: int


def checked_points(points: Sequence[Point], citable: DataCitations) -> Checked:
    """Points with a score of 0 are left out."""
    checked = [(point, *citable.checked(point.description)) for point in points if point.score > 0]
    kept = tuple(replace(point, description=text) for point, text, _ in checked if text.strip())
    return Checked(kept, sum(count for _, _, count in checked))


def reduced(
    prepared: Prepared, stage: QueryStage, found: Sequence[Checked], replies: Sequence[ChatReply], notes: Sequence[str]
) -> Prepared:
    """Ready for the answer: the points by their scores, ties in the order found, as many as max_total_tokens has room
    for. The answer may cite what they cite."""
    points = _ranked(found)
    overhead = count_tokens(messages(prepared.request, stage, ""), stage.tokenizer)
    rows = pd.DataFrame(
        {"score": [f"{point.score:g}" for point in points], "point": [point.description for point in points]}
    )
    room = prepared.request.max_total_tokens - overhead - RESERVE
    table = cut(rows, rows, POINT_HEADER, max(room, 0), stage.tokenizer)
    shown = SECTION.format("Points", table.csv) if len(table.records) else ""
    unshown = [f"{table.dropped} points had no room in the last prompt"] if table.dropped else []
    return replace(
        prepared,
        messages=messages(prepared.request, stage, shown),
        abstention=_abstention(points, shown),
        notes=tuple(dict.fromkeys((*prepared.notes, *notes, *unshown))),
        replies=(*prepared.replies, *replies),
        citable=cited(table.records["point"]),
        removed_citations=prepared.removed_citations + sum(one.removed for one in found),
        inquiry=None,
    )


def _ranked(found: Sequence[Checked]) -> list[Point]:
    """Each text once, by its best score."""
    unique: dict[str, Point] = {}
    for point in sorted((point for one in found for point in one.points), key=lambda point: -point.score):
        unique.setdefault(point.description, point)
    return list(unique.values())


def _abstention(points: Sequence[Point], shown: str) -> Abstention:
    if not points:
        return "not_in_context"
    return "" if shown else "no_room"
