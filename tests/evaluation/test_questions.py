import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.evaluation.questions import Gold, read_questions

GOOD = {"question": "Who?", "documents": ["a.txt"]}


def written(tmp_path: Path, *lines: str | bytes) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return path


def test_a_line_is_a_question_with_its_gold(tmp_path: Path):
    full = {
        "id": 7,
        "question": " Who?\u2028 ",
        "documents": "a.txt",
        "chunks": ["chunk-1"],
        "texts": ["by her"],
        "type": 2,
    }
    first, second = read_questions(
        written(tmp_path, b"\xef\xbb\xbf" + json.dumps(full).encode() + b"\r", "", json.dumps(GOOD))
    )
    assert (first.id, first.text, first.type, first.line) == ("7", "Who?", "2", 1)
    assert first.gold == (
        Gold("document", "a.txt"),
        Gold("chunk", "chunk-1"),
        Gold("text", "by her"),
    )
    assert (second.id, second.type, second.line) == ("3", "", 3)


def test_what_to_count_by_is_any_key():
    assert [
        question.type
        for question in read_questions([GOOD | {"hops": 2}, GOOD | {"hops": True}], "hops")
    ] == [
        "2",
        "true",
    ]


def test_answers_and_questions_without_an_answer_are_read():
    lines = [
        {"question": "Who?", "answers": ["Senn", "Idra Senn", "Senn"]},
        {"question": "Who?", "answer": "Senn", "documents": ["a.txt"]},
        {"question": "Who?", "answer": "", "documents": ["a.txt"]},
        {"question": "Who?", "answerable": False, "answers": []},
    ]
    read = read_questions(lines, for_answers=True)
    assert [question.answers for question in read] == [("Senn", "Idra Senn"), ("Senn",), (), ()]
    assert [question.answerable for question in read] == [True, True, True, False]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answerable": "no"}, "'answerable' is neither true nor false"),
        ({"answerable": False, "answers": ["Senn"]}, "gold of a question that is not answerable"),
        ({"answerable": False, "texts": ["Senn"]}, "gold of a question that is not answerable"),
        ({"answers": [" "]}, "'answers' is no list of texts"),
        ({"answers": []}, "no gold; give 'answers', or name what is to be found"),
    ],
)
def test_answers_that_make_no_sense_are_refused(fields: dict, said: str):
    with pytest.raises(UsageError, match=said):
        read_questions([{"question": "Who?", **fields}], for_answers=True)


def test_answers_are_no_gold_of_retrieval():
    with pytest.raises(UsageError, match="no gold; name what is to be found"):
        read_questions([{"question": "Who?", "answers": ["Senn"]}])


def test_gold_that_is_named_twice_counts_once():
    assert len(read_questions([GOOD | {"documents": ["a.txt", " a.txt"]}])[0].gold) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question": "Who?"', "line 2: not JSON"),
        ("[1]", "line 2: no object"),
        ("[" * 100_000, "line 2: not JSON that can be read"),
        ('{"question": "Who?", "documents": [' + "1" * 5000 + "]}",
            "line 2: not JSON that can be read"),
        (b'{"question": "\xff"}', "line 2: not UTF-8"),
        ('{"question": "Who?"}',
            "line 2: no gold; name what is to be found under one of documents, chunks, texts"),
        ('{"question": "Who?", "documents": []}', "line 2: no gold"),
        ('{"question": "Who?", "documents": [1]}', "line 2: 'documents' is no list of texts"),
        ('{"question": "Who?", "documents": {"a": 1}}', "line 2: 'documents' is no list of texts"),
        ('{"question": "Who?", "texts": ["  "]}', "line 2: 'texts' is no list of texts"),
        ('{"question": "\\u0000\\ud800 ", "documents": ["a"]}', "line 2: no question"),
        ('{"question": "?!", "documents": ["a"]}', "line 2: no question"),
        ('{"question": 5, "documents": ["a"]}', "line 2: no question"),
        ('{"id": "1", "question": "Who?", "documents": ["a"]}',
            "line 2: id '1' is that of line 1 too"),
        ('{"id": [1], "question": "Who?", "documents": ["a"]}',
            "line 2: 'id' is no text or number"),
        ('{"type": {}, "question": "Who?", "documents": ["a"]}',
            "line 2: 'type' is no text or number"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path, line: str | bytes, said: str):
    with pytest.raises(UsageError) as raised:
        read_questions(written(tmp_path, json.dumps(GOOD), line))
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "questions.jsonl"))
    assert "\n" not in str(raised.value)


def test_all_faults_are_told_but_not_without_end(tmp_path: Path):
    with pytest.raises(UsageError, match=r"line 1: .*line 5: .*and 15 lines more") as raised:
        read_questions(written(tmp_path, *["{}"] * 20))
    assert "line 6" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_a_file_without_questions_is_a_usage_error(tmp_path: Path, content: bytes):
    with pytest.raises(UsageError, match="no questions"):
        read_questions(written(tmp_path, content))


def test_a_missing_file_is_a_usage_error(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_questions(path)


@given(
    st.lists(
        st.binary(max_size=40) | st.from_type(type(None)).map(json.dumps).map(str.encode),
        max_size=4,
    )
)
def test_bytes_are_questions_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
):
    with pytest.raises(UsageError):
        read_questions(written(tmp_path_factory.getbasetemp(), *lines))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["id", "question", "documents", "chunks", "texts", "type"]), JSON_VALUES
    )
)
def test_any_object_is_a_question_or_an_error_of_ours(record: dict):
    try:
        (question,) = read_questions([record])
    except UsageError:
        return
    assert question.text
    assert question.gold
    json.dumps([question.id, question.type], ensure_ascii=False).encode("utf-8")
