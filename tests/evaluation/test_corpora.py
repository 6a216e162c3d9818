"""The corpora that benchmarks/corpora.py makes."""

import pytest

from benchmarks.corpora import CORPORA, QUESTIONS, corpus


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_made_alike_each_time_and_its_questions_are_answered_by_one_document(name: str):
    made = corpus(name)
    assert made == corpus(name)
    texts = dict(made.passages)
    assert len(texts) == len(made.passages) >= QUESTIONS
    assert len({line["question"] for line in made.questions}) == len(made.questions) == QUESTIONS
    for line in made.questions:
        (title,) = line["titles"]
        assert line["question"] not in texts[title]
        assert "{" not in line["question"] + texts[title]
