"""compose_texts, compose_report_texts: what of an entity, a relationship or a report is embedded
and searched."""

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
"""What becomes text, so that a night composes none where counts and sources alone are others."""


class TextParams(Params):
    """``entity``: its name, or its name and its description; ``relationship``: its description
    alone, or keywords, source and target before it."""

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
    """Entity: ``name\\ndescription``. Relationship:
    ``keywords\\tsource\\ttarget\\tdescription``."""
    named = (
        entities["name"]
        if params.entity == "name"
        else entities["name"] + "\n" + entities["description"]
    )
    told = (
        relationships["description"]
        if params.relationship == "description"
        else _with_ends(relationships)
    )
    return (
        pd.DataFrame({"id": entities["id"], "text": named}),
        pd.DataFrame({"id": relationships["id"], "text": told}),
    )


def _with_ends(relationships: pd.DataFrame) -> list[str]:
    keywords = [", ".join(words) for words in relationships["keywords"]]
    parts = [
        keywords,
        relationships["source"],
        relationships["target"],
        relationships["description"],
    ]
    return ["\t".join(row) for row in zip(*parts, strict=True)]


class ReportTextParams(Params):
    """``text``: the whole report, its summary, or its title."""

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
    """The text of each report that ``text`` names."""
    return pd.DataFrame({"id": community_reports["id"], "text": community_reports[params.text]})
