"""resolve_claims: claims follow their entities where names have become one."""

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import COVARIATES, MERGED_ENTITIES, RESOLUTIONS

MERGE = "merge"


@verb(
    inputs={
        "covariates": COVARIATES,
        "resolutions": RESOLUTIONS,
        "resolved_entities": MERGED_ENTITIES,
    },
    outputs={"resolved_covariates": COVARIATES},
)
def resolve_claims(
    covariates: pd.DataFrame, resolutions: pd.DataFrame, resolved_entities: pd.DataFrame
) -> pd.DataFrame:
    """``subject_id`` and ``object_id`` are those of the entity that the name has become; the names
    stay as they were written. ``resolutions`` and ``resolved_entities``: of resolve_entities."""
    import networkx as nx

    graph = nx.Graph()
    merged = resolutions[resolutions["decision"] == MERGE]
    graph.add_edges_from(merged[["left_id", "right_id"]].itertuples(index=False, name=None))
    left = set(resolved_entities["id"])
    into = {
        id: head
        for members in nx.connected_components(graph)
        for head in sorted(members & left)[:1]
        for id in members
    }
    ends = {
        end: [into.get(id, id) for id in covariates[end]] for end in ("subject_id", "object_id")
    }
    return covariates.assign(**ends)
