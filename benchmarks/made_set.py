"""What the sets that are made by script share: their files, questions and facts, and how they are
written.

A set is invented prose. Its files are made of facts, so that the answer and the gold documents of
each question are known, and so is each fact that a model could extract.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

QUESTIONS_FILE = "questions.jsonl"
UNANSWERABLE_FILE = "unanswerable.jsonl"
"""Questions that no document answers: `graphmill eval` needs gold, so they are apart."""
FACTS_FILE = "facts.jsonl"
Texts = Mapping[str, Any]


@dataclass(frozen=True)
class Fact:
    """A fact that a file states; ``sentence`` is where it does."""

    subject: str
    relation: str
    object: str
    sentence: str


@dataclass(frozen=True)
class MadeFile:
    """A file of a set; ``source`` is its path below the input folder."""

    source: str
    text: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class MadeSet:
    """Files, and questions as lines of a file of questions.

    ``names`` of a question are the things that it names, ``versions`` the other versions of its
    gold document. Questions without an answer have no ``documents``.
    """

    files: tuple[MadeFile, ...]
    questions: tuple[Mapping[str, Any], ...]


@dataclass
class Writer:
    """Collects the sentences of one file, and the facts that they state."""

    chance: random.Random
    relations: Mapping[str, Sequence[str]]
    """Relation -> sentences that state it of ``{s}`` and ``{o}``."""
    sentences: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def state(
        self, relation: str, subject: str, object: str, written: str = "", shown: str = ""
    ) -> str:
        """Add a sentence that states a fact.

        ``shown`` and ``written`` are what stands for subject and object in the sentence.
        """
        template = self.chance.choice(self.relations[relation])
        sentence = template.format(s=shown or subject, o=written or object)
        self.sentences.append(sentence)
        self.facts.append(Fact(subject, relation, object, sentence))
        return sentence

    def say(self, *sentences: str) -> None:
        self.sentences.extend(sentences)

    def file(self, source: str, text: str) -> MadeFile:
        return MadeFile(source, text, tuple(self.facts))


@dataclass
class Asker:
    """Collects questions and numbers them."""

    questions: list[dict[str, Any]] = field(default_factory=list)

    def ask(
        self,
        type: str,
        question: str,
        answer: str,
        documents: Iterable[str],
        names: Iterable[str] = (),
        versions: Iterable[str] = (),
    ) -> None:
        line: dict[str, Any] = {"id": f"{type}-{len(self.questions) + 1:03}"}
        line |= {"question": question, "answer": answer, "type": type}
        line |= {"documents": list(dict.fromkeys(documents)), "names": list(names)}
        if versions:
            line["versions"] = list(versions)
        self.questions.append(line)


def read_texts(script: str) -> Texts:
    """Return the words of a set, from the YAML file beside its script."""
    return yaml.safe_load(Path(script).with_suffix(".yaml").read_text(encoding="utf-8"))


def front_matter(values: Mapping[str, Any]) -> str:
    """Return the values as front matter of a Markdown file."""
    lines = yaml.safe_dump(dict(values), allow_unicode=True, sort_keys=False, width=1000)
    return f"---\n{lines}---\n"


def prose(chance: random.Random, sentences: Sequence[str], most: int = 3) -> str:
    """Return the sentences in paragraphs of at most ``most``."""
    paragraphs: list[str] = []
    rest = list(sentences)
    while rest:
        size = chance.randint(2, most)
        paragraphs.append(" ".join(rest[:size]))
        rest = rest[size:]
    return "\n\n".join(paragraphs)


def write_set(made: MadeSet, folder: Path) -> None:
    """Write the files, the questions with and without an answer, and the facts of each file."""
    for file in made.files:
        path = folder / "data" / "input" / file.source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8", newline="\n")
    answerable = [line for line in made.questions if line["documents"]]
    unanswerable = [line for line in made.questions if not line["documents"]]
    facts = [
        {"source": file.source, "facts": [vars(fact) for fact in file.facts]} for file in made.files
    ]
    write_lines(folder / QUESTIONS_FILE, answerable)
    write_lines(folder / UNANSWERABLE_FILE, unanswerable)
    write_lines(folder / FACTS_FILE, facts)


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of the lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
