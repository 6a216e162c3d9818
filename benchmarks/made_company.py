"""200 documents of a company, and 200 questions by type.

Policies are in three versions: the same sentences with other figures. A plant, a pump and a valve
have the name of one bird; other documents often call the plant by the bird alone. Minutes write
their dates in words or in numbers. Products have tables, incidents name a plant and a product.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from benchmarks.made_set import Asker, MadeFile, MadeSet, Writer, front_matter, prose, read_texts

VERSIONS, MINUTES, INCIDENTS, STAFF = 3, 36, 50, 18
ASKED = {
    "single": 50, "current": 30, "two-hop": 30, "compare": 25, "count": 15, "date": 25,
    "unanswerable": 25,
}  # fmt: skip
TEXTS = read_texts(__file__)


@dataclass(frozen=True)
class Version:
    """A version of a policy; ``figures`` are the answers to its questions."""

    source: str
    policy: Mapping[str, Any]
    day: date
    figures: tuple[int, int]


@dataclass(frozen=True)
class Thing:
    """A plant, a product or a supplier: its name, its file and its facts."""

    name: str
    source: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Meeting:
    source: str
    board: str
    day: date
    topic: str
    resolved: str


@dataclass(frozen=True)
class Incident:
    source: str
    plant: str
    product: str
    day: date
    cause: str


def company(chance: random.Random) -> MadeSet:
    """Return the documents and questions."""
    files: list[MadeFile] = []
    versions = [_versions(chance, policy, files) for policy in TEXTS["policies"]]
    suppliers = _suppliers(chance, files)
    plants = _plants(chance, files)
    products = _products(chance, plants, suppliers, files)
    meetings = _minutes(chance, files)
    incidents = _incidents(chance, plants, products, files)
    _staff(chance, files)
    asker = Asker()
    _ask_single(chance, [*plants, *products, *suppliers], asker)
    _ask_versions(chance, versions, asker)
    _ask_two_hops(chance, plants, products, suppliers, asker)
    _ask_compared(chance, plants, products, asker)
    _ask_counts(chance, products, plants, incidents, asker)
    _ask_dates(chance, meetings, incidents, asker)
    _ask_unanswerable(chance, asker)
    return MadeSet(tuple(files), tuple(asker.questions))


def _versions(
    chance: random.Random, policy: Mapping[str, Any], files: list[MadeFile]
) -> list[Version]:
    """Write the versions of a policy and return them, the oldest first."""
    versions: list[Version] = []
    day = date(2018, 1, 1) + timedelta(days=chance.randint(0, 500))
    first = chance.sample(range(policy["range"][0], policy["range"][1] + 1), VERSIONS)
    second = chance.sample(range(policy["range2"][0], policy["range2"][1] + 1), VERSIONS)
    for number in range(VERSIONS):
        source = f"policies/{policy['slug']}-v{number + 1}.md"
        figures = (first[number], second[number])
        is_last = number == VERSIONS - 1
        properties = {
            "title": policy["name"],
            "version": number + 1,
            "date": day.isoformat(),
            "status": "in-force" if is_last else "superseded",
        }
        text = policy["text"].format(a=figures[0], b=figures[1])
        writer = Writer(chance, {"has version": ["{s} has version {o}."]})
        writer.state("has version", policy["name"], str(number + 1))
        files.append(writer.file(source, f"{front_matter(properties)}\n{text}\n"))
        versions.append(Version(source, policy, day, figures))
        day += timedelta(days=chance.randint(300, 900))
    return versions


def _described(
    writer: Writer, facts: Mapping[str, str], name: str, kind: str, chance: random.Random
) -> str:
    """Return prose that states the facts; only its beginning names the thing."""
    for relation in chance.sample(list(facts), len(facts)):
        value = facts[relation]
        writer.state(relation, name, value, _plant_in_speech(chance, value))
    return f"{name} is {kind}. " + prose(chance, writer.sentences)


def _plant_in_speech(chance: random.Random, name: str) -> str:
    """Return the name, half of the time without the word that says it is a plant."""
    return name.removeprefix("Plant ") if chance.random() < 0.5 else name


def _suppliers(chance: random.Random, files: list[MadeFile]) -> list[Thing]:
    suppliers: list[Thing] = []
    for name, goods in zip(TEXTS["suppliers"], TEXTS["supplied"], strict=True):
        facts = {
            "supplies": goods,
            "seat": chance.choice(TEXTS["towns"]),
            "contact": chance.choice(TEXTS["people"]),
            "lead_time": str(chance.randint(5, 60)),
        }
        writer = Writer(chance, TEXTS["supplier"])
        source = f"suppliers/{name.lower().replace(' & ', '-').replace(' ', '-')}.md"
        text = _described(writer, facts, name, "one of our suppliers", chance)
        files.append(writer.file(source, f"# {name}\n\n{text}\n"))
        suppliers.append(Thing(name, source, facts))
    return suppliers


def _plants(chance: random.Random, files: list[MadeFile]) -> list[Thing]:
    plants: list[Thing] = []
    towns = chance.sample(TEXTS["towns"], len(TEXTS["birds"]))
    headcounts = chance.sample(range(80, 900), len(TEXTS["birds"]))
    for bird, town, headcount in zip(TEXTS["birds"], towns, headcounts, strict=True):
        name = f"Plant {bird}"
        facts = {
            "employees": str(headcount),
            "manager": chance.choice(TEXTS["people"]),
            "located_in": town,
            "opened": str(chance.randint(1955, 2015)),
            "capacity": f"{chance.randint(20, 400)},000",
        }
        writer = Writer(chance, TEXTS["site"])
        source = f"sites/{bird.lower()}.md"
        text = _described(writer, facts, name, "a site of the company", chance)
        files.append(writer.file(source, f"# {name}\n\n{text}\n"))
        plants.append(Thing(name, source, facts))
    return plants


def _products(
    chance: random.Random,
    plants: Sequence[Thing],
    suppliers: Sequence[Thing],
    files: list[MadeFile],
) -> list[Thing]:
    """Write a pump and a valve of each bird, which are made at plants of other names."""
    products: list[Thing] = []
    for kind in TEXTS["kinds"]:
        for bird in TEXTS["birds"]:
            name = f"{kind} {bird}"
            elsewhere = [plant for plant in plants if not plant.name.endswith(bird)]
            facts = {
                "made_at": chance.choice(elsewhere).name,
                "flow": str(chance.randint(20, 900)),
                "part_from": chance.choice(suppliers).name,
                "responsible": chance.choice(TEXTS["people"]),
                "price": f"{chance.randint(4, 98)}{chance.randint(0, 9)}0",
            }
            writer = Writer(chance, TEXTS["product"])
            text = _described(writer, facts, name, "one of our products", chance)
            rows = [
                f"| {bird} {size} | {chance.randint(4, 40)} | {chance.randint(10, 90)} |"
                for size in (10, 20, 40)
            ]
            lines = ["| type | bar | kg |", "|---|---|---|", *rows]
            table = "\n".join(lines)
            source = f"products/{kind.lower()}-{bird.lower()}.md"
            files.append(writer.file(source, f"# {name}\n\n{text}\n\n## Types\n\n{table}\n"))
            products.append(Thing(name, source, facts))
    return products


def _minutes(chance: random.Random, files: list[MadeFile]) -> list[Meeting]:
    meetings: list[Meeting] = []
    for number in range(MINUTES):
        board = TEXTS["boards"][number % len(TEXTS["boards"])]
        month = number % 12 + 1
        day = date(2022 + number // 12, month, chance.randint(2, 27))
        topics = chance.sample(TEXTS["topics"], 3)
        resolutions = [chance.choice(TEXTS["resolved"]) for _ in topics]
        writer = Writer(chance, {"resolved": ["On {s}, {o}.", "Concerning {s}: {o}."]})
        for topic, resolution in zip(topics, resolutions, strict=True):
            writer.state("resolved", topic, resolution)
        # Half of the minutes have the month in words, the others in numbers.
        written = day.isoformat()
        if chance.random() < 0.5:
            written = f"{day.day} {TEXTS['months'][month - 1]} {day.year}"
        writer.say(*chance.sample(TEXTS["chatter"], 2))
        text = prose(chance, writer.sentences)
        source = f"minutes/{board.replace(' ', '-')}-{number + 1:02}.md"
        heading = f"# Minutes of the {board}, {written}"
        files.append(writer.file(source, f"{heading}\n\n{text}\n"))
        meetings.append(Meeting(source, board, day, topics[0], resolutions[0]))
    return meetings


def _incidents(
    chance: random.Random,
    plants: Sequence[Thing],
    products: Sequence[Thing],
    files: list[MadeFile],
) -> list[Incident]:
    incidents: list[Incident] = []
    for number in range(INCIDENTS):
        # A plant has several incidents, so that there is something to count.
        plant, product = plants[number % len(plants)], chance.choice(products)
        day = date(2022, 1, 1) + timedelta(days=chance.randint(0, 1090))
        cause = chance.choice(TEXTS["causes"])
        hours = chance.randint(1, 40)
        told = f"On {day.day} {TEXTS['months'][day.month - 1]} {day.year}"
        if chance.random() < 0.5:
            told = f"On {day.isoformat()}"
        writer = Writer(
            chance,
            {
                "stopped at": [told + " {s} stopped at {o}.", told + " a {s} failed at {o}."],
                "caused by": ["The reason was {o}.", "It turned out to be {o}."],
                "lasted": ["The line stood still for {o} hours.", "It cost {o} hours."],
            },
        )
        writer.state("stopped at", product.name, plant.name, _plant_in_speech(chance, plant.name))
        writer.say(chance.choice(TEXTS["opening"]))
        writer.state("caused by", product.name, cause)
        writer.say(f"Afterwards {chance.choice(TEXTS['remedies'])}.")
        writer.state("lasted", product.name, str(hours))
        source = f"incidents/INC-{2200 + number}.md"
        text = prose(chance, writer.sentences)
        files.append(writer.file(source, f"# Incident report INC-{2200 + number}\n\n{text}\n"))
        incidents.append(Incident(source, plant.name, product.name, day, cause))
    return incidents


def _staff(chance: random.Random, files: list[MadeFile]) -> None:
    """Write profiles of people, whom other documents name too."""
    for name in TEXTS["people"][:STAFF]:
        town = chance.choice(TEXTS["towns"])
        writer = Writer(
            chance,
            {
                "lives in": ["{s} lives in {o} with two dogs.", "{s} commutes from {o}."],
                "joined": ["{s} joined the company in {o}.", "{s} has been with us since {o}."],
            },
        )
        writer.state("joined", name, str(chance.randint(1994, 2021)))
        writer.state("lives in", name, town)
        writer.say(f"{name.split()[0]} is a member of the {chance.choice(TEXTS['boards'])}.")
        source = f"staff/{name.lower().replace(' ', '-')}.md"
        files.append(writer.file(source, f"# {name}\n\n{prose(chance, writer.sentences)}\n"))


_SINGLE = {
    "employees": "How many people work at {s}?",
    "manager": "Who manages {s}?",
    "located_in": "In which town is {s}?",
    "opened": "In which year did {s} open?",
    "capacity": "How many units can {s} build in a year?",
    "made_at": "Where is {s} produced?",
    "flow": "How many litres a minute does {s} move?",
    "part_from": "Which supplier delivers parts for {s}?",
    "responsible": "Who is responsible for {s}?",
    "price": "How much does {s} cost?",
    "supplies": "What do we buy from {s}?",
    "seat": "In which town does {s} sit?",
    "contact": "Who is our contact at {s}?",
    "lead_time": "How many days does a delivery of {s} take?",
}


def _ask_single(chance: random.Random, things: Sequence[Thing], asker: Asker) -> None:
    pairs = [(thing, relation) for thing in things for relation in thing.facts]
    for thing, relation in chance.sample(pairs, ASKED["single"]):
        question = _SINGLE[relation].format(s=thing.name)
        asker.ask("single", question, thing.facts[relation], [thing.source], [thing.name])


def _ask_versions(
    chance: random.Random, policies: Sequence[Sequence[Version]], asker: Asker
) -> None:
    """Ask for figures of the version that is in force."""
    pairs = [(versions, number) for versions in policies for number in (0, 1)]
    for versions, number in chance.sample(pairs, ASKED["current"]):
        last = versions[-1]
        word = chance.choice(TEXTS["current"])
        question = last.policy["asked"][number].format(w=word)
        older = [version.source for version in versions[:-1]]
        answer = str(last.figures[number])
        asker.ask("current", question, answer, [last.source], [last.policy["name"]], older)


def _ask_two_hops(
    chance: random.Random,
    plants: Sequence[Thing],
    products: Sequence[Thing],
    suppliers: Sequence[Thing],
    asker: Asker,
) -> None:
    by_name = {thing.name: thing for thing in (*plants, *suppliers)}
    forms = [
        ("made_at", "manager", "Who manages the plant where {s} is made?"),
        ("made_at", "located_in", "In which town is {s} made?"),
        ("made_at", "employees", "How many people work at the plant that builds {s}?"),
        ("part_from", "seat", "In which town is the supplier of {s}?"),
        ("part_from", "lead_time", "How long is the lead time of the supplier of {s}?"),
    ]
    pairs = [(product, form) for product in products for form in forms]
    for product, (first, second, template) in chance.sample(pairs, ASKED["two-hop"]):
        bridge = by_name[product.facts[first]]
        question = template.format(s=product.name)
        gold = [product.source, bridge.source]
        asker.ask("two-hop", question, bridge.facts[second], gold, [product.name])


def _ask_compared(
    chance: random.Random, plants: Sequence[Thing], products: Sequence[Thing], asker: Asker
) -> None:
    forms = [
        (plants, "employees", "Which plant has more employees, {a} or {b}?"),
        (plants, "opened", "Which opened earlier, Plant {a} or Plant {b}?"),
        (products, "price", "Which costs more, {a} or {b}?"),
        (products, "flow", "Which moves more litres a minute, {a} or {b}?"),
    ]
    asked: set[str] = set()
    while len(asked) < ASKED["compare"]:
        things, relation, template = chance.choice(forms)
        one, other = chance.sample(list(things), 2)
        # Plants are called by their bird alone: the question says that they are plants.
        names = [thing.name.removeprefix("Plant ") for thing in (one, other)]
        question = template.format(a=names[0], b=names[1])
        if question in asked:
            continue
        asked.add(question)
        values = [int(thing.facts[relation].replace(",", "")) for thing in (one, other)]
        wins_by_less = relation == "opened"
        is_first = values[0] < values[1] if wins_by_less else values[0] > values[1]
        answer = names[0] if is_first else names[1]
        asker.ask("compare", question, answer, [one.source, other.source], names)


def _ask_counts(
    chance: random.Random,
    products: Sequence[Thing],
    plants: Sequence[Thing],
    incidents: Sequence[Incident],
    asker: Asker,
) -> None:
    counted: list[tuple[str, str, list[str]]] = []
    for product in products:
        sources = [incident.source for incident in incidents if incident.product == product.name]
        counted.append((product.name, "How many incident reports concern {s}?", sources))
    for plant in plants:
        sources = [incident.source for incident in incidents if incident.plant == plant.name]
        counted.append((plant.name, "How many incidents happened at {s}?", sources))
    several = [entry for entry in counted if 2 <= len(entry[2]) <= 5]
    for name, template, sources in chance.sample(several, ASKED["count"]):
        asker.ask("count", template.format(s=name), str(len(sources)), sources, [name])


def _ask_dates(
    chance: random.Random,
    meetings: Sequence[Meeting],
    incidents: Sequence[Incident],
    asker: Asker,
) -> None:
    """Ask by month; the question writes it in words or in numbers, whatever the document does."""
    n_minutes = ASKED["date"] - 10
    for meeting in chance.sample(meetings, n_minutes):
        month = _month(chance, meeting.day)
        question = f"What did the {meeting.board} resolve on {meeting.topic} in {month}?"
        asker.ask("date", question, meeting.resolved, [meeting.source], [meeting.board])
    months_of: dict[tuple[str, int, int], list[Incident]] = {}
    for incident in incidents:
        key = (incident.plant, incident.day.year, incident.day.month)
        months_of.setdefault(key, []).append(incident)
    alone = [found[0] for found in months_of.values() if len(found) == 1]
    for incident in chance.sample(alone, ASKED["date"] - n_minutes):
        month = _month(chance, incident.day)
        question = f"What was the cause of the incident at {incident.plant} in {month}?"
        asker.ask("date", question, incident.cause, [incident.source], [incident.plant])


def _month(chance: random.Random, day: date) -> str:
    if chance.random() < 0.5:
        return f"{TEXTS['months'][day.month - 1]} {day.year}"
    return f"{day.year}-{day.month:02}"


def _ask_unanswerable(chance: random.Random, asker: Asker) -> None:
    made = [
        template.format(bird=bird) for template in TEXTS["unanswerable"] for bird in TEXTS["birds"]
    ]
    nobody = TEXTS["nobody"]
    for question in [*nobody, *chance.sample(made, ASKED["unanswerable"] - len(nobody))]:
        asker.ask("unanswerable", question, "", [])
