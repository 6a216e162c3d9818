"""Verbs that make up a corpus of any size that a model has read: documents, their text units, and
what each names; the same on any machine, and row by row, so that a run makes it in buckets.
million.py puts this file into its project.

A text unit names five entities, drawn with a long tail (of a million text units one in sixteen
names the commonest), and tells of two relationships between them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline import Params, verb
from pipeline.contract.schemas import DOCUMENTS, EXTRACTIONS, TEXT_UNITS
from pipeline.text.ids import document_id, text_unit_id

UNITS_A_DOCUMENT, ENTITIES_A_UNIT, WORDS_A_UNIT = 10, 5, 20
UNITS_A_NAME = 2
SOURCES, TARGETS = [0, 2], [1, 3]
"""The indexes of the entities of a text unit between which its relationships are."""
_HEADS = "Bar Cal Dor El Fen Gar Hal Is Jor Kel Lor Mar Nor Or Pel Quin Ros Sel Tor Ul Ver Wen Yor Zan".split()  # noqa: E501
_TAILS = "an beth dric ena fold gard holm ick ja kett low mere nik olt quay rick sten tova und wick".split()  # noqa: E501
WORDS = np.array([head + tail for head in _HEADS for tail in _TAILS], object)
TYPES = np.array("person organization location event concept".split(), object)
SCATTER = 7_368_787
"""Prime: numbers that lie together become names which do not look alike."""
DRAWS = 1_000
"""The most random numbers that are drawn for a text unit."""


class Size(Params):
    """``units``: text units in all."""

    units: int = Field(ge=1)


@verb(inputs={}, outputs={"documents": DOCUMENTS})
def make_documents(params: Size) -> pd.DataFrame:
    """Return documents without their texts, which no later step reads."""
    n_documents = math.ceil(params.units / UNITS_A_DOCUMENT)
    sources = [f"{number:09}.txt" for number in range(n_documents)]
    return pd.DataFrame(
        {
            "id": list(map(document_id, sources)), "title": sources, "text": "", "source": sources,
            "metadata": "{}",
            "content_hash": sources, "title_from": "file_name",
        }
    )  # fmt: skip


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"text_units": TEXT_UNITS},
    rowwise="documents",
    row_of={"text_units": "document_id"},
)
def make_text_units(documents: pd.DataFrame, params: Size) -> pd.DataFrame:
    """Return text units; each text begins with the number of its unit."""
    document_numbers = documents["source"].str.removesuffix(".txt").astype("int64").to_numpy()
    first = document_numbers * UNITS_A_DOCUMENT
    numbers = (first[:, None] + np.arange(UNITS_A_DOCUMENT)).ravel()
    owners = np.repeat(documents["id"].to_numpy(), UNITS_A_DOCUMENT)
    # The last document may have fewer units.
    exists = numbers < params.units
    numbers, owners = numbers[exists], owners[exists]
    places = (_random(numbers, range(WORDS_A_UNIT)) * len(WORDS)).astype("int64")
    words = WORDS[places]
    texts = [f"{number} {' '.join(row)}." for number, row in zip(numbers, words, strict=True)]
    order = numbers % UNITS_A_DOCUMENT
    return pd.DataFrame(
        {
            "id": [text_unit_id(owner, text, 0) for owner, text in zip(owners, texts, strict=True)],
            "text": texts,
            "n_tokens": 2 * WORDS_A_UNIT, "document_id": owners, "start": order, "end": order + 1,
            "order": order,
        }
    )  # fmt: skip


@verb(
    inputs={"text_units": TEXT_UNITS},
    outputs={"extractions": EXTRACTIONS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id"},
)
def make_extractions(text_units: pd.DataFrame, params: Size) -> pd.DataFrame:
    """Return extractions as a model would give them.

    Entities have a type and a description, relationships have keywords and a description.
    """
    numbers = text_units["text"].str.partition(" ")[0].astype("int64").to_numpy()
    n_rows = len(numbers)
    n_names = math.ceil(params.units / UNITS_A_NAME)
    # The entities of a unit are drawn from parts of the range of their own, so they differ.
    draws = _random(numbers, range(DRAWS - ENTITIES_A_UNIT, DRAWS))
    in_turn = (np.arange(ENTITIES_A_UNIT) + draws) / ENTITIES_A_UNIT
    # The cube makes some entities far more frequent than others.
    entities = (in_turn**3 * n_names).astype("int64")
    names = _names(entities)
    note = np.array([f" in note {number}" for number in numbers], object)[:, None]
    sources, targets = names[:, SOURCES], names[:, TARGETS]
    keywords = WORDS[entities[:, SOURCES] % len(WORDS)]
    # Entities have no ends, and relationships have no names.
    no_names = np.full_like(sources, "")
    no_ends = np.full_like(names, "")
    kinds = ["entity"] * ENTITIES_A_UNIT + ["relationship"] * len(SOURCES)
    return pd.DataFrame(
        {
            "text_unit_id": np.repeat(text_units["id"].to_numpy(), len(kinds)),
            "order": np.tile(np.arange(len(kinds)), n_rows),
            "kind": np.tile(np.array(kinds, object), n_rows),
            "name": _side_by_side(names, no_names),
            "type": _side_by_side(TYPES[entities % len(TYPES)], no_names),
            "source": _side_by_side(no_ends, sources),
            "target": _side_by_side(no_ends, targets),
            "description": _side_by_side(
                names + " is named" + note, sources + " wrote to " + targets + note
            ),
            "keywords": [[word] if word else [] for word in _side_by_side(no_ends, keywords)],
            "weight": 1.0,
            "grounded": True,
        }
    )


def _random(numbers: np.ndarray, draws: Sequence[int]) -> np.ndarray:
    """Return random numbers between 0 and 1, a row for each number and a column for each draw.

    SplitMix64 can compute any element of its series at once.
    """
    places = numbers[:, None] * DRAWS + np.array(draws) + 1
    state = places.astype("uint64") * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    # A float between 0 and 1 has 53 bits.
    return (state >> np.uint64(11)) / 2**53


def _names(numbers: np.ndarray) -> np.ndarray:
    scattered = numbers * SCATTER % len(WORDS) ** 3
    first, rest = np.divmod(scattered, len(WORDS) ** 2)
    return WORDS[first] + " " + WORDS[rest // len(WORDS)] + " " + WORDS[rest % len(WORDS)]


def _side_by_side(*cells: np.ndarray) -> Any:
    return np.hstack(cells).ravel()
