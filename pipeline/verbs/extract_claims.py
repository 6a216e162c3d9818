"""extract_claims: ask a chat model for the claims that each text unit makes about entities."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import pandas as pd
from pydantic import Field

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import COVARIATES, REJECTS, UNIT_TEXTS
from pipeline.models.base import ChatModel, Message
from pipeline.models.parse.graph import Claim, ParsedReply, parse_claims
from pipeline.text.ids import claim_id, entity_id
from pipeline.verbs.read_text import Mark, Questions, group_by_text, read_text, reject_rows


class ClaimParams(Params):
    """The claims that are wanted, and how often the model is asked.

    ``claim_description`` describes the claims, ``entity_types`` the types of their subjects.
    ``gleanings`` is the number of times that the model is asked for claims that it missed.
    ``repair`` says whether an unreadable reply is requested once more.
    """

    claim_description: str = (
        "claims and facts that bear on how somebody or something is to be judged"
    )
    entity_types: tuple[str, ...] = ("person", "organization", "location", "event", "concept")
    gleanings: int = Field(default=0, ge=0, le=5)
    repair: bool = True


@verb(
    inputs={"text_units": UNIT_TEXTS},
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
    """Return the claims of each text unit (COVARIATES), and rejects.

    A claim has a subject, an object (may be empty), a type, a status (TRUE, FALSE, SUSPECTED),
    dates (ISO 8601, empty if unknown), a description, and the words of the text. Subjects and
    objects are linked to entities by name.

    The model is asked about equal texts once. Replies are repaired and rejected as those of
    extract_graph are.
    """
    ids_of_texts = group_by_text(text_units)
    questions = _make_questions(params, extract, glean)
    talks = (read_text(ids[0], passage.text, questions) for passage, ids in ids_of_texts.items())
    readings = chat.converse(talks)
    claims: list[tuple[str, Sequence[Claim]]] = []
    marks: list[tuple[str, Sequence[Mark]]] = []
    for ids, reading in zip(ids_of_texts.values(), readings, strict=True):
        claims += [(id, reading.records) for id in ids]
        marks += [(id, reading.marks) for id in ids]
    return COVARIATES.frame(_claim_rows(claims)), REJECTS.frame(reject_rows(marks))


def _make_questions(params: ClaimParams, extract: Prompt, glean: Prompt) -> Questions[Claim]:
    def opening(text: str) -> tuple[Message, ...]:
        prompt = extract.render(
            text=text,
            entity_types=", ".join(params.entity_types),
            claim_description=params.claim_description,
        )
        return ({"role": "user", "content": prompt},)

    return Questions(opening, _parse_claims, glean.render(), params.gleanings, params.repair)


# Each reply is parsed twice: when it is checked and when it is used. The cache saves the second.
@lru_cache(maxsize=256)
def _parse_claims(reply: str) -> ParsedReply[Claim]:
    return parse_claims(reply)


def _claim_rows(found: Iterable[tuple[str, Iterable[Claim]]]) -> Iterator[dict[str, str]]:
    """Yield rows of COVARIATES; ``found`` has pairs of a text unit's id and its claims."""
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
