"""resolve_claims: link claims to the entities that theirs have been merged into."""

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import COVARIATES, MERGED_ENTITIES, RESOLUTIONS
from pipeline.verbs.merging.merged_entities import find_merged_into


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
    merged_into = find_merged_into(resolutions, resolved_entities["id"])
    new_columns = {}
    for end in ("subject_id", "object_id"):
        new_columns[end] = [merged_into.get(id, id) for id in covariates[end]]
    return covariates.assign(**new_columns)
