"""compose_headers: compose the header of each text unit from what its document is."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.laws import Uses
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    DATED_DOCUMENTS,
    TEXT_UNIT_HEADERS,
    UNIT_HEADINGS,
)
from pipeline.documents.headings import BETWEEN, is_place_of_record, leave_out_repeated
from pipeline.models.base import Tokenizer
from pipeline.text.pieces import Count, find_fitting_end
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

DEFAULT_TOKENIZER = tokenizer(DEFAULT_ENCODING)
LONGEST_VALUE = 60
"""The most characters of a value of the metadata, and of the aliases together."""


class HeaderParams(Params):
    """The parts of a header, and its limit.

    ``aliases`` and ``date`` say whether the header has the aliases and the date of the document.
    ``metadata`` names fields of the document's metadata. ``max_tokens`` limits the header: first
    the metadata, then the date, the aliases and the outer headings are left out, and at last the
    rest is cut.
    """

    aliases: bool = True
    date: bool = True
    metadata: tuple[str, ...] = ()
    max_tokens: int = Field(default=64, ge=1)


@verb(
    inputs={"text_units": UNIT_HEADINGS, "documents": DATED_DOCUMENTS},
    outputs={"text_unit_headers": TEXT_UNIT_HEADERS},
    rowwise="text_units",
    row_of={"text_unit_headers": "id"},
    lookup={"documents": Uses("text_units", ("document_id",))},
    libraries=("rs-bpe",),
)
def compose_headers(
    text_units: pd.DataFrame,
    documents: pd.DataFrame,
    params: HeaderParams = HeaderParams(),
    tokenizer: Tokenizer = DEFAULT_TOKENIZER,
) -> pd.DataFrame:
    """Return the header of each text unit: title and headings, then aliases, date and metadata.

    Title and headings with which the text itself begins are left out. A text unit whose header
    would be empty has no row. ``embed_with_headers`` embeds the headers with the texts, and the
    search by words finds the words of headers too.
    """
    wanted = documents[documents["id"].isin(text_units["document_id"])]
    # Optional columns of a table that lacks them are null in a direct call.
    titled = DATED_DOCUMENTS.filled(DATED_DOCUMENTS.seen(wanted), "documents")
    known: dict[str, Any] = {row["id"]: row for row in titled.to_dict("records")}
    columns = (text_units[name] for name in ("id", "document_id", "text"))
    headings = text_units["heading"].fillna("")
    # The facts of a document are read once: its metadata may be long, and so may be its text.
    facts_of: dict[str, list[str]] = {}
    rows = []
    for id, document_id, text, heading in zip(*columns, headings, strict=True):
        document = known.get(document_id)
        if document is None:
            continue
        if document_id not in facts_of:
            facts_of[document_id] = list(_facts_of(document, params))
        names = [_title_of(document), *heading.split(BETWEEN)]
        names = leave_out_repeated(names, text)
        header = _fit(names, facts_of[document_id], params.max_tokens, tokenizer.count)
        if header:
            rows.append((id, header))
    return TEXT_UNIT_HEADERS.frame(rows)


def _title_of(document: Mapping[str, Any]) -> str:
    """Return the title, or "" for the place of a record, which names nothing."""
    title = " ".join(document["title"].split())
    names_place = document["title_from"] == "file_name" and is_place_of_record(title)
    return "" if names_place else title


def _facts_of(document: Mapping[str, Any], params: HeaderParams) -> Iterator[str]:
    """Yield the aliases of a document and its date, then the chosen metadata as "name: value".

    A date that the title has, as of a note of a day, is not said again.
    """
    aliases = _value_of(list(document["aliases"]))
    if params.aliases and aliases:
        yield aliases
    date = document["date"]
    is_in_title = re.search(rf"(?<!\d){re.escape(date)}(?!\d)", _title_of(document))
    if params.date and date and not is_in_title:
        yield date
    if not params.metadata:
        return
    metadata = json.loads(document["metadata"] or "{}")
    for name in params.metadata:
        value = _value_of(metadata.get(name))
        if value:
            yield f"{name}: {value}"


def _value_of(value: Any) -> str:
    """Return a value of metadata as a short text on one line; "" for one that is no plain value."""
    if isinstance(value, list):
        # A list within a list is no plain value; the lists of a document may be nested deeply.
        plain = [_value_of(item) for item in value if not isinstance(item, list)]
        return ", ".join(filter(None, plain))[:LONGEST_VALUE]
    if value is None or isinstance(value, dict):
        return ""
    shown = json.dumps(value) if isinstance(value, bool) else str(value)
    return " ".join(shown.split())[:LONGEST_VALUE]


def _fit(names: list[str], facts: list[str], max_tokens: int, count: Count) -> str:
    """Return the header in at most ``max_tokens`` tokens; the last facts are left out first."""
    while True:
        header = "\n".join(filter(None, [BETWEEN.join(names), "; ".join(facts)]))
        if count(header) <= max_tokens:
            return header
        if facts:
            facts = facts[:-1]
        elif len(names) > 2:
            # The title stays, and the heading next to the text.
            names = [names[0], *names[2:]]
        else:
            return header[: find_fitting_end(header, 0, len(header), max_tokens, count)].strip()
