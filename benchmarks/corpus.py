"""Synthetic documents: plain prose of invented names that recur; the same documents on any machine.

By hand: ``python benchmarks/corpus.py FOLDER --units 1900``.
"""

import argparse
import random
from itertools import product
from pathlib import Path

SIZES = (300, 1_000, 1_900, 30_000)
FILES_A_FOLDER = 1_000
WORDS_A_PASSAGE = 65
END_OF_A_SENTENCE = ". "
HUBS = 40
"""Names that any document may use. All others recur only in the documents next to each other, so
that a corpus ten times as large has ten times as many names."""

_HEADS = "Bar Cal Dor El Fen Gar Hal Is Jor Kel Lor Mar Nor Or Pel Quin Ros Sel Tor Ul Ver Wen Yor Zan".split()  # noqa: E501
_TAILS = "an beth dric ena fold gard holm ick ja kett low mere nik olt quay rick sten tova und wick".split()  # noqa: E501
_WORDS = ["".join(parts) for parts in product(_HEADS, _TAILS)]
_KINDS = "Bridge Harbour Institute Observatory Railway Works Mill Society Valley Library Quay Foundry".split()  # noqa: E501
_ROLES = (
    "engineer surveyor botanist printer judge glassmaker captain teacher physician mason".split()
)
_DEEDS = "founded rebuilt surveyed inspected described endowed restored governed designed visited".split()  # noqa: E501
_THINGS = (
    "tidal records, stone piers, copper plates, winter timetables, water levels, printed maps, seed"
    " collections, iron girders, public lectures, signal lamps, flood defences, harbour dues"
).split(", ")
_SENTENCES = (
    (
        "{person}, a {role} from the {place}, {deed} the {other_place} in {year} and kept careful"
        " notes on its {thing}."
    ),
    (
        "In {year} {person} met {other} at the {place}, where both had studied {thing} for several"
        " years."
    ),
    (
        "The {thing} at the {place} were described by {other} in a short report that few people"
        " read at the time."
    ),
    (
        "After the storm of {year} the council asked {person} to inspect the {place} and to replace"
        " the old {thing}."
    ),
    (
        "{other} wrote that {person} never trusted the {thing} and measured everything again before"
        " the work began."
    ),
    (
        "The {place} and the {other_place} shared their {thing} until {year}, when {person}"
        " proposed a better arrangement."
    ),
)


def write_corpus(folder: Path, units: int, passages: int = 1) -> int:
    """Write ``units`` passages, ``passages`` a document, as text files below ``folder``; returns
    the documents."""
    documents = -(-units // passages)
    for number in range(documents):
        path = document_path(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            document(number, min(passages, units - number * passages)), encoding="utf-8"
        )
    return documents


def edit_corpus(folder: Path, documents: int, share: float, seed: int = 1) -> int:
    """Put another sentence in the place of a random one, in this share of the documents, drawn at
    random; returns how many were edited."""
    choice = random.Random(seed)
    edited = sorted(choice.sample(range(documents), round(documents * share)))
    for number in edited:
        path = document_path(folder, number)
        title, *passages = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
        place = choice.randrange(len(passages))
        sentences = passages[place].split(END_OF_A_SENTENCE)
        sentences[choice.randrange(len(sentences))] = _sentence(choice, number).removesuffix(".")
        passages[place] = END_OF_A_SENTENCE.join(sentences).removesuffix(".") + "."
        path.write_text("\n\n".join([title, *passages]) + "\n", encoding="utf-8")
    return len(edited)


def document_path(folder: Path, number: int) -> Path:
    return folder / f"{number // FILES_A_FOLDER:03}" / f"{number:06}.txt"


def document(number: int, passages: int = 1) -> str:
    """Return a document: a title, and passages of about 100 tokens."""
    choice = random.Random(number)
    title = f"The {_place(HUBS + number // 5)}, report {number + 1}"
    return "\n\n".join([title, *(_passage(choice, number) for _ in range(passages))]) + "\n"


def _passage(choice: random.Random, number: int) -> str:
    sentences: list[str] = []
    while sum(len(sentence.split()) for sentence in sentences) < WORDS_A_PASSAGE:
        sentences.append(_sentence(choice, number))
    return " ".join(sentences)


def _sentence(choice: random.Random, number: int) -> str:
    hub, near = choice.randrange(HUBS), HUBS + number // 10 * 8
    person, other = choice.sample([hub, *range(near, near + 5)], 2)
    place, other_place = choice.sample([hub, *range(near, near + 3)], 2)
    return choice.choice(_SENTENCES).format(
        person=_person(person), other=_person(other), place=_place(place),
        other_place=_place(other_place),
        role=choice.choice(_ROLES), deed=choice.choice(_DEEDS), thing=choice.choice(_THINGS),
        year=choice.randrange(1780, 1930),
    )  # fmt: skip


def _person(number: int) -> str:
    words = len(_WORDS)
    return f"{_WORDS[number % words]} {_WORDS[(number * 7 + number // words + 1) % words]}"


def _place(number: int) -> str:
    words = len(_WORDS)
    return f"{_WORDS[number * 11 % words]} {_KINDS[(number + number // words) % len(_KINDS)]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--units", type=int, default=1_900)
    parser.add_argument("--passages", type=int, default=1, help="passages a document")
    options = parser.parse_args()
    print(f"{write_corpus(options.folder, options.units, options.passages)} documents")


if __name__ == "__main__":
    main()
