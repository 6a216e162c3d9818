"""extend_communities: keep the communities of another index, and group all other entities."""

from collections.abc import Set

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import (
    COMMUNITIES,
    ENTITIES,
    IMPORTED_COMMUNITIES,
    NODES,
    REJECTS,
    RELATIONSHIPS,
)
from pipeline.verbs.add_tables import unite
from pipeline.verbs.detect_communities import (
    MEMBERSHIP,
    CommunityParams,
    describe_communities,
    partition,
)


@verb(
    inputs={
        "imported_communities": IMPORTED_COMMUNITIES,
        "entities": ENTITIES,
        "relationships": RELATIONSHIPS,
    },
    outputs={"communities": COMMUNITIES, "nodes": NODES, "rejects": REJECTS},
    libraries=("graspologic-native", "networkx"),
)
def extend_communities(
    imported_communities: pd.DataFrame,
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    params: CommunityParams = CommunityParams(),
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return COMMUNITIES and NODES as detect_communities does, and rejects.

    An imported community stays as long as all its members are entities, so a report that was paid
    for stays true. A community that is left out is a reject, and its sub-communities are left out
    with it, so that every entity in a community is in one of level 0. Entities that are in no
    community that stays are grouped among themselves.
    """
    present = set(entities["id"])
    kept, left_out = _choose(imported_communities, present)
    taken = {entity for entity, *_ in kept}
    ends = relationships[["source_entity_id", "target_entity_id"]]
    is_taken = ends.isin(taken)
    touches_kept = is_taken.any(axis=1)
    free = relationships[~touches_kept]
    others = partition(free, params)
    members = pd.DataFrame(kept, columns=MEMBERSHIP).astype({"level": "int64"})
    nodes = unite(members, others)
    communities = describe_communities(nodes, entities, relationships)
    placed = nodes.assign(x=None, y=None)
    rejects = [make_reject(id, "changed", message, "row") for id, message in left_out]
    return communities, placed[NODES.columns], REJECTS.frame(rejects)


def _choose(
    imported: pd.DataFrame, entities: set[str]
) -> tuple[list[tuple[str, int, str, str]], list[tuple[str, str]]]:
    """Return the rows of MEMBERSHIP of the communities that stay, and why others do not, by id."""
    kept: list[tuple[str, int, str, str]] = []
    left_out: list[tuple[str, str]] = []
    kept_members: dict[str, Set[str]] = {}
    taken: set[tuple[int, str]] = set()
    columns = ["level", "id", "parent", "entity_ids"]
    by_level = imported.sort_values(["level", "id"])
    rows = by_level[columns].itertuples(index=False, name=None)
    for level, id, parent, members in rows:
        gone = [member for member in members if member not in entities]
        places = {(level, member) for member in members}
        if gone:
            fact = f"{len(gone)} of its {len(members)} members are gone"
            left_out.append((id, fact))
        elif level and not kept_members.get(parent, frozenset()) >= set(members):
            # Levels come in order, so it is known whether the parent stays.
            left_out.append((id, "the community that it is in is left out"))
        elif places & taken:
            # Names that the other tool keeps apart may be one entity here.
            fact = "a member is in another community of its level"
            left_out.append((id, fact))
        else:
            kept_members[id] = set(members)
            taken |= places
            kept += [(member, level, id, parent) for member in members]
    return kept, left_out
