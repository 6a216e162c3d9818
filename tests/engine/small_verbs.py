"""Three small verbs."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pipeline.contract.prompts import Prompt
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import INT, REJECTS, STRING, TEXTS, table
from pipeline.models.base import ChatModel, ChatRequest, Tokenizer

NUMBERS = table("id", id=STRING, value=INT)
CALLS: list[str] = []
"""Names of the verbs that were called, in order."""


class ReadParams(Params):
    path: str
    root: str


class KeepParams(Params):
    divisor: int = 2


def read_numbers(params: ReadParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read one number from each line; a line without one is a reject."""
    CALLS.append("read_numbers")
    lines = (Path(params.root) / params.path).read_text().split()
    numbers = NUMBERS.frame([(line, int(line)) for line in lines if line.isdigit()])
    return numbers, rejects((line, "parse") for line in lines if not line.isdigit())


def keep_even(numbers: pd.DataFrame, params: KeepParams = KeepParams()) -> pd.DataFrame:
    CALLS.append("keep_even")
    return numbers[numbers["value"] % params.divisor == 0]


def describe_numbers(
    numbers: pd.DataFrame, ask: Prompt, chat: ChatModel, tokenizer: Tokenizer
) -> tuple[pd.DataFrame, pd.DataFrame]:
    CALLS.append("describe_numbers")
    requests = [
        ChatRequest(id, ({"role": "user", "content": ask.render(number=id)},))
        for id in numbers["id"].tolist()
    ]
    replies = list(zip(numbers["id"], chat.complete(requests), strict=True))
    texts = [
        (id, f"{reply.text} ({tokenizer.count(reply.text)})")
        for id, reply in replies
        if not reply.reason
    ]
    return TEXTS.frame(texts), rejects((id, reply.reason) for id, reply in replies if reply.reason)


def rejects(rows: Iterator[tuple[str, str | None]]) -> pd.DataFrame:
    return REJECTS.frame([("", id, "row", reason, "not today") for id, reason in rows])


def register_small_verbs() -> None:
    verb(
        inputs={},
        outputs={"numbers": NUMBERS, "rejects": REJECTS},
        settings="input",
        stamp=lambda params: (Path(params.root) / params.path).read_text(),
    )(read_numbers)
    verb(
        inputs={"numbers": NUMBERS},
        outputs={"kept": NUMBERS},
        rowwise="numbers",
        libraries=("pyyaml",),
    )(keep_even)
    verb(
        inputs={"numbers": NUMBERS}, outputs={"texts": TEXTS, "rejects": REJECTS}, rowwise="numbers"
    )(describe_numbers)
