"""A fact planted at the start of a text: a server that cuts long prompts silently loses it."""

from collections.abc import Iterator

from pipeline.doctor.needs import Needs
from pipeline.models.base import Message, Tokenizer
from pipeline.models.parse import Graph

NAMES = ("Ottilie Varnhagen", "Brindlemoor Observatory", "Tarnwick")
FACT = "Ottilie Varnhagen founded the Brindlemoor Observatory in Tarnwick."
ENOUGH_NAMES = 2
"""A small model may miss one; a cut prompt loses them all."""


def canary(needs: Needs, tokens: int, tokenizer: Tokenizer) -> Message:
    """The project's own request to extract, about so many tokens long (the fact alone where that is more)."""
    types = {"entity_types": needs.entity_types} if "entity_types" in needs.extract.fields else {}
    bare = needs.extract.render(text=FACT, **types)
    text = f"{FACT}\n\n{filler(tokens - tokenizer.count(bare), tokenizer)}".strip()
    return {"role": "user", "content": needs.extract.render(text=text, **types)}


def found(parsed: Graph) -> bool:
    """Whether the records name what was planted."""
    names = " | ".join(entity.name for entity in parsed.entities).casefold()
    return sum(name.casefold() in names for name in NAMES) >= ENOUGH_NAMES


def filler(tokens: int, tokenizer: Tokenizer) -> str:
    """A log of the weather in which nobody is named, of at most so many tokens."""
    kept: list[str] = []
    for line in _log():
        tokens -= tokenizer.count(line + "\n")
        if tokens < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _log() -> Iterator[str]:
    skies = ("grey", "clear", "hazy", "bright", "overcast")
    winds = ("light", "steady", "fresh", "uneven")
    day = 0
    while True:
        day += 1
        yield (
            f"On day {day} the sky was {skies[day % 5]}, the wind was {winds[day % 4]} and the water stood at "
            f"{40 + day * 7 % 23} centimetres."
        )
