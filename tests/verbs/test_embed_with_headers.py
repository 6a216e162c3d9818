"""What is embedded of a text unit with a header, and of one without."""

import numpy as np
import pandas as pd

from pipeline.contract.schemas import TEXT_UNIT_HEADERS, TEXTS
from pipeline.models.here.builtin import BuiltinEmbedding
from pipeline.verbs.embed_text import embed_text
from pipeline.verbs.embed_with_headers import embed_with_headers
from tests.query.memory_stores import LetterEmbedding

MODEL = LetterEmbedding()


def vectors(frame: pd.DataFrame) -> np.ndarray:
    return np.stack(frame["vector"].tolist())


def test_the_builtin_model_gives_the_tokens_of_a_header_more_weight():
    texts = TEXTS.frame([("a", "The ferry left the harbour at noon."), ("b", "bee")])
    headers = TEXT_UNIT_HEADERS.frame([("a", "Harrow Light")])
    model = BuiltinEmbedding()
    with_header, without = vectors(embed_with_headers(texts, headers, model))
    name, joined, alone = model.embed(
        ["Harrow Light", "Harrow Light\n\nThe ferry left the harbour at noon.", "bee"]
    )
    assert with_header @ name > joined @ name + 0.03
    np.testing.assert_array_equal(without, alone)


def test_header_blank_line_and_text_are_embedded_and_a_text_without_header_as_it_is():
    texts = TEXTS.frame([("a", "zoo"), ("b", "bee")])
    headers = TEXT_UNIT_HEADERS.frame([("b", "Insects"), ("x", "of another")])
    expected = embed_text(TEXTS.frame([("a", "zoo"), ("b", "Insects\n\nbee")]), MODEL)
    np.testing.assert_array_equal(
        vectors(embed_with_headers(texts, headers, MODEL)), vectors(expected)
    )
