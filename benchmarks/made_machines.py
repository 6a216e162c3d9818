"""120 documents about machines in German or in Chinese, with questions in both languages.

Each of 40 machines has a data sheet, a report of a fault and a plan of maintenance. In documents
the machine is one word ("Kühlwasserpumpe"), in questions several ("Pumpe für Kühlwasser"). The same
questions are asked in the language of the documents and in the other one: there, names of people,
places and firms stay as the documents write them.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.made_set import Asker, MadeFile, MadeSet, Texts, Writer, read_texts

ASKED = {"single": 35, "fault": 15, "two-hop": 10}
"""Questions of each type, in each language."""
TEXTS = read_texts(__file__)
SHEET = ("stands_in", "made_by", "pressure", "weight")
FAULT = ("repaired_by", "caused_by")
PLAN = ("maintained_by", "interval", "part")


@dataclass(frozen=True)
class Machine:
    """A machine by the places of its medium and its device in the lists of either language."""

    medium: int
    device: int
    number: int
    facts: Mapping[str, str]
    when: tuple[int, int, int]
    """Year, month and day of its fault."""

    def joined(self, texts: Texts) -> str:
        """Return its name as documents write it."""
        medium, device = texts["media"][self.medium], texts["devices"][self.device]
        return texts["joined"].format(medium=medium, device=device)

    def split(self, texts: Texts) -> str:
        """Return its name as questions write it."""
        medium, device = texts["media"][self.medium], texts["apart"][self.device]
        return texts["split"].format(medium=medium, device=device)

    def month(self, texts: Texts) -> str:
        year, month, _ = self.when
        return texts["month"].format(year=year, month=texts["months"][month - 1])

    def source(self, kind: str) -> str:
        return f"{kind}/{self.number}.md"


def german(chance: random.Random) -> MadeSet:
    return _machines(chance, "german", "chinese")


def chinese(chance: random.Random) -> MadeSet:
    return _machines(chance, "chinese", "german")


def _machines(chance: random.Random, language: str, other: str) -> MadeSet:
    texts = TEXTS[language]
    pairs = list(product(range(len(texts["media"])), range(len(texts["devices"]))))
    machines = [
        Machine(medium, device, 310 + place, _facts(chance, texts), _when(chance))
        for place, (medium, device) in enumerate(pairs)
    ]
    files: list[MadeFile] = []
    for machine in machines:
        files.append(_file(chance, texts, machine, "sheet", SHEET))
        files.append(_file(chance, texts, machine, "fault", FAULT))
        files.append(_file(chance, texts, machine, "plan", PLAN))
    asked = _chosen(chance, machines)
    asker = Asker()
    for name in (language, other):
        for type, machine, relation in asked:
            _ask(asker, f"{name} {type}", machine, relation, TEXTS[name], texts)
    return MadeSet(tuple(files), tuple(asker.questions))


def _facts(chance: random.Random, texts: Texts) -> dict[str, str]:
    return {
        "stands_in": chance.choice(texts["places"]),
        "made_by": chance.choice(texts["makers"]),
        "pressure": str(chance.randint(4, 90)),
        "weight": str(chance.randint(12, 940)),
        "repaired_by": chance.choice(texts["people"]),
        "caused_by": chance.choice(texts["causes"]),
        "maintained_by": chance.choice(texts["people"]),
        "interval": str(chance.randint(2, 52)),
        "part": chance.choice(texts["parts"]),
    }


def _when(chance: random.Random) -> tuple[int, int, int]:
    return (chance.randint(2021, 2024), chance.randint(1, 12), chance.randint(1, 28))


def _file(
    chance: random.Random, texts: Texts, machine: Machine, kind: str, relations: tuple[str, ...]
) -> MadeFile:
    joined = machine.joined(texts)
    year, month, day = machine.when
    values: dict[str, Any] = {
        "joined": joined,
        "Joined": joined,
        "number": machine.number,
        "fault": chance.choice(texts["faults"]),
        "day": texts["day"].format(year=year, month=texts["months"][month - 1], day=day),
    }
    writer = Writer(chance, texts["relations"])
    writer.say(chance.choice(texts[kind]).format(**values))
    for relation in chance.sample(relations, len(relations)):
        writer.state(relation, joined, machine.facts[relation])
    writer.say(*chance.sample(texts["asides"], 2))
    heading = texts[f"{kind}_title"].format(**values)
    body = texts["gap"].join(writer.sentences)
    return writer.file(machine.source(kind), f"# {heading}\n\n{body}\n")


def _chosen(chance: random.Random, machines: list[Machine]) -> list[tuple[str, Machine, str]]:
    """Return which questions are asked: type, machine and relation."""
    single = list(product(machines, (*SHEET, *PLAN)))
    faults = list(product(machines, FAULT))
    hops = list(product(machines, ("two_hop", "two_hop_fault")))
    return [
        *(("single", *pair) for pair in chance.sample(single, ASKED["single"])),
        *(("fault", *pair) for pair in chance.sample(faults, ASKED["fault"])),
        *(("two-hop", *pair) for pair in chance.sample(hops, ASKED["two-hop"])),
    ]


def _ask(
    asker: Asker, type: str, machine: Machine, relation: str, texts: Texts, documents: Texts
) -> None:
    """Ask in the language of ``texts`` about a machine of the corpus of ``documents``."""
    facts = machine.facts
    question = texts["asked"][relation].format(
        split=machine.split(texts),
        article=texts["articles"][machine.device],
        object=texts["objects"][machine.device],
        month=machine.month(texts),
        maker=facts["made_by"],
        place=facts["stands_in"],
        person=facts["repaired_by"],
    )
    if relation == "two_hop":
        gold, answer = ["sheet", "plan"], facts["maintained_by"]
    elif relation == "two_hop_fault":
        gold, answer = ["fault", "sheet"], facts["stands_in"]
    else:
        kinds = {"sheet": SHEET, "fault": FAULT, "plan": PLAN}
        gold = [kind for kind, relations in kinds.items() if relation in relations]
        answer = facts[relation]
    sources = [machine.source(kind) for kind in gold]
    asker.ask(type, question, answer, sources, [machine.joined(documents)])
