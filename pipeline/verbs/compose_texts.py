"""compose_texts, compose_report_texts: compose the texts that are embedded and searched.

The texts are those of entities, relationships and reports.
"""

from typing import Literal

import pandas as pd

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import INT, STRING, STRINGS, TEXTS, table

TOLD_ENTITIES = table("id", id=STRING, name=STRING, description=STRING)
TOLD_RELATIONSHIPS = table(
    "id",
    id=STRING, source=STRING, target=STRING, description=STRING, keywords=STRINGS,
)  # fmt: skip
TOLD_REPORTS = table(
    "level", "id", id=STRING, level=INT, title=STRING, summary=STRING, content=STRING
)
"""The columns that become text.

Other columns are not read. So an incremental run composes no text again if only counts or text
units have changed.
"""


class TextParams(Params):
    """``entity`` chooses the name, or the name and the description.

    ``relationship`` chooses the description, or keywords, source and target before it.
    """

    entity: Literal["name", "name_description"] = "name_description"
    relationship: Literal["description", "keywords_ends_description"] = "keywords_ends_description"


@verb(
    inputs={"entities": TOLD_ENTITIES, "relationships": TOLD_RELATIONSHIPS},
    outputs={"entity_texts": TEXTS, "relationship_texts": TEXTS},
    keyed={"entities": ("id",), "relationships": ("id",)},
    row_of={"entity_texts": "id", "relationship_texts": "id"},
)
def compose_texts(
    entities: pd.DataFrame, relationships: pd.DataFrame, params: TextParams = TextParams()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the texts of the entities and of the relationships.

    By default the text of an entity is ``name\\ndescription``, and that of a relationship is
    ``keywords\\tsource\\ttarget\\tdescription``.
    """
    entity_texts = entities["name"]
    if params.entity == "name_description":
        entity_texts = entity_texts + "\n" + entities["description"]
    if params.relationship == "description":
        relationship_texts = relationships["description"]
    else:
        relationship_texts = _join_cells(relationships)
    entity_table = pd.DataFrame({"id": entities["id"], "text": entity_texts})
    relationship_table = pd.DataFrame({"id": relationships["id"], "text": relationship_texts})
    return entity_table, relationship_table


def _join_cells(relationships: pd.DataFrame) -> list[str]:
    """Return keywords, source, target and description of each relationship as one text."""
    cells = zip(
        map(", ".join, relationships["keywords"]),
        relationships["source"],
        relationships["target"],
        relationships["description"],
        strict=True,
    )
    return list(map("\t".join, cells))


class ReportTextParams(Params):
    """``text`` chooses the whole report (``content``), its summary, or its title."""

    text: Literal["content", "summary", "title"] = "content"


@verb(
    inputs={"community_reports": TOLD_REPORTS},
    outputs={"report_texts": TEXTS},
    rowwise="community_reports",
    row_of={"report_texts": "id"},
)
def compose_report_texts(
    community_reports: pd.DataFrame, params: ReportTextParams = ReportTextParams()
) -> pd.DataFrame:
    """Return the chosen text of each report."""
    texts = community_reports[params.text]
    return pd.DataFrame({"id": community_reports["id"], "text": texts})
