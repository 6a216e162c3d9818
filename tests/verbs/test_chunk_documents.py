import random
import time
from collections import Counter
from itertools import pairwise
from typing import get_args

import pandas as pd
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.contract.schemas import DOCUMENTS, TEXT_UNITS
from pipeline.text.tokens import tokenizer
from pipeline.verbs.chunk_documents import ChunkParams, chunk_documents
from tests.sizes import size

STRATEGIES: tuple[str, ...] = get_args(ChunkParams.model_fields["strategy"].annotation)
TOKENIZER = tokenizer("o200k_base")

WORDS = [
    "mill",
    "river",
    "stone",
    "Haven",
    "3.14",
    "naïve",
    "e\u0301",
    "磨坊",
    "河流",
    "東京",
    "मिल",
    "โรงสี",
]
MARKED = ["\U0001f469\u200d\U0001f4bb", "🇳🇴", "👍🏽", "Dr.", "U.S.", "<|endoftext|>"]
BREAKS = [
    " ",
    "  ",
    ". ",
    "! ",
    "\n",
    "\n\n",
    "\r\n",
    "\r\n\r\n",
    "。",
    "，",
    "…",
    "",
    "\t",
    "\u3000",
]
TEXTS = st.lists(
    st.tuples(st.sampled_from(WORDS + MARKED), st.sampled_from(BREAKS)), max_size=80
).map(lambda pairs: "".join(word + mark for word, mark in pairs))


def documents(*texts: str) -> pd.DataFrame:
    return DOCUMENTS.frame(
        [{"id": f"doc-{number}", "text": text} for number, text in enumerate(texts)]
    )


def units_of(text: str, **params: object) -> pd.DataFrame:
    return chunk_documents(documents(text), ChunkParams.model_validate(params))


def spans(units: pd.DataFrame) -> list[tuple[int, int]]:
    return list(zip(units["start"].tolist(), units["end"].tolist(), strict=True))


def cluster_ends(text: str) -> set[int]:
    return {found.end() for found in regex.finditer(r"\X", text)} | {0}


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(text=TEXTS | st.text(max_size=200), size=st.integers(1, 60))
@settings(max_examples=size(30, 120), deadline=None)
def test_units_are_slices_within_the_limit_that_cover_the_text(
    text: str, size: int, strategy: str
) -> None:
    units = units_of(text, strategy=strategy, size=size)
    covered = 0
    for (start, end), unit, n_tokens in zip(
        spans(units), units["text"], units["n_tokens"], strict=True
    ):
        assert text[start:end] == unit == unit.strip() != ""
        assert n_tokens == TOKENIZER.count(unit)
        assert n_tokens <= size or len(unit) == 1
        assert not text[covered:start].strip()
        assert end > covered
        covered = end
    assert not text[covered:].strip()
    assert units["order"].tolist() == list(range(len(units)))
    assert units["id"].is_unique
    assert units_of(text, strategy=strategy, size=size).equals(units)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(text=TEXTS)
@settings(max_examples=size(15, 60), deadline=None)
def test_no_cluster_that_fits_is_split(text: str, strategy: str) -> None:
    ends = cluster_ends(text)
    for span in spans(units_of(text, strategy=strategy, size=24)):
        assert ends.issuperset(span)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(texts=st.lists(TEXTS, max_size=4))
@settings(max_examples=size(5, 20), deadline=None)
def test_documents_chunked_one_by_one_give_the_same_text_units(
    texts: list[str], strategy: str
) -> None:
    params = ChunkParams.model_validate({"strategy": strategy, "size": 20})
    table = documents(*texts)
    parts = [chunk_documents(table[row : row + 1], params) for row in range(len(table))]
    whole = chunk_documents(table, params)
    assert whole.equals(TEXT_UNITS.frame(pd.concat(parts).to_dict("records") if parts else []))


def test_an_empty_table_and_blank_documents_give_no_units() -> None:
    assert chunk_documents(documents()).columns.tolist() == TEXT_UNITS.columns
    assert len(chunk_documents(documents("", " \n\n\t", "\u3000"))) == 0


def test_equal_units_of_a_document_have_ids_of_their_own() -> None:
    units = units_of("Grind. " * 40, strategy="sentence", size=4)
    assert units["text"].nunique() < len(units)
    assert units["id"].is_unique


def test_a_character_over_the_limit_is_a_unit_of_its_own() -> None:
    units = units_of("a \U0001f9ff b", size=1)
    assert units["text"].tolist() == ["a", "\U0001f9ff", "b"]
    assert units["n_tokens"].max() > 1


def test_a_short_document_is_one_unit() -> None:
    text = "\n# The mill\n\nIt stands. It turns.\n"
    assert units_of(text)["text"].tolist() == [text.strip()]


def test_sentences_stay_whole_and_overlap_in_whole_sentences() -> None:
    sentences = [f"Sail number {number} turned in the wind." for number in range(30)]
    text = " ".join(sentences)
    units = units_of(text, strategy="sentence", size=50, overlap=12)
    shared = [text[start:end] for (_, end), (start, _) in pairwise(spans(units))]
    assert len(shared) > 3
    assert set(shared) <= set(sentences)
    assert all(unit.startswith("Sail") and unit.endswith(".") for unit in units["text"])


def test_windows_are_full_and_overlap() -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    units = units_of(text, strategy="tokens", size=120)
    assert units["n_tokens"][:-1].min() >= 115
    overlaps = [TOKENIZER.count(text[start:end]) for (_, end), (start, _) in pairwise(spans(units))]
    assert 5 <= min(overlaps) <= max(overlaps) <= 12


def test_overlap_defaults_to_a_twelfth_of_size_for_tokens_only() -> None:
    assert ChunkParams(strategy="tokens").overlap_tokens == 100
    assert ChunkParams(strategy="sentence").overlap_tokens == 0
    assert ChunkParams().overlap_tokens == 0


@pytest.mark.parametrize(
    "params",
    [
        {"strategy": "stable", "overlap": 10},
        {"strategy": "tokens", "size": 50, "overlap": 50},
        {"size": 0},
        {"strategy": "tokens", "overlap": -1},
        {"strategy": "words"},
    ],
)
def test_invalid_params_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ChunkParams.model_validate(params)


def test_stable_units_end_where_paragraphs_end_but_not_after_a_heading() -> None:
    paragraphs = [
        f"## Part {n}\n\n" + f"The wheel of mill {n} turned all day. " * 6 for n in range(40)
    ]
    units = units_of("\n\n".join(paragraphs), size=300)
    assert all(unit.startswith("## Part") and unit.endswith("day.") for unit in units["text"])
    assert units["n_tokens"].mean() > 100


def invented_sentences(source: random.Random, number: int) -> list[str]:
    sentences = []
    for _ in range(number):
        words = [
            "".join(source.choices("aeioulmnrst", k=source.randint(2, 8)))
            for _ in range(source.randint(4, 16))
        ]
        sentences.append(
            " ".join(words).capitalize() + source.choice([". ", ". ", ". ", "! ", ".\n\n"])
        )
    return sentences


def edited(source: random.Random, sentences: list[str]) -> list[str]:
    place = source.randrange(len(sentences))
    new = invented_sentences(source, 1)
    return source.choice(
        [
            sentences[:place] + new + sentences[place:],
            sentences[:place] + new + sentences[place + 1 :],
            sentences[:place] + sentences[place + 1 :],
        ]
    )


def test_an_edit_of_one_sentence_changes_at_most_three_stable_units() -> None:
    source = random.Random(20)
    changed: Counter[int] = Counter()
    for _ in range(5):
        sentences = invented_sentences(source, 800)
        before = Counter(units_of("".join(sentences), size=160)["text"])
        assert before.total() > 180
        for _ in range(12):
            after = Counter(units_of("".join(edited(source, sentences)), size=160)["text"])
            changed[(after - before).total()] += 1
    assert max(changed) <= 3
    assert sum(units * edits for units, edits in changed.items()) / changed.total() < 1.6


def test_an_edit_at_the_start_of_a_line_without_sentences_leaves_the_rest() -> None:
    source = random.Random(3)
    words = ["".join(source.choices("abcdefghij", k=6)) for _ in range(20_000)]
    before = set(units_of(" ".join(words), size=300)["text"])
    after = set(units_of(" ".join(["inserted", *words]), size=300)["text"])
    assert len(after - before) <= 6
    assert len(before) > 100


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("piece", ["a", "grain ", "磨", "x\n\n", "👍🏽"])
def test_a_long_text_without_a_sentence_end_takes_seconds(strategy: str, piece: str) -> None:
    text = piece * (300_000 // len(piece.encode()))
    started = time.perf_counter()
    units = units_of(text, strategy=strategy)
    assert time.perf_counter() - started < 15
    assert units["n_tokens"].max() <= 1200


def test_a_text_unit_has_the_headings_above_it_and_keeps_its_id():
    text = "# Guide\n\nIntro words.\n\n## Setup\n\n" + "Install it now. " * 30
    row = {"id": "doc", "text": text, "title": "Guide"}
    marked, plain = (
        chunk_documents(DOCUMENTS.frame([{**row, "source": source}]), ChunkParams(size=20))
        for source in ("a.md", "a.pdf")
    )
    assert marked["heading"].tolist()[0] == ""
    assert set(marked["heading"][1:]) == {"Setup"}
    assert set(plain["heading"]) == {""}
    assert marked["id"].tolist() == plain["id"].tolist()
