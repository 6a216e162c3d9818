import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.questions import find_chunks, find_documents

DOCUMENTS = pd.DataFrame(
    [
        ("doc-1", "a.txt", "Harbour"),
        ("doc-2", "b.txt", "Harbour"),
        ("doc-3", "Harbour 3", "b.txt"),
        ("doc-4", "d", "doc-1"),
    ],
    columns=["id", "source", "title"],
)


def pages(*contents: str) -> list[pd.DataFrame]:
    return [
        pd.DataFrame({"id": [f"c{number}"], "content": [content]})
        for number, content in enumerate(contents)
    ]


def test_a_document_is_named_by_id_before_source_before_title():
    assert find_documents(["doc-1", "b.txt", "Harbour", "d", "no"], DOCUMENTS) == {
        "doc-1": {"doc-1"},
        "b.txt": {"doc-2"},
        "Harbour": {"doc-1", "doc-2"},
        "d": {"doc-4"},
    }


def test_a_text_is_found_across_line_ends_and_inside_words():
    contents = [
        "Mira Vale built\nthe  Harrow Light, in 1871.",
        "Mira Vale",
        "白壶茶社是由林晚樵创办的",
    ]
    held = find_chunks(
        ["Vale built the Harrow Light", "ira Vale", "林晚樵", "never said"], pages(*contents)
    )
    assert held == {
        "Vale built the Harrow Light": {"c0"},
        "ira Vale": {"c0", "c1"},
        "林晚樵": {"c2"},
    }


@given(
    st.lists(st.text("ab \n", max_size=20), max_size=5),
    st.text("ab \n", min_size=1, max_size=6).filter(str.strip),
)
def test_the_short_cut_by_words_loses_nothing(contents, text):
    flat = " ".join(text.split())
    plain = {
        f"c{number}" for number, content in enumerate(contents) if flat in " ".join(content.split())
    }
    assert find_chunks([text], pages(*contents)).get(text, frozenset()) == plain
