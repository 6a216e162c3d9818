"""add_links: add the links between documents to what a model extracted from their texts."""

from collections.abc import Iterator

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import EXTRACTIONS, TITLES, UNIT_TEXTS
from pipeline.phrases.known_names import LinkNames, find_link_names, links_may_differ, title_rows
from pipeline.phrases.links import LINK_KEYWORD, find_links
from pipeline.text.clip import clip
from pipeline.text.ids import match_key
from pipeline.text.sentences import find_sentences
from pipeline.verbs.add_tables import unite

LINK_COLUMNS = {
    "kind": "relationship",
    "name": "",
    "type": "",
    "keywords": [LINK_KEYWORD],
    "weight": 1.0,
    "attributes": None,
}
"""The columns of EXTRACTIONS that are the same for all links."""


@verb(
    inputs={"text_units": UNIT_TEXTS, "extractions": EXTRACTIONS, "documents": TITLES},
    outputs={"linked_extractions": EXTRACTIONS},
    rowwise="text_units",
    keyed={"extractions": ("text_unit_id",)},
    row_of={"linked_extractions": "text_unit_id"},
    lookup={"documents": links_may_differ},
    libraries=("regex",),
)
def add_links(
    text_units: pd.DataFrame, extractions: pd.DataFrame, documents: pd.DataFrame
) -> pd.DataFrame:
    """Return the extractions, and behind those of each text unit a relationship for each link.

    A link to another document is ``[[A]]``, ``[[A|B]]`` or a Markdown link to a file. The source is
    the entity that the title of the own document names, the target that of the other document. The
    keyword is "links to", the description the sentence with the link, the weight 1. A second link
    to the same document adds nothing. A document without a title that names something has no links.
    """
    known = find_link_names(title_rows(documents))
    # A part of the text units may come with the extractions of all.
    said = extractions[extractions["text_unit_id"].isin(text_units["id"])]
    last_orders = said.groupby("text_unit_id")["order"].max()
    next_orders: dict[str, int] = (last_orders + 1).to_dict()
    rows: list[dict[str, object]] = []
    columns = text_units[["id", "text", "document_id"]].fillna({"text": ""}).sort_values("id")
    for unit_id, text, document_id in columns.itertuples(index=False):
        own_name = known.own.get(document_id)
        if own_name is None:
            continue
        first_order = next_orders.get(unit_id, 0)
        links = _describe_links(text, own_name, known)
        for order, (target, description) in enumerate(links, start=first_order):
            place = {"text_unit_id": unit_id, "order": order, "grounded": True}
            ends = {"source": own_name, "target": target, "description": description}
            rows.append({**place, **ends, **LINK_COLUMNS})
    return unite(said, EXTRACTIONS.frame(rows))


def _describe_links(text: str, own_name: str, known: LinkNames) -> Iterator[tuple[str, str]]:
    """Yield for each entity that the text links to its name, and the first sentence with a link."""
    seen = {match_key(own_name)}
    for start, end in find_sentences(text):
        sentence = text[start:end]
        for link in find_links(sentence):
            target = link.follow(known.targets)
            if target is None or match_key(target) in seen:
                continue
            seen.add(match_key(target))
            yield target, clip(sentence)
