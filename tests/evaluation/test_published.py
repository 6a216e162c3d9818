"""benchmarks/questions.py converts published files to documents and questions of a project."""

import json
from pathlib import Path

import pytest

from benchmarks.questions import (
    Benchmark,
    hotpotqa,
    two_wiki,
    with_unanswerable,
    write_benchmark,
)
from pipeline.evaluation.questions import read_questions
from pipeline.verbs.load_documents import LoadParams, load_documents


def write(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def check(project: Path, titles: list[str], texts: list[str]) -> None:
    """Check that every gold document is one that load_documents reads."""
    documents, rejects = load_documents(LoadParams(path=str(project / "data" / "input")))
    questions = read_questions(project / "questions.jsonl")
    assert rejects.empty
    assert sorted(documents["text"]) == sorted(texts)
    assert sorted(documents["title"]) == sorted(titles)
    assert {gold.name for question in questions for gold in question.gold} <= set(
        documents["source"]
    )


def test_questions_of_2wikimultihopqa_are_converted(tmp_path: Path):
    asked = {"answer": "No", "question_type": "comparison", "gold_titles": ["B", "A"]}
    benchmark = two_wiki(
        write(
            tmp_path,
            corpus=[{"title": "A", "text": "Of a."}, {"title": "B", "text": "Of b."}],
            questions_gold=[
                {"id": f"q{n}", "question": f"Who is {n}?", **asked} for n in range(60)
            ],
            fastgraphrag_multihop_questions={"51": ["Who is 7?"]},
        ),
        51,
    )
    write_benchmark(benchmark, tmp_path)
    check(tmp_path, ["A", "B"], ["A\nOf a.", "B\nOf b."])
    assert [
        question.id
        for question in read_questions(tmp_path / "questions.jsonl", "multihop")
        if question.type == "true"
    ] == ["q7"]
    assert len(benchmark.questions) == 51


def test_hotpotqa_without_titles_has_gold_documents(tmp_path: Path):
    asked = {
        "_id": "h",
        "question": "Who?",
        "answer": "A",
        "type": "bridge",
        "supporting_facts": [["A", 0], ["A", 1]],
    }
    benchmark = hotpotqa(
        write(
            tmp_path,
            hotpotqa_train=[asked],
            hotpotqa_train_corpus={"A": ["One.", " Two."], "B": ["Three."]},
        )
    )
    write_benchmark(benchmark, tmp_path, with_titles=False)
    check(tmp_path, ["One. Two.", "Three."], ["One. Two.", "Three."])
    assert [gold.name for gold in read_questions(tmp_path / "questions.jsonl")[0].gold] == [
        "passages.jsonl#0"
    ]


def asked(id: str, answer: str, *titles: str) -> dict[str, object]:
    return {"id": id, "question": f"{id}?", "answers": [answer], "type": "t", "titles": [*titles]}


def test_a_question_is_unanswerable_only_if_no_passage_that_is_left_holds_its_answer(
    tmp_path: Path,
):
    benchmark = Benchmark(
        [("A", "Ada built it."), ("B", "It was Bea."), ("C", "Cy, and Bea too."), ("D", "Dan.")],
        [
            asked("alone", "Ada", "A"),
            asked("elsewhere", "the Bea", "B"),
            asked("shared1", "Cy", "C", "D"),
            asked("shared2", "Dan", "D"),
        ],
    )
    made = with_unanswerable(benchmark, 1)
    assert [title for title, _ in made.passages] == ["B", "C", "D"]
    write_benchmark(made, tmp_path)
    read = read_questions(tmp_path / "questions.jsonl", for_answers=True)
    assert [question.id for question in read if not question.answerable] == ["alone"]
    assert [question.answers for question in read] == [(), ("the Bea",), ("Cy",), ("Dan",)]
    with pytest.raises(ValueError, match="only 1 questions"):
        with_unanswerable(benchmark, 2)
