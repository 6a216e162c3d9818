"""Check which vectors count as another model's."""

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import UsageError
from pipeline.load.overwrite_guard import (
    headers_of,
    other_model,
    other_vectors,
    probe_of,
    refuse_other_model,
)
from pipeline.stores.base import Live

MODEL = {"model": "m", "version": "1"}
ONE, OTHER, ZEROS = [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]


def embeddings(vector: list[float], header: str = "") -> pd.DataFrame:
    cells = {"id": ["unit"], "vector": [np.asarray(vector, np.float32)], "header": [header]}
    return pd.DataFrame(cells)


def live(vector: list[float], model: dict[str, str] = MODEL) -> Live:
    return Live("index", "1", model, len(vector), probe=probe_of(embeddings(vector)))


@pytest.mark.parametrize(
    ("before", "now", "is_another"),
    [
        (ONE, ONE, False),
        (ONE, OTHER, True),
        (ONE, ZEROS, False),
        (ZEROS, ONE, False),
        (ZEROS, ZEROS, False),
    ],
)
def test_a_vector_of_zeros_tells_nothing_about_the_model(
    before: list[float], now: list[float], is_another: bool
):
    assert bool(other_vectors(live(before), live(now), embeddings(now))) == is_another


def test_the_vector_of_a_text_with_another_header_tells_nothing_about_the_model():
    before = Live("index", "1", MODEL, 2, probe=probe_of(embeddings(ONE, "Title")))
    now = Live("index", "2", MODEL, 2)
    assert not other_vectors(before, now, embeddings(OTHER, "Title > Heading"))
    assert not other_vectors(before, now, embeddings(OTHER))
    assert other_vectors(before, now, embeddings(OTHER, "Title"))


@pytest.mark.parametrize(
    ("shown", "refused"),
    [
        (None, False),
        (Live("index", "1", MODEL, 2), False),
        (Live("index", "1", {"model": "n"}, 2), True),
        (Live("index", "1", {"model": "n"}, 0), False),
    ],
    ids=["nothing", "the same model", "another model", "another model without vectors"],
)
def test_a_run_is_refused_exactly_where_its_load_would_be_for_the_model(
    shown: Live | None, refused: bool
):
    assert other_model(shown, MODEL) == refused
    assert bool(other_vectors(shown, Live("index", "2", MODEL, 2), embeddings(ONE))) == refused
    if refused:
        with pytest.raises(
            UsageError, match=r"made by \(model n\).*\(model m, version 1\).*run index --re-embed"
        ):
            refuse_other_model("w", [shown], MODEL, "index")
    else:
        refuse_other_model("w", [shown], MODEL, "index")


def test_text_units_none_of_which_has_a_header_have_empty_ones():
    assert headers_of(pd.Series(["a", "b"]), {}) == ["", ""]
    assert headers_of(pd.Series(["a", "b"]), {"b": "Manual"}) == ["", "Manual"]
