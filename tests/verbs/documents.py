"""Documents to try verbs on."""

import json
from typing import Any

import pandas as pd

from pipeline.contract.schemas import DOCUMENTS
from pipeline.text.ids import digest, document_id


def documents(**metadata: dict[str, Any]) -> pd.DataFrame:
    """Return a document for each keyword, with these metadata, as load_documents does.

    The document of the keyword ``a`` has the title A and comes from a.txt.
    """
    return DOCUMENTS.frame(
        [_row(name, json.dumps(fields, sort_keys=True)) for name, fields in metadata.items()]
    )


def metadata_of(frame: pd.DataFrame) -> dict[str, Any]:
    names = frame["source"].str.removesuffix(".txt")
    return dict(zip(names, map(json.loads, frame["metadata"]), strict=True))


def _row(name: str, metadata: str) -> dict[str, str]:
    source, title, text = f"{name}.txt", name.upper(), f"Text of {name}."
    return {
        "id": document_id(source),
        "title": title,
        "text": text,
        "source": source,
        "metadata": metadata,
        "content_hash": digest(title, text, metadata),
    }
