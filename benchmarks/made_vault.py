"""A vault of 300 notes that are named by their files, with aliases and links.

Most notes say nothing of their own name: it is the name of the file. Questions name a note by its
title or by an alias of its front matter, and follow its links to a second note.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from benchmarks.made_set import Asker, MadeFile, MadeSet, Writer, front_matter, read_texts

PEOPLE, ORGANISATIONS, PROJECTS, TOWNS, DAYS = 130, 55, 48, 20, 47
HEADED = 0.1
"""The share of notes whose first line is a heading with their name."""
ALIASED = 0.4
PIPED = 0.35
"""The share of links that are shown by another name: [[name|shown]]."""
ASKED = {"title": 60, "alias": 30, "two-hop": 45, "backlink": 15, "day": 10}
KINDS = ("person", "organisation", "project", "town")
FOLDERS = {
    "person": "People", "organisation": "Organisations", "project": "Projects", "town": "Places",
}  # fmt: skip
TEXTS = read_texts(__file__)


@dataclass
class Note:
    """A note before it is written: its links are known to others by ``name``."""

    name: str
    kind: str
    aliases: list[str]
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"{FOLDERS[self.kind]}/{self.name}.md"


def vault(chance: random.Random) -> MadeSet:
    """Return the notes and questions."""
    notes = _notes(chance)
    _relate(chance, notes)
    by_name = {note.name: note for note in notes}
    files = [_written(chance, note, by_name) for note in notes]
    asker = Asker()
    days = _days(chance, by_name, notes)
    files.extend(file for file, _, _ in days)
    _ask_single(chance, notes, asker)
    _ask_two_hops(chance, notes, by_name, asker)
    for file, name, decision in chance.sample(days, ASKED["day"]):
        question = chance.choice(TEXTS["decided"]).format(s=name)
        asker.ask("day", question, decision, [file.source], [name])
    return MadeSet(tuple(files), tuple(asker.questions))


def _notes(chance: random.Random) -> list[Note]:
    families = ["".join(parts) for parts in product(TEXTS["family_heads"], TEXTS["family_tails"])]
    chance.shuffle(families)
    # Half as many families as people, so that names share their parts.
    shared = families[: PEOPLE // 2]
    full_names: dict[str, None] = {}
    while len(full_names) < PEOPLE:
        full_names[f"{chance.choice(TEXTS['first_names'])} {chance.choice(shared)}"] = None
    kinds = TEXTS["organisations"]
    organisations = [" ".join(parts) for parts in product(kinds["heads"], kinds["kinds"])]
    names = {
        "person": list(full_names),
        "organisation": chance.sample(organisations, ORGANISATIONS),
        "project": [f"Project {name}" for name in TEXTS["projects"][:PROJECTS]],
        "town": TEXTS["towns"][:TOWNS],
    }
    notes = [Note(name, kind, []) for kind in KINDS for name in names[kind]]
    nicknames = list(TEXTS["nicknames"])
    chance.shuffle(nicknames)
    short_forms: set[str] = set()
    for note in notes:
        if note.kind == "person" and nicknames and chance.random() < ALIASED:
            note.aliases.append(nicknames.pop())
        if note.kind == "organisation" and chance.random() < ALIASED:
            head, _, kind = note.name.rpartition(" ")
            short = head[:2] + kind[:2]  # Kell Foundry: KeFo
            if short not in short_forms:
                note.aliases.append(short)
                short_forms.add(short)
    return notes


def _relate(chance: random.Random, notes: Sequence[Note]) -> None:
    """Give each note its facts: relation -> the name or value."""
    of_kind = {kind: [note.name for note in notes if note.kind == kind] for kind in KINDS}
    led = list(of_kind["project"])
    chance.shuffle(led)
    for note in notes:
        others = [name for name in of_kind["person"] if name != note.name]
        firms = [name for name in of_kind["organisation"] if name != note.name]
        if note.kind == "person":
            note.facts["works_at"] = chance.choice(firms)
            note.facts["born_in"] = chance.choice(of_kind["town"])
            note.facts["studied"] = chance.choice(TEXTS["subjects"])
            note.facts["learned_from"] = chance.choice(others)
            note.facts["plays"] = chance.choice(TEXTS["instruments"])
            if led and chance.random() < 0.5:
                note.facts["leads"] = led.pop()
        elif note.kind == "organisation":
            note.facts["based_in"] = chance.choice(of_kind["town"])
            note.facts["founded_in"] = str(chance.randint(1840, 2015))
            note.facts["run_by"] = chance.choice(others)
            note.facts["makes_for"] = chance.choice(firms)
        elif note.kind == "project":
            month = chance.choice(("March", "June", "September", "November"))
            note.facts["aims"] = chance.choice(TEXTS["purposes"])
            note.facts["funded_by"] = chance.choice(firms)
            note.facts["due"] = f"{month} {chance.randint(2024, 2027)}"
            note.facts["happens_in"] = chance.choice(of_kind["town"])
    towns = [note for note in notes if note.kind == "town"]
    for note, sight in zip(towns, TEXTS["sights"], strict=True):
        note.facts["known_for"] = sight
        note.facts["mayor"] = chance.choice(of_kind["person"])


def _written(chance: random.Random, note: Note, by_name: Mapping[str, Note]) -> MadeFile:
    writer = Writer(chance, TEXTS[note.kind])
    relations = list(note.facts)
    chance.shuffle(relations)
    for relation in relations:
        value = note.facts[relation]
        linked = by_name.get(value)
        shown = _link(chance, linked) if linked else value
        writer.state(relation, note.name, value, shown)
    writer.say(*chance.sample(TEXTS["asides"], chance.randint(1, 3)))
    heading = f"# {note.name}\n\n" if chance.random() < HEADED else ""
    body = " ".join(writer.sentences)
    if chance.random() < 0.3:
        body = "\n".join(f"- {sentence}" for sentence in writer.sentences)
    text = f"{front_matter(_properties(chance, note))}\n{heading}{body}\n"
    return writer.file(note.source, text)


def _properties(chance: random.Random, note: Note) -> dict[str, object]:
    day = f"{chance.randint(2019, 2025)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    properties: dict[str, object] = {"aliases": note.aliases} if note.aliases else {}
    return properties | {"date": day, "tags": sorted(chance.sample(TEXTS["tags"], 2))}


def _link(chance: random.Random, note: Note) -> str:
    """Return a link to a note, at times shown by an alias or a part of its name."""
    if chance.random() >= PIPED:
        return f"[[{note.name}]]"
    shown = note.aliases[0] if note.aliases else note.name.split()[0]
    return f"[[{note.name}|{shown}]]"


def _days(
    chance: random.Random, by_name: Mapping[str, Note], notes: Sequence[Note]
) -> list[tuple[MadeFile, str, str]]:
    """Return notes of days, each with the name that it decides about, and the decision."""
    days: list[tuple[MadeFile, str, str]] = []
    people = [note for note in notes if note.kind == "person"]
    subjects = [note for note in notes if note.kind in ("project", "organisation")]
    chance.shuffle(subjects)
    for number in range(DAYS):
        person, subject = chance.choice(people), subjects[number]
        decision = chance.choice(TEXTS["decisions"])
        writer = Writer(chance, {"decided": ["In the end it was agreed that {o}."]})
        agreed = writer.state("decided", subject.name, decision)
        sentence = chance.choice(TEXTS["daily"]).format(
            a=_link(chance, person), b=f"[[{subject.name}]]", c=agreed
        )
        aside = " ".join(chance.sample(TEXTS["asides"], 2))
        name = f"2024-{number % 12 + 1:02}-{number // 12 * 6 + chance.randint(1, 6):02}"
        properties = front_matter({"date": name, "tags": ["daily"]})
        text = f"{properties}\n{sentence}\n\n{aside}\n"
        days.append((writer.file(f"Daily/{name}.md", text), subject.name, decision))
    return days


def _ask_single(chance: random.Random, notes: Sequence[Note], asker: Asker) -> None:
    for note in chance.sample(notes, ASKED["title"]):
        relation = chance.choice([name for name in note.facts if name != "leads"])
        question = chance.choice(TEXTS["asked"][relation]).format(s=note.name)
        asker.ask("title", question, note.facts[relation], [note.source], [note.name])
    aliased = [note for note in notes if note.aliases]
    for note in chance.sample(aliased, ASKED["alias"]):
        relation = chance.choice([name for name in note.facts if name != "leads"])
        question = chance.choice(TEXTS["asked"][relation]).format(s=note.aliases[0])
        asker.ask("alias", question, note.facts[relation], [note.source], [note.aliases[0]])
    leaders = [note for note in notes if "leads" in note.facts]
    for note in chance.sample(leaders, ASKED["backlink"]):
        project = note.facts["leads"]
        question = chance.choice(TEXTS["asked"]["leads"]).format(o=project)
        asker.ask("backlink", question, note.name, [note.source], [project])


def _ask_two_hops(
    chance: random.Random, notes: Sequence[Note], by_name: Mapping[str, Note], asker: Asker
) -> None:
    asked: set[str] = set()
    while len(asked) < ASKED["two-hop"]:
        first, second, template = chance.choice(TEXTS["two_hops"])
        note = chance.choice([note for note in notes if first in note.facts])
        question = template.format(s=note.name)
        if question in asked:
            continue
        asked.add(question)
        bridge = by_name[note.facts[first]]
        asker.ask(
            "two-hop", question, bridge.facts[second], [note.source, bridge.source], [note.name]
        )
