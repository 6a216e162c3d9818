"""Communities to load into a graph store, and what its reads must return of them, in plain
Python."""

import random
from collections.abc import Sequence

import pandas as pd

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.records import Membership
from pipeline.text.ids import digest
from tests.stores.graphs import LIVE, Graph, LoadableGraph, random_graph

COLUMNS = ["id", "level", "parent", "title", "summary", "rating", "weight", "size", "entity_ids"]


def community(level: int, members: Sequence[str], parent: str = "", title: str = "") -> tuple:
    id = f"com-{digest(str(level), *members)}"
    return (
        id,
        level,
        parent,
        title or id,
        f"about {id}",
        7.5,
        len(members),
        len(members),
        list(members),
    )


def random_communities(graph: Graph, content: int) -> pd.DataFrame:
    """Three levels over most of the nodes; those of other ``content`` share some."""
    chance = random.Random(content)
    members = sorted(id for id in graph.nodes["id"] if int(id[-2:], 16) % 8)
    rows = []
    for whole in (members[: len(members) // 2], members[len(members) // 2 :]):
        rows.append(community(0, whole))
        cut = chance.randint(2, len(whole) - 2)
        for part in (whole[:cut], whole[cut:]):
            rows.append(
                community(
                    1, part, rows[-1][0] if rows[-1][1] == 0 else rows[-1][2], f"title {content}"
                )
            )
        if len(rows[-1][-1]) > 2:
            rows.append(community(2, rows[-1][-1][:2], rows[-1][0]))
    return pd.DataFrame(rows, columns=COLUMNS)


def load(opened: LoadableGraph, content: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """What was loaded, and how many rows that took."""
    graph = random_graph(0, content=content)
    rows = random_communities(graph, content)
    with opened.store.writing(LIVE) as writer:
        for table, frame in {**graph.tables(opened.store), "communities": rows}.items():
            delta = diff(with_hashes(frame), writer.hashes(table))
            writer.apply(table, delta)
        writer.publish()
    return rows, delta.counts


def expected_communities_of(
    rows: pd.DataFrame, entity_ids: Sequence[str], level: int
) -> list[Membership]:
    members = (
        rows[["entity_ids", "id", "level"]]
        .explode("entity_ids")
        .set_axis(["entity_id", "community_id", "level"], axis=1)
    )
    found = members[
        members["entity_id"].isin(entity_ids) & (members["level"] <= level)
    ].sort_values("level")
    deepest = found.drop_duplicates("entity_id", keep="last").sort_values("entity_id")
    return [Membership(*row) for row in deepest.itertuples(index=False)]
