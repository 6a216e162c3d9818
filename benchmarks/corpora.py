"""Corpora that are no encyclopedia, with 100 questions each, as a project's documents and
questions.

    python benchmarks/corpora.py chats PROJECT

`chats`: days of a company's channels, several matters a day. `manuals`: sections about machines,
the same sections for each machine. `tickets`: what customers asked and what helped. All is made up
here, by templates and a seed; a question says in other words what stands in one document, and
others are about the same things, people and places. PROJECT/data/input/passages.jsonl and
PROJECT/questions.jsonl are written.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml

from benchmarks.questions import Benchmark, write_benchmark

QUESTIONS, DAYS, TICKETS = 100, 150, 150
Made = Iterator[tuple[str, str, str]]
"""Title and text of a document, and a question about it."""
TEXTS: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
PEOPLE, TALK = TEXTS["people"], TEXTS["small_talk"]


def chats(chance: random.Random) -> Made:
    """Yield the chats of each day: one matter that is settled, and two that are only mentioned."""
    texts = TEXTS["chats"]
    matters = list(product(texts["things"], TEXTS["places"]))
    chance.shuffle(matters)
    for day in range(DAYS):
        lines, questions = _settled(chance, *matters[day])
        others = [_mentioned(chance, *chance.choice(matters)) for _ in range(2)]
        talk = [
            f"{_first_name(chance)}: {chance.choice(TALK)}" for _ in range(chance.randint(4, 8))
        ]
        for more in (*others, talk):
            for place, line in zip(
                sorted(chance.choices(range(len(lines) + 1), k=len(more))), more, strict=True
            ):
                lines.insert(place, line)
        clock = sorted(chance.sample(range(8 * 60, 18 * 60), len(lines)))
        stamped = [
            f"{at // 60:02}:{at % 60:02} {line}" for at, line in zip(clock, lines, strict=True)
        ]
        yield f"day {day}", "\n".join(stamped), chance.choice(questions)


def _settled(
    chance: random.Random, thing: Mapping[str, str], place: str
) -> tuple[list[str], list[str]]:
    """Return the lines about a matter that is settled, and questions about it."""
    texts, name, other = TEXTS["chats"], thing["name"], thing["asked"]
    fault = chance.choice(texts["faults"])
    teller, helper = (person.split()[0] for person in chance.sample(PEOPLE, 2))
    cause, remedy = chance.choice(texts["causes"]), chance.choice(texts["remedies"])
    lines = [
        f"{teller}: the {name} in {place} {fault['name']}",
        f"{helper}: since when?",
        (
            f"{teller}:"
            f" {chance.choice(('this morning', 'yesterday evening', 'the last power cut'))}, can"
            " you have a look"
        ),
        f"{helper}: found it, it was {cause}",
        f"{helper}: I {remedy}, should be fine now",
    ]
    return lines, [
        f"Why did the {other} in {place} {fault['asked']}?",
        f"Who repaired the {name} in {place} for {teller}?",
        f"What did {helper} do about the {other} in {place}?",
        f"What was the reason for the trouble with the {name} that {teller} reported from {place}?",
    ]


def _mentioned(chance: random.Random, thing: Mapping[str, str], place: str) -> list[str]:
    said = (
        f"any news about the {thing['name']} in {place}?",
        f"still no answer on the {thing['name']} in {place}",
    )
    return [
        f"{_first_name(chance)}: {chance.choice(said)}",
        f"{_first_name(chance)}: {chance.choice(TALK)}",
    ]


def _first_name(chance: random.Random) -> str:
    return chance.choice(PEOPLE).split()[0]


def manuals(chance: random.Random) -> Made:
    """Yield a document for each section of the manual of each machine.

    All machines have the same sections.
    """
    texts = TEXTS["manuals"]
    for machine, (section, has) in product(texts["machines"], texts["sections"].items()):
        part, part2 = chance.sample(texts["parts"], 2)
        n, n2, t = chance.randint(10, 59), chance.randint(2, 9), chance.randint(60, 99)
        values = {"m": machine, "part": part, "part2": part2, "n": n, "n2": n2, "t": t}
        text = (
            f"{has['text'].format(**values)} These instructions hold for all series of the"
            f" {machine}."
        )
        yield f"{machine}: {section}", text, chance.choice(has["questions"]).format(**values)


def tickets(chance: random.Random) -> Made:
    """Yield a document for each ticket: the report, what was tried, and what helped."""
    texts = TEXTS["tickets"]
    chosen = chance.sample(list(product(texts["firms"], texts["troubles"])), TICKETS)
    for number, (firm, trouble) in enumerate(chosen):
        retold, agent = trouble["asked"], chance.choice(PEOPLE)
        helped, tried = chance.sample(trouble["remedies"], 2)
        version = f"{chance.randint(3, 6)}.{chance.randint(0, 9)}"
        text = (
            f"Customer: {firm}. Environment: {chance.choice(texts['systems'])}, version {version}."
            f" {trouble['story']} {chance.choice(TALK).capitalize()}. {agent} first {tried}, which"
            f" changed nothing. Then {agent.split()[0]} {helped}, and {firm} confirmed that all"
            " works again."
        )
        questions = (
            f"What helped {firm} when it {retold}?",
            f"Which agent solved the case in which {firm} {retold}?",
            f"On which system was it that {firm} {retold}?",
            f"What was tried without success when {firm} {retold} with version {version}?",
        )
        yield f"TCK-{4100 + number} {trouble['title']}", text, chance.choice(questions)


CORPORA: Mapping[str, Callable[[random.Random], Made]] = {
    "chats": chats,
    "manuals": manuals,
    "tickets": tickets,
}


def corpus(name: str, seed: int = 16) -> Benchmark:
    chance = random.Random(f"{name}/{seed}")
    made = list(CORPORA[name](chance))
    asked = [
        {
            "id": str(place),
            "question": made[place][2],
            "type": name,
            "titles": [made[place][0]],
        }
        for place in sorted(chance.sample(range(len(made)), QUESTIONS))
    ]
    return Benchmark([(title, text) for title, text, _ in made], asked)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=CORPORA)
    parser.add_argument("project", type=Path, help="an empty project (graphmill init)")
    options = parser.parse_args()
    made = corpus(options.name)
    write_benchmark(made, options.project, with_titles=options.name != "chats")
    print(f"{len(made.passages):,} passages, {len(made.questions):,} questions")


if __name__ == "__main__":
    main()
