"""extract_claims: what each text unit claims of somebody or something, as a chat model reads it."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import COVARIATES, REJECTS, TEXT_UNITS
from pipeline.models.base import ChatModel, Message
from pipeline.models.parse.graph import Claim, ParsedReply, parse_claims
from pipeline.text.ids import claim_id, entity_id
from pipeline.verbs.read_text import Questions, by_text, read_text, rejects


class ClaimParams(Params):
    """``claim_description``: which claims are wanted. ``entity_types``: of their subjects.
    ``gleanings``: how often the model is asked for what it missed. ``repair``: whether an
    unreadable reply is asked for once more."""

    claim_description: str = (
        "claims and facts that bear on how somebody or something is to be judged"
    )
    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    repair: bool = True


@verb(
    inputs={"text_units": TEXT_UNITS},
    outputs={"covariates": COVARIATES, "rejects": REJECTS},
    rowwise="text_units",
    row_of={"covariates": "text_unit_id", "rejects": "row_id"},
    placeholders={
        "extract": Placeholders(("text",), ("entity_types", "claim_description")),
        "glean": Placeholders(),
    },
)
def extract_claims(
    text_units: pd.DataFrame, params: ClaimParams, extract: Prompt, glean: Prompt, chat: ChatModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Claims per text unit, those of gleanings too: subject, object (may be empty), type, status
    (TRUE, FALSE, SUSPECTED), dates (ISO 8601, empty where unknown), description, and the words of
    the text.

    Subjects and objects are linked to entities by name. Equal texts are asked once. Replies are
    mended and rejected as those of extract_graph are.
    """
    units = by_text(text_units)
    questions = _questions(params, extract, glean)
    readings = chat.converse(read_text(ids[0], text, questions) for text, ids in units.items())
    found = [
        (id, reading) for ids, reading in zip(units.values(), readings, strict=True) for id in ids
    ]
    claims = _claims((id, reading.records) for id, reading in found)
    return COVARIATES.frame(claims), REJECTS.frame(
        rejects((id, reading.marks) for id, reading in found)
    )


def _questions(params: ClaimParams, extract: Prompt, glean: Prompt) -> Questions[Claim]:
    def opening(text: str) -> tuple[Message, ...]:
        prompt = extract.render(
            text=text,
            entity_types=", ".join(params.entity_types),
            claim_description=params.claim_description,
        )
        return ({"role": "user", "content": prompt},)

    return Questions(opening, _parse, glean.render(), params.gleanings, params.repair)


@lru_cache(maxsize=256)  # each reply is read twice: as it is judged and as it is used
def _parse(reply: str) -> ParsedReply[Claim]:
    return parse_claims(reply)


def _claims(found: Iterable[tuple[str, Iterable[Claim]]]) -> Iterator[dict[str, str]]:
    for unit, claims in found:
        for claim in claims:
            words: dict[str, str] = vars(claim)
            yield {
                "id": claim_id(unit, *words.values()),
                "text_unit_id": unit,
                "subject_id": entity_id(claim.subject),
                "object_id": entity_id(claim.object) if claim.object else "",
                **words,
            }
