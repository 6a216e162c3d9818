"""The village with communities, their reports and claims, and a chat model that reads them."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from pipeline.models.base import ChatReply, ChatRequest
from tests.query.memory_stores import (
    CLAIM_COLUMNS,
    COMMUNITY_COLUMNS,
    REPORT_COLUMNS,
    MemoryStores,
    ScriptedChat,
    village,
)

COMMUNITIES = {
    # id: level, parent, children, entities, text units
    "com-school": (0, "", ["com-lesson", "com-visit"], ["Ada", "Bea", "Cid"], ["c1", "c2", "c3"]),
    "com-court": (0, "", [], ["Dov"], ["c3"]),
    "com-lesson": (1, "com-school", [], ["Ada", "Bea"], ["c1", "c2"]),
    "com-visit": (1, "com-school", [], ["Cid"], ["c2", "c3"]),
}
TEXTS = {
    "com-school": "Ada, Bea and Cid know each other from lessons.",
    "com-court": "Dov was sued by Cid.",
    "com-lesson": "Ada taught Bea for years.",
    "com-visit": "Cid met Bea, then sued Dov.",
}


def report(id: str) -> dict[str, Any]:
    level, parent, children, entities, units = COMMUNITIES[id]
    title = id.removeprefix("com-").title()
    values = (
        id,
        level,
        parent,
        children,
        title,
        f"{title} in short.",
        TEXTS[id],
        5.0,
        len(units),
        len(entities),
        units,
    )
    return dict(zip(REPORT_COLUMNS, values, strict=True))


def claim(subject: str, object: str, description: str, unit: str, document: str) -> dict[str, Any]:
    values = (
        f"claim-{subject}-{object}", f"ent-{subject}", f"ent-{object}", subject, object, "LAWSUIT",
        "TRUE",
        "1901-01-01", "", description, "He sued.", unit, document,
    )  # fmt: skip
    return dict(zip(CLAIM_COLUMNS, values, strict=True))


def reported_village() -> MemoryStores:
    members = [(f"ent-{name}", id, row[0]) for id, row in COMMUNITIES.items() for name in row[3]]
    return replace(
        village(),
        report_rows=pd.DataFrame([report(id) for id in COMMUNITIES], columns=REPORT_COLUMNS),
        claim_rows=pd.DataFrame([claim("Cid", "Dov", "Cid sued Dov over a fence.", "c3", "doc-2")]),
        community_rows=pd.DataFrame(members, columns=COMMUNITY_COLUMNS),
    )


def many_reports(number: int) -> MemoryStores:
    """Return the village with communities of one level, whose reports differ in length."""
    rows = [
        {**report("com-court"), "id": f"com-{n}", "title": f"T{n}", "content": "x" * (n % 7 * 40)}
        for n in range(number)
    ]
    return replace(reported_village(), report_rows=pd.DataFrame(rows, columns=REPORT_COLUMNS))


def rows_of(prompt: str) -> list[str]:
    """Return the numbers in the first column of the tables that a prompt shows."""
    return re.findall(r"^(\d+),", prompt, re.MULTILINE)


def points(numbers: Sequence[str]) -> str:
    """Return a point for each row that was shown, and a citation of one that was not."""
    found = [
        {"description": f"Row {n} [Data: Reports ({n}, 999)].", "score": 10 * int(n) % 101}
        for n in numbers
    ]
    return json.dumps({"points": found})


def partial_answer(numbers: Sequence[str], kind: str) -> str:
    text = f"Rows {', '.join(numbers)} [Data: {kind} ({numbers[0]})]."
    return json.dumps(
        {
            "answer": text,
            "score": len(text),
            "follow_ups": [f"What of {text}?", "Who is Dov?", "And Bea?"],
        }
    )


@dataclass
class ReadingChat(ScriptedChat):
    """A chat model that replies to each kind of call as intended, or as ``also`` says."""

    also: dict[str, Callable[[Sequence[str]], str]] | None = None

    def _next(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        numbers = rows_of(request.messages[-1]["content"])
        ways: dict[str, Callable[[Sequence[str]], str]] = {
            "map": points,
            "rate": lambda shown: json.dumps(
                {"ratings": [{"id": int(n), "rating": 5} for n in shown]}
            ),
            "primer": lambda shown: partial_answer(shown, "Reports"),
            "search": lambda shown: partial_answer(shown or ["1"], "Sources"),
            "keywords": lambda _: '{"high_level_keywords": [], "low_level_keywords": ["Bea"]}',
            "questions": lambda _: '{"questions": ["Who is Cid?", "who taught bea?", "Why?"]}',
            "answer": lambda _: "So it is [Data: Reports (1, 999)]. [1]",
            **(self.also or {}),
        }
        return ChatReply(ways[request.row_id](numbers))


def reader(**also: Callable[[Sequence[str]], str]) -> ReadingChat:
    return ReadingChat([], also=also)
