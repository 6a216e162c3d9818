"""Replies in which the graph of a text is the union of the graphs of its sentences.

The usual reader describes a name by the first sentence that holds it, so that the halves of a text
give other records than the whole. Here each sentence gives its records by itself, in the order of
the text: halves that are cut at the end of a sentence give, one after the other, the records of the
whole.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tests.servers.openai_replies import (
    ENDED,
    TEXT_MARK,
    Link,
    Messages,
    Reply,
    after_last,
    content_of,
    default_reply,
    graph_json,
    graph_records,
    is_gleaning,
    is_repair,
    long_words,
    sentences,
    spans,
    wants_json,
)

RECORD_END = "##\n"
NAMES_LINKED = 6
"""So many names of a sentence are linked with each other, as by the usual reader."""


def reply_by_sentences(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Reply to an extraction sentence by sentence, and to all else as ``default_reply`` does."""
    if is_repair(messages):
        return reply_by_sentences(messages[:-2], body)
    contents = [content_of(message) for message in messages]
    last = contents[-1] if contents else ""
    if not is_extraction("\n".join(contents), body) or is_gleaning(messages):
        return default_reply(messages, body)
    graphs = [graph_of(sentence) for sentence in sentences(after_last(TEXT_MARK, last))]
    if wants_json(body):
        return Reply(json_of(graphs))
    pieces = [graph_records(*graph).removesuffix(ENDED) for graph in graphs]
    return Reply(RECORD_END.join(filter(None, pieces)) + ENDED)


def is_extraction(prompt: str, body: Mapping[str, Any]) -> bool:
    """Return whether a graph is asked for, not claims, keywords or a report."""
    is_other = any(
        words in prompt for words in ('("claim"', "rating_explanation", "high_level_keywords")
    )
    return (ENDED in prompt or wants_json(body)) and not is_other


def graph_of(sentence: str) -> tuple[dict[str, str], list[Link]]:
    """Return the names of one sentence, each with the sentence as its description, and the links
    between them."""
    names = spans(sentence)
    keywords = tuple(long_words(sentence, 6)[:2]) or ("related",)
    pairs = combinations(names[:NAMES_LINKED], 2)
    return dict.fromkeys(names, sentence), [
        Link(*pair, sentence, keywords, len(sentence) % 10 + 1) for pair in pairs
    ]


def json_of(graphs: Sequence[tuple[Mapping[str, str], Sequence[Link]]]) -> str:
    """Return one JSON object with the records of all sentences; a name has a record for each
    sentence."""
    parts = [json.loads(graph_json(names, links)) for names, links in graphs]
    merged = {
        kind: [record for part in parts for record in part[kind]]
        for kind in ("entities", "relationships")
    }
    return json.dumps(merged, ensure_ascii=False)
