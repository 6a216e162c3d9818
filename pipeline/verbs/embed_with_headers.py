"""embed_with_headers: compute a vector for each text, with its header before it."""

import pandas as pd

from pipeline.contract.cells import vector_column
from pipeline.contract.registry import verb
from pipeline.contract.schemas import EMBEDDINGS, TEXT_UNIT_HEADERS, TEXTS
from pipeline.models.base import EmbeddingModel
from pipeline.text.headers import text_to_embed


@verb(
    inputs={"texts": TEXTS, "headers": TEXT_UNIT_HEADERS},
    outputs={"embeddings": EMBEDDINGS},
    rowwise="texts",
    keyed={"headers": ("id",)},
    row_of={"embeddings": "id"},
)
def embed_with_headers(
    texts: pd.DataFrame, headers: pd.DataFrame, embedding: EmbeddingModel
) -> pd.DataFrame:
    """Return a float32 ``vector`` for each text: of its header and the text.

    ``text_to_embed`` joins them. A text without a header is embedded alone, as ``embed_text`` does.
    Vectors have the length 1.
    """
    of_text = dict(zip(headers["id"], headers["header"], strict=True))
    embedded = [
        text_to_embed(of_text.get(id, ""), text, embedding.identity)
        for id, text in zip(texts["id"], texts["text"], strict=True)
    ]
    vectors = embedding.embed(embedded)
    columns = {"id": texts["id"].array, "vector": vector_column(vectors)}
    return pd.DataFrame(columns, columns=EMBEDDINGS.columns)
