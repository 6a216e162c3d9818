"""Which text units name an entity, and how."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import MENTIONS
from pipeline.verbs.merging.codes import coded, first_rows, paired
from pipeline.verbs.merging.tables import NAMINGS


def tell_mentions(
    entity_records: pd.DataFrame, relationship_records: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """By which names text units call entities (NAMINGS), and how much each says of one (MENTIONS),
    from ENTITY_RECORDS and END_RECORDS. ``frequency``: the weight of the entity's records in the
    text unit, at least 1."""
    links = relationship_records[relationship_records["fault"] != "orphan"]
    named = coded(entity_records["entity_id"], links["source_entity_id"], links["target_entity_id"])
    names = coded(entity_records["name"], links["source"], links["target"])
    naming = [entity_records, links, links]
    units = coded(*(records["text_unit_id"] for records in naming))
    pairs, mention = np.unique(
        paired(named.codes, units.codes, len(units.texts)), return_inverse=True
    )
    entity, unit = np.divmod(pairs, max(len(units.texts), 1))
    forms, counts = np.unique(paired(mention, names.codes, len(names.texts)), return_counts=True)
    form, name = np.divmod(forms, max(len(names.texts), 1))
    places = pd.concat(
        [records[["document_id", "unit_order"]] for records in naming], ignore_index=True
    )
    places = places.take(first_rows(units.codes, len(units.texts)))
    order = np.argsort(entity_records["order"].to_numpy(), kind="stable")
    weight = entity_records["weight"].to_numpy()[order]
    weights = np.bincount(mention[: len(order)][order], weights=weight, minlength=len(pairs))
    mentions = pd.DataFrame(
        {
            "entity_id": named.of(entity).to_pandas(),
            "text_unit_id": units.of(unit).to_pandas(),
            "frequency": weights.clip(min=1).round().astype(np.int64),
        },
        columns=MENTIONS.columns,
    )
    namings = pd.DataFrame(
        {
            **mentions[["entity_id", "text_unit_id"]].take(form).reset_index(drop=True),
            "name": names.of(name).to_pandas(),
            **places.take(unit[form]).reset_index(drop=True),
            "count": counts,
        },
        columns=NAMINGS.columns,
    )
    return namings, mentions
