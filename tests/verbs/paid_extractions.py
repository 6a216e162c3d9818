"""Extractions that were paid for with an earlier version: its cache, its prompts, and the tables
that came of them.

``paid_extractions.zip`` was written by ``python -m tests.verbs.paid_extractions FILE`` by a version
whose requests in ``format: json`` had a system message before the prompt that describes records.
"""

import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from pipeline.contract.prompts import read_prompt
from pipeline.contract.schemas import TEXT_UNITS
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.settings.init import shipped
from pipeline.verbs.extract_graph import ExtractParams, extract_graph
from tests.servers.openai_replies import Messages, Reply, content_of, default_reply, wants_json
from tests.servers.openai_server import openai_server

ARCHIVE = Path(__file__).with_name("paid_extractions.zip")
PROMPTS = ("extract_graph", "extract_graph_continue")
TEXTS = {
    "sound": "Mira Vale built the Harrow Light in 1871.",
    "long": (
        "Idra Senn founded the Brack Institute. Anselm Torr taught optics at the Brack Institute."
    ),
    "odd": "Governor Pell opened the Tollen Observatory.",
}
GLEANED = {
    "records": (
        '("entity"<|>Harrow Light<|>location<|>A light that gleaning has found.)<|COMPLETE|>'
    ),
    "json": (
        '{"entities": [{"name": "Harrow Light", "type": "location", "description": "Found by'
        ' gleaning."}], "relationships": []}'
    ),
}
FORMATS = ("records", "json")


def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Cut off the long text, answer the odd one with prose at first, and find one thing more in a
    gleaning."""
    opening = next(content_of(message) for message in messages if message["role"] == "user")
    text = opening.rpartition("Text:\n")[2].strip()
    said = [content_of(message) for message in messages if message["role"] == "assistant"]
    if text == TEXTS["long"]:
        whole = default_reply(messages, body).text or ""
        return Reply(whole[: len(whole) // 2], finish_reason="length")
    if text == TEXTS["odd"] and not said:
        return Reply("Once upon a time a governor came to the observatory.")
    if text == TEXTS["sound"] and said:
        return Reply(GLEANED["json" if wants_json(body) else "records"])
    return default_reply(messages, body)


def extract(chat: Any, prompts: Path, **params: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Extract from all texts with one gleaning, by the prompts of this folder."""
    rows = [
        (id, text, 1, "doc-a", 0, len(text), order)
        for order, (id, text) in enumerate(TEXTS.items())
    ]
    extract, glean = (read_prompt(prompts, name, {"language": "English"}) for name in PROMPTS)
    return extract_graph(
        TEXT_UNITS.frame(rows), ExtractParams(gleanings=1, **params), extract, glean, chat
    )


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as JSON can hold them."""
    return json.loads(table.to_json(orient="records"))


@contextmanager
def chat_model(base_url: str, cache: Path) -> Iterator[OpenAIChat]:
    """Open the chat model that the extractions were paid for with, over the cache in this file."""
    replies = ReplyCache(f"sqlite:///{cache}")
    chat = OpenAIChat("small-model", base_url, "test-key", replies, timeout=10, max_retries=0)
    try:
        yield chat
    finally:
        chat.endpoint.client.close()
        replies.close()


def main(archive: Path) -> None:
    expected: dict[str, Any] = {}
    with TemporaryDirectory() as folder, openai_server() as server:
        server.reply = reply
        cache = Path(folder) / "cache.sqlite"
        with chat_model(server.base_url, cache) as chat:
            for format in FORMATS:
                server.forget()
                extractions, rejects = extract(chat, shipped() / "prompts", format=format)
                expected[format] = {
                    "extractions": as_rows(extractions),
                    "rejects": as_rows(rejects),
                    "calls": server.count("chat"),
                }
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
            made.write(cache, "cache.sqlite")
            made.writestr("expected.json", json.dumps(expected, indent=1))
            for name in PROMPTS:
                made.write(shipped() / "prompts" / f"{name}.md", f"prompts/{name}.md")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
