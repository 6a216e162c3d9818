"""resolve_claims: link claims to the entities that theirs have been merged into."""

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
    """Return the claims with the ids of merged entities in ``subject_id`` and ``object_id``.

    The names of subjects and objects stay as they were written. ``resolutions`` and
    ``resolved_entities`` are tables that resolve_entities has written.
    """
    import networkx as nx

    # Entities that were merged, pair by pair, are connected components of this graph.
    graph = nx.Graph()
    merged = resolutions[resolutions["decision"] == MERGE]
    graph.add_edges_from(merged[["left_id", "right_id"]].itertuples(index=False, name=None))
    remaining = set(resolved_entities["id"])
    merged_into: dict[str, str] = {}
    for members in nx.connected_components(graph):
        heads = sorted(members & remaining)
        if heads:
            merged_into.update(dict.fromkeys(members, heads[0]))
    new_columns = {}
    for end in ("subject_id", "object_id"):
        new_columns[end] = [merged_into.get(id, id) for id in covariates[end]]
    return covariates.assign(**new_columns)
