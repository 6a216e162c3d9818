"""What the test endpoint replies to prompts that ask for points, ratings, partial answers or
questions: made from the rows that they show, so equal requests get equal replies."""

import csv
import io
import json
import re
from collections.abc import Sequence
from zlib import crc32

TABLE = re.compile(r"^-----(\w+)-----\n```csv\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def inquiry_reply(prompt: str) -> str | None:
    """None for another kind of prompt."""
    if '{"points": [' in prompt:
        return _json(points=[_point(row) for row in _rows(prompt, "Reports")])
    if '{"ratings": [' in prompt:
        return _json(
            ratings=[
                {"id": row[0], "rating": 1 + _draw(row, 5)} for row in _rows(prompt, "Reports")
            ]
        )
    if '"follow_ups": [' in prompt:
        return _json(**_partial_answer(prompt))
    if '{"questions": [' in prompt:
        titles = [
            row[1] for table in ("Reports", "Entities", "Sources") for row in _rows(prompt, table)
        ]
        return _json(questions=[f"What of {' '.join(title.split()[:6])}?" for title in titles])
    cited = re.findall(r"\[Data: [^\]]+\]", "\n".join(row[1] for row in _rows(prompt, "Points")))
    return f"The documents tell of it {' '.join(cited)} [Data: Reports (4711)]." if cited else None


def _json(**fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _point(row: Sequence[str]) -> dict[str, object]:
    return {
        "description": f"{row[1]} is told of [Data: Reports ({row[0]})].",
        "score": 1 + _draw(row, 100),
    }


def _partial_answer(prompt: str) -> dict[str, object]:
    shown = {name: [row[0] for row in _rows(prompt, name)] for name in ("Reports", "Sources")}
    kind = "Sources" if shown["Sources"] else "Reports"
    names = [row[1] for row in _rows(prompt, "Entities" if shown["Sources"] else "Reports")]
    return {
        "answer": f"{kind} tell of it [Data: {kind} ({', '.join(dict.fromkeys(shown[kind]))})].",
        "score": 1 + _draw(shown[kind], 100),
        "follow_ups": [f"What is known of {name}?" for name in names[:3]],
    }


def _rows(prompt: str, table: str) -> list[list[str]]:
    tables = [text for name, text in TABLE.findall(prompt) if name == table]
    return [row for text in tables for row in list(csv.reader(io.StringIO(text)))[1:] if row]


def _draw(row: Sequence[str], most: int) -> int:
    return crc32("\n".join(row).encode()) % most
