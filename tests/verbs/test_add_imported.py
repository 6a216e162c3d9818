"""Documents of the input folder take the place of imported ones."""

import pandas as pd
import pytest

from pipeline.contract.schemas import DOCUMENTS
from pipeline.verbs import add_imported_documents


def document(text: str) -> pd.DataFrame:
    row = {"id": "a", "title": "", "text": text, "source": "a.txt", "metadata": "{}"}
    return DOCUMENTS.frame([{**row, "content_hash": "", "title_from": "given"}])


@pytest.mark.parametrize(
    ("theirs", "kept"),
    [
        ("Ada built\nthe lamp. ", True),
        ("\ufeffAda built the lamp.", True),
        ("Ada built the \ufefflamp.", False),
        ("Ada sold the lamp.", False),
    ],
)
def test_an_equal_text_stays_that_of_the_index(theirs: str, kept: bool):
    ours = "Ada built the lamp."
    found = add_imported_documents(document(ours), document(theirs))
    assert list(found["text"]) == [theirs if kept else ours]
