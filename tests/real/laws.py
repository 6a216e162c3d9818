"""What must hold for any chat model, however little it can do."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from pipeline.project import Project
from tests.real.recording_proxy import Exchange

ANSWERED = ("ok", "truncated", "look")
"""Outcomes of answered calls; "look" is the small call that shows whether a starting server
answers."""
CITATION = re.compile(r"\[(\d+)\]")


def nothing_is_lost(project: Project, health: Mapping[str, float]) -> None:
    """Check that each text unit has records or a reject, or is counted among those without
    entities."""
    units = set(project.table("text_units", "index")["id"])
    extracted = set(project.table("extractions", "index")["text_unit_id"])
    rejects = project.table("rejects", "index")
    rejected = set(rejects[rejects["kind"] == "row"]["row_id"])
    assert units, "no text unit: the law says nothing"
    assert not extracted & rejected
    empty = units - extracted - rejected
    assert len(empty) <= health["without_entities"]


def usage_is_the_servers(usage: pd.DataFrame, exchanges: Iterable[Exchange]) -> None:
    """Check that the bill has the calls that the server has answered, each with the server's own
    count of tokens."""
    answered = usage[usage["outcome"].isin(ANSWERED)]
    mine = Counter(zip(answered["input_tokens"], answered["output_tokens"], strict=True))
    theirs = Counter(exchange.tokens for exchange in exchanges if exchange.status == 200)
    assert None not in theirs, "an answer without usage, or one that did not arrive whole"
    assert mine == theirs


def citations_were_shown(answer: Mapping[str, Any], prompt: str) -> None:
    """Check that an answer cites listed passages only, and that the model has read each passage
    that is listed."""
    listed = {reference["id"] for reference in answer["references"]}
    cited = {int(number) for number in CITATION.findall(answer["answer"])}
    assert cited <= listed
    assert all(reference["content"] in prompt for reference in answer["references"])
