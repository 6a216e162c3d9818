"""Sets of passages and questions with gold passages, as two works on multi-hop questions keep them.

2WikiMultiHopQA as HippoRAG has it: ``corpus.json`` (title, text) and ``questions_gold.json`` (question, gold_titles).
HotpotQA as HippoRAG's first version has it: ``hotpotqa_train_corpus.json`` (title -> sentences) and
``hotpotqa_train.json`` (question, supporting_facts).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Passage:
    """``id`` is its title in the set, whether or not the title is shown."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Question:
    text: str
    gold: tuple[str, ...]


@dataclass(frozen=True)
class Passages:
    name: str
    passages: Sequence[Passage]
    questions: Sequence[Question]

    def head(self, questions: int, passages: int) -> "Passages":
        """The first questions and passages alone: where a corpus is in order of first use, a smaller set of its own."""
        return Passages(f"{self.name}_{questions}", self.passages[:passages], self.questions[:questions])

    def without_titles(self) -> "Passages":
        stripped = [replace(passage, title="") for passage in self.passages]
        return Passages(f"{self.name}, no titles", stripped, self.questions)

    def write(self, path: Path) -> None:
        """A line of JSON each; the title begins the text too."""
        with path.open("w", encoding="utf-8") as file:
            for number, passage in enumerate(self.passages):
                text = f"{passage.title}\n{passage.text}" if passage.title else passage.text
                json.dump({"id": f"p{number:06}", "title": passage.title, "text": text}, file)
                file.write("\n")


def read_passages(folder: Path) -> Passages:
    """Raises FileNotFoundError where the folder holds neither of the two sets."""
    if (folder / "corpus.json").exists():
        corpus = _json(folder / "corpus.json")
        passages = [Passage(entry["title"], entry["title"], entry["text"]) for entry in corpus]
        asked = _json(folder / "questions_gold.json")
        questions = [Question(entry["question"], tuple(entry["gold_titles"])) for entry in asked]
    else:
        corpus = _json(folder / "hotpotqa_train_corpus.json")
        passages = [Passage(title, title, "".join(sentences).strip()) for title, sentences in corpus.items()]
        asked = _json(folder / "hotpotqa_train.json")
        questions = [
            Question(entry["question"], tuple(dict.fromkeys(title for title, _ in entry["supporting_facts"])))
            for entry in asked
        ]
    return Passages(folder.name, passages, questions)


def _json(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))
