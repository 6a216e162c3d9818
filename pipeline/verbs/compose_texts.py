"""compose_texts: what of an entity and of a relationship is embedded and searched."""

import pandas as pd

from pipeline.registry import verb
from pipeline.schemas import ENTITIES, RELATIONSHIPS, TEXTS


@verb(
    inputs={"entities": ENTITIES, "relationships": RELATIONSHIPS},
    outputs={"entity_texts": TEXTS, "relationship_texts": TEXTS},
)
def compose_texts(entities: pd.DataFrame, relationships: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Entity: ``name\\ndescription``. Relationship: ``keywords\\tsource\\ttarget\\tdescription``."""
    keywords = pd.Series([", ".join(words) for words in relationships["keywords"]], index=relationships.index)
    parts = [keywords, relationships["source"], relationships["target"], relationships["description"]]
    return (
        pd.DataFrame({"id": entities["id"], "text": entities["name"] + "\n" + entities["description"]}),
        pd.DataFrame({"id": relationships["id"], "text": _joined(parts)}),
    )


def _joined(parts: list[pd.Series]) -> list[str]:
    return ["\t".join(row) for row in zip(*parts, strict=True)]
