"""Reads of reports and claims."""

from collections.abc import Sequence

import pandas as pd
from sqlalchemy import Connection, Select, func, or_, select

from pipeline.stores.base import CLAIM_COLUMNS, REPORT_COLUMNS, SOURCES, in_order
from pipeline.stores.postgres_origins import told_by
from pipeline.stores.tables import CHUNKS, CLAIMS, REPORTS


def reports(connection: Connection, workspace: str, ids: Sequence[str]) -> pd.DataFrame:
    """See VectorReads.reports."""
    query = _reports(workspace).where(REPORTS.c.id == func.any(list(ids)))
    return in_order(pd.DataFrame(connection.execute(query).all(), columns=REPORT_COLUMNS), ids)


def reports_at(
    connection: Connection, workspace: str, level: int, limit: int, within: Sequence[str] | None
) -> pd.DataFrame:
    """See VectorReads.reports_at."""
    without_children = (REPORTS.c.level < level) & (func.cardinality(REPORTS.c.children) == 0)
    query = (
        _reports(workspace)
        .where(or_(REPORTS.c.level == level, without_children))
        .order_by(REPORTS.c.weight.desc(), REPORTS.c.rating.desc(), REPORTS.c.id.collate("C"))
        .limit(limit)
    )
    query = query if within is None else query.where(told_by(REPORTS, within))
    return pd.DataFrame(connection.execute(query).all(), columns=REPORT_COLUMNS)


def claims_of(
    connection: Connection, workspace: str, entity_ids: Sequence[str], limit: int, within: Sequence[str] | None
) -> pd.DataFrame:
    """See VectorReads.claims_of."""
    ids, document = list(entity_ids), CHUNKS.c.full_doc_id
    found = {"document_id": func.coalesce(document, "").label("document_id")}
    query = (
        select(*(found[name] if name in found else CLAIMS.c[name] for name in CLAIM_COLUMNS))
        .outerjoin_from(
            CLAIMS, CHUNKS, (CHUNKS.c.workspace == CLAIMS.c.workspace) & (CHUNKS.c.id == CLAIMS.c.text_unit_id)
        )
        .where(
            CLAIMS.c.workspace == workspace,
            or_(CLAIMS.c.subject_id == func.any(ids), CLAIMS.c.object_id == func.any(ids)),
        )
        .order_by(CLAIMS.c.subject.collate("C"), CLAIMS.c.id.collate("C"))
        .limit(limit)
    )
    query = query if within is None else query.where(document == func.any(list(within)))
    return pd.DataFrame(connection.execute(query).all(), columns=CLAIM_COLUMNS)


def _reports(workspace: str) -> Select:
    units = REPORTS.c.chunk_ids[1:SOURCES].label("text_unit_ids")
    columns = [units if name == "text_unit_ids" else REPORTS.c[name] for name in REPORT_COLUMNS]
    return select(*columns).where(REPORTS.c.workspace == workspace)
