"""Claims whose names have become one entity."""

from pipeline.contract.schemas import COVARIATES, MERGED_ENTITIES, RESOLUTIONS
from pipeline.text.ids import entity_id
from pipeline.verbs.resolve_claims import resolve_claims


def claim(subject: str, about: str) -> dict[str, str]:
    empty = dict.fromkeys(COVARIATES.columns, "")
    ends = {"subject_id": entity_id(subject), "object_id": entity_id(about) if about else ""}
    return {**empty, **ends, "id": f"claim-{subject}", "subject": subject, "object": about}


def decision(one: str, other: str, decided: str) -> dict[str, object]:
    ends = {"left_id": entity_id(one), "right_id": entity_id(other), "left": one, "right": other}
    return {**ends, "score": 1.0, "rule": "title", "decision": decided, "by": "rule"}


def test_claims_follow_their_entities_also_by_way_of_a_third():
    claims = COVARIATES.frame(
        [claim("Gov. Pell", "Ada"), claim("Pell", ""), claim("Ada", "Pell Torr")]
    )
    decisions = RESOLUTIONS.frame(
        [
            decision("Gov. Pell", "Pell", "merge"),
            decision("Pell", "G. Pell", "merge"),
            decision("Pell", "Ada", "keep"),
        ]
    )
    row = {"type": "", "types": [], "descriptions": [], "text_unit_ids": [], "frequency": 1}
    left = MERGED_ENTITIES.frame(
        [{"id": entity_id(name), "name": name, **row} for name in ("G. Pell", "Ada")]
    )
    resolved = resolve_claims(claims, decisions, left).set_index("subject")
    assert resolved["subject_id"].to_dict() == {
        "Ada": entity_id("Ada"), "Gov. Pell": entity_id("G. Pell"), "Pell": entity_id("G. Pell"),
    }  # fmt: skip
    assert resolved["object_id"].to_dict() == {
        "Ada": entity_id("Pell Torr"), "Gov. Pell": entity_id("Ada"), "Pell": "",
    }  # fmt: skip
