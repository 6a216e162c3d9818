import random
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipeline.models.base import EmbeddingModel
from pipeline.models.here import builtin
from pipeline.models.here.builtin import BuiltinEmbedding
from tests.sizes import size

MODEL = BuiltinEmbedding()
WORDLLAMA = find_spec("wordllama")
assert WORDLLAMA
assert WORDLLAMA.origin
TOKENIZER = Tokenizer.from_file(
    str(Path(WORDLLAMA.origin).parent / "tokenizers/l2_supercat_tokenizer_config.json")
)
TEXTS = [
    f"The {a} of {b} keeps a ledger."
    for a in ("mayor", "harbour", "clock", "灯塔")
    for b in ("Tarn", "Velm")
]


def test_rows_are_unit_vectors_and_close_in_meaning_is_close():
    ship, boat, tax = MODEL.embed(
        ["The ship sailed at dawn.", "A boat left the port early.", "Income tax law"]
    )
    assert np.allclose([ship @ ship, boat @ boat, tax @ tax], 1, atol=1e-6)
    assert ship @ boat > ship @ tax
    assert isinstance(MODEL, EmbeddingModel)


def test_a_text_has_the_same_vector_in_any_batch():
    texts = TEXTS * 50
    together = MODEL.embed(texts)
    order = list(range(len(texts)))
    random.Random(7).shuffle(order)
    shuffled = MODEL.embed([texts[i] for i in order])
    assert np.array_equal(shuffled, together[order])
    assert all(np.array_equal(MODEL.embed([text])[0], together[i]) for i, text in enumerate(TEXTS))


def test_blank_texts_and_no_texts():
    vectors = MODEL.embed(["", " \n\t ", "word", "\x00\ud800"])
    assert vectors.dtype == np.float32
    assert list(np.linalg.norm(vectors, axis=1).round(3)) == [0, 0, 1, 0]
    assert MODEL.embed([]).shape == (0, 256)


@settings(max_examples=size(12, 50), deadline=None)
@given(st.text())
def test_no_text_gives_anything_but_a_unit_vector_or_zeros(text: str):
    (vector,) = MODEL.embed([text])
    assert round(float(np.linalg.norm(vector)), 3) in (0, 1)


def test_a_very_long_text_has_a_vector_of_length_one():
    (vector,) = MODEL.embed(["tide clock " * 20_000])
    assert np.allclose(vector @ vector, 1, atol=1e-6)


PARTS = [*"a ▁\n\t潮é<>.", "<s>", "</s>", "<unk>", " tide", "clock", "  ", "\r", "0x0A"]


@settings(max_examples=size(50, 200), deadline=None)
@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_a_text_has_the_tokens_that_its_tokenizer_gives_it_whole(text: str):
    whole = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert builtin._tokenize([text, "tide"], builtin._load_model()[1])[0] == whole


def test_no_token_goes_on_past_a_space_and_sums_are_exact_in_any_order():
    assert not [token for token in TOKENIZER.get_vocab() if re.search(r"[^▁]▁|[\n\t ]", token)]
    ids = np.random.default_rng(1).integers(0, 32_000, 10_000)
    embedding, _ = builtin._load_model()
    assert embedding.dtype == np.float16
    forward, backward = builtin._sum_by_text(embedding, [ids, ids[::-1]])
    assert np.array_equal(forward, backward)


def test_identity_names_the_version():
    assert MODEL.identity["provider"] == "builtin"
    assert MODEL.identity["version"]


def test_importing_is_free_and_embedding_imports_no_client_and_leaves_logging_alone():
    code = """
import logging, sys
from pipeline.models.here.builtin import BuiltinEmbedding
model = BuiltinEmbedding()
assert "tokenizers" not in sys.modules
model.embed(["word"])
assert "tokenizers" in sys.modules
assert not {"wordllama", "requests"} & set(sys.modules)
assert logging.root.handlers == [] and logging.root.level == logging.WARNING
"""
    subprocess.run([sys.executable, "-c", code], check=True)
