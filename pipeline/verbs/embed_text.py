"""embed_text: a vector for each text."""

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
    """``vector``: float32, of length 1 (all zeros for a text without content)."""
    vectors = embedding.embed(texts["text"].tolist())
    return pd.DataFrame(
        {"id": texts["id"].array, "vector": vector_column(vectors)}, columns=EMBEDDINGS.columns
    )
