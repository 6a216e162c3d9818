"""The questions and passages of published benchmarks, as a project's documents and questions for
`graphmill eval`.

    python benchmarks/questions.py 2wiki FOLDER PROJECT --questions 101
    python benchmarks/questions.py hotpotqa FOLDER PROJECT --without-titles
    python benchmarks/questions.py 2wiki FOLDER PROJECT --unanswerable 60

With `--unanswerable`, so many questions have no answer in the passages: those that they rest on are
left out, and no other passage holds the words of their answer. They measure, with
`graphmill eval --answers`, whether a model refuses where it should.

FOLDER holds the files as published: 2WikiMultiHopQA as HippoRAG and fast-graphrag use it
(corpus.json, questions_gold.json, fastgraphrag_multihop_questions.json), HotpotQA as HippoRAG does
(hotpotqa_train.json, hotpotqa_train_corpus.json). PROJECT/data/input/passages.jsonl and
PROJECT/questions.jsonl are written; of 2WikiMultiHopQA also PROJECT/facts.jsonl, the evidence of
its questions as triples, for benchmarks/yield.py.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.evaluation.answer_match import answer_tokens

PASSAGES = "passages.jsonl"
PASSAGES_OF_QUESTIONS = {51: 421, 101: 780, 1000: 6119}
"""2wiki: the passages stand in the order of the questions that need them, so that a beginning is a
benchmark."""


@dataclass(frozen=True)
class Benchmark:
    """``passages``: title and text; ``questions``: lines of a file of questions, but ``titles`` for
    their gold."""

    passages: list[tuple[str, str]]
    questions: list[dict[str, Any]]
    facts: tuple[tuple[str, str, str], ...] = ()
    """Subject, relation and object of each fact that the questions need, where they are known."""


def two_wiki(folder: Path, questions: int = 1000) -> Benchmark:
    """Return the passages and questions of 2WikiMultiHopQA.

    ``multihop`` says whether fast-graphrag counts a question among those of several hops.
    """
    passages = [(entry["title"], entry["text"]) for entry in _read(folder / "corpus.json")]
    multihop = set(_read(folder / "fastgraphrag_multihop_questions.json").get(str(questions), []))
    lines: list[dict[str, Any]] = []
    facts: dict[tuple[str, str, str], None] = {}
    for entry in _read(folder / "questions_gold.json")[:questions]:
        for subject, relation, object in entry.get("evidence_triples", ()):
            facts[subject, relation, object] = None
        line: dict[str, Any] = {
            "id": entry["id"],
            "question": entry["question"],
            "answers": [entry["answer"]],
            "type": entry["question_type"],
        }
        if multihop:
            line["multihop"] = entry["question"] in multihop
        line["titles"] = entry["gold_titles"]
        lines.append(line)
    return Benchmark(passages[: PASSAGES_OF_QUESTIONS[questions]], lines, tuple(facts))


def hotpotqa(folder: Path) -> Benchmark:
    corpus: Mapping[str, list[str]] = _read(folder / "hotpotqa_train_corpus.json")
    lines = [
        {
            "id": entry["_id"],
            "question": entry["question"],
            "answers": [entry["answer"]],
            "type": entry["type"],
        }
        | {"titles": list(dict.fromkeys(title for title, _ in entry["supporting_facts"]))}
        for entry in _read(folder / "hotpotqa_train.json")
    ]
    return Benchmark([(title, "".join(sentences)) for title, sentences in corpus.items()], lines)


def with_unanswerable(benchmark: Benchmark, number: int, seed: int = 33) -> Benchmark:
    """Return the benchmark with ``number`` questions made unanswerable.

    The passages of their gold are left out. A question is chosen only if no other question needs
    these, and if no passage that is left holds the tokens of its answer. Raises ValueError if too
    few questions are so.
    """
    needed = Counter(title for line in benchmark.questions for title in line["titles"])
    tokens = [(title, _joined(f"{title} {text}")) for title, text in benchmark.passages]
    candidates = list(benchmark.questions)
    random.Random(seed).shuffle(candidates)
    chosen: dict[str, dict[str, Any]] = {}
    for line in candidates:
        titles = line["titles"]
        if len(chosen) == number:
            break
        is_shared = any(needed[title] > 1 for title in titles)
        if is_shared or not titles or holders(line["answers"], tokens, set(titles)):
            continue
        chosen[line["id"]] = line
    if len(chosen) < number:
        raise ValueError(f"only {len(chosen)} questions can be made unanswerable")
    left_out = {title for line in chosen.values() for title in line["titles"]}
    for line in chosen.values():
        # Leaving out more passages cannot add one that holds the answer; the proof is cheap.
        assert not holders(line["answers"], tokens, left_out)
    passages = [entry for entry in benchmark.passages if entry[0] not in left_out]
    questions = [
        _unanswerable(line) if line["id"] in chosen else line for line in benchmark.questions
    ]
    return Benchmark(passages, questions)


def holders(
    answers: Sequence[str], tokens: Sequence[tuple[str, str]], left_out: set[str]
) -> list[str]:
    """Return the titles of passages, but those left out, that hold the tokens of an answer.

    ``tokens`` are title and tokens of each passage, as ``_joined`` gives them.
    """
    wanted = [_joined(answer) for answer in answers]
    return [
        title
        for title, text in tokens
        if title not in left_out and any(answer in text for answer in wanted)
    ]


def _joined(text: str) -> str:
    """Return the tokens of a text with a space before and behind each."""
    return f" {' '.join(answer_tokens(text))} "


def _unanswerable(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": line["id"],
        "question": line["question"],
        "answerable": False,
        "type": "unanswerable",
        "titles": [],
    }


def write_benchmark(benchmark: Benchmark, project: Path, with_titles: bool = True) -> None:
    """Write a document for each passage, and the questions, into the project.

    Unless ``with_titles`` is false, a document has its title, also as the first line of its text.
    """
    sources = {
        title: f"{PASSAGES}#{number}" for number, (title, _) in enumerate(benchmark.passages)
    }
    documents = [
        (
            {"id": str(number), "title": title, "text": f"{title}\n{text}"}
            if with_titles
            else {"id": str(number), "text": text}
        )
        for number, (title, text) in enumerate(benchmark.passages)
    ]
    questions: list[dict[str, Any]] = []
    for line in benchmark.questions:
        question = {key: value for key, value in line.items() if key != "titles"}
        if line["titles"]:
            question["documents"] = [sources[title] for title in line["titles"]]
        questions.append(question)
    _write(project / "data" / "input" / PASSAGES, documents)
    _write(project / "questions.jsonl", questions)
    if benchmark.facts:
        keys = ("subject", "relation", "object")
        facts = [dict(zip(keys, fact, strict=True)) for fact in benchmark.facts]
        _write(project / "facts.jsonl", [{"source": "", "facts": facts}])


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("benchmark", choices=["2wiki", "hotpotqa"])
    parser.add_argument("folder", type=Path, help="of the published files")
    parser.add_argument("project", type=Path, help="a folder that 'graphmill init' has made")
    parser.add_argument(
        "--questions",
        type=int,
        choices=sorted(PASSAGES_OF_QUESTIONS),
        default=1000,
        help="of 2wiki",
    )
    parser.add_argument("--without-titles", action="store_true")
    parser.add_argument(
        "--unanswerable", type=int, default=0, metavar="N", help="questions without an answer"
    )
    options = parser.parse_args()
    benchmark = (
        two_wiki(options.folder, options.questions)
        if options.benchmark == "2wiki"
        else hotpotqa(options.folder)
    )
    if options.unanswerable:
        try:
            benchmark = with_unanswerable(benchmark, options.unanswerable)
        except ValueError as error:
            parser.error(f"--unanswerable: {error}")
    write_benchmark(benchmark, options.project, not options.without_titles)
    print(f"{len(benchmark.passages):,} passages, {len(benchmark.questions):,} questions; next:")
    print(f"  graphmill -C {options.project} run fast")
    print(
        f"  graphmill -C {options.project} eval {options.project / 'questions.jsonl'} --k"
        " 2,5,8,10,20"
    )
    print(
        f"  graphmill -C {options.project} eval {options.project / 'questions.jsonl'} --answers"
        " --plan"
    )


if __name__ == "__main__":
    main()
