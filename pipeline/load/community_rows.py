"""Communities, their reports and claims as the stores' tables have them."""

import pandas as pd

from pipeline.stores.lists import in_arrow


def reports(told: pd.DataFrame, communities: pd.DataFrame) -> pd.DataFrame:
    """Rows without their vectors. ``told``: community_reports; ``communities``: (id, children)."""
    columns = ["id", "level", "parent", "title", "summary", "content", "rating", "weight", "size"]
    rows = told[columns].assign(chunk_ids=lists(told["text_unit_ids"]))
    return rows.merge(communities[["id"]].assign(children=lists(communities["children"])), on="id", validate="1:1")


def communities(found: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """One without a report has its own title, and nothing else to tell. ``told``: (id, title, summary, rating,
    weight)."""
    rows = found[["id", "level", "parent", "size"]].reset_index(drop=True)
    report = rows[["id"]].merge(
        told[["id", "title", "summary", "rating", "weight"]], on="id", how="left", validate="1:1"
    )
    return rows.assign(
        title=report["title"].where(report["title"].notna(), found["title"].to_numpy()),
        summary=report["summary"].where(report["summary"].notna(), ""),
        rating=report["rating"].astype("float64").fillna(0.0),
        weight=report["weight"].astype("float64").fillna(0).astype("int64"),
        entity_ids=lists(found["entity_ids"]).reset_index(drop=True),
    )


def lists(column: pd.Series) -> pd.Series:
    return column if in_arrow(column) else column.map(list)
