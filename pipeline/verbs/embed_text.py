"""embed_text: compute a vector for each text."""

import pandas as pd

from pipeline.contract.cells import vector_column
from pipeline.contract.registry import verb
from pipeline.contract.schemas import EMBEDDINGS, TEXTS
from pipeline.models.base import EmbeddingModel


@verb(
    inputs={"texts": TEXTS},
    outputs={"embeddings": EMBEDDINGS},
    rowwise="texts",
    row_of={"embeddings": "id"},
)
def embed_text(texts: pd.DataFrame, embedding: EmbeddingModel) -> pd.DataFrame:
    """Return a float32 ``vector`` for each text.

    Vectors have the length 1; that of a text without content is all zeros.
    """
    vectors = embedding.embed(texts["text"].tolist())
    columns = {"id": texts["id"].array, "vector": vector_column(vectors)}
    return pd.DataFrame(columns, columns=EMBEDDINGS.columns)
