"""What the test endpoint answers: made from the request's own words, so equal requests get equal
replies."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal
from zlib import crc32

from tests.servers.openai_inquiries import inquiry_reply

Messages = Sequence[Mapping[str, Any]]
UsageReport = Literal["tokens", "none", "zeros"]
"""How an answer reports its tokens: truly, not at all, or as zeros. Some compatible servers do the
latter two."""


@dataclass(frozen=True)
class Reply:
    """One answer. ``text`` None stands for what is usually said (half of it if it ends in
    "length"). From status 400 on ``text`` is the error's message."""

    text: str | None = None
    finish_reason: str | None = "stop"  # None: a stream ends by its end mark alone
    status: int = 200
    error: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the error's JSON has beside its message
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    pause: float = 0.0  # seconds before each event of a stream
    at_once: bool = False  # however slow the server is told to be
    drop: bool = False  # hang up: before any answer, or in the middle of a stream
    raw: bytes | None = None  # a body that is sent as it is
    usage: UsageReport | bool = "tokens"  # False is "none"
    break_at: float | None = None  # hang up after this share of the body, or of a stream's events
    plain: bool = False  # one JSON object, even to a request for a stream
    cut: Literal["", "inside", "between"] = (
        ""  # the usual text, cut inside a record or between two of them
    )
    missing_vectors: int = 0  # embeddings: so many fewer than were asked for
    spaces: bool = False  # white space instead of an answer, as long as the client listens
    endless: bool = False  # words without end: up to the limit that was asked for, else no answer
    thinking: int = 0  # hidden tokens that the answer was paid for
    hold: bool = False  # no answer at all, until one of the two hangs up
    fault: str = ""  # which fault this is, if it was drawn


Reader = Callable[[Messages, Mapping[str, Any]], Reply]


def default_reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
    """Knows prompts for graphs, claims, gleanings, keywords, summaries and reports by their words;
    all else gets an answer."""
    contents = [content_of(message) for message in messages]
    if is_repair(messages):
        return default_reply(messages[:-2], body)
    prompt, last = "\n".join(contents), contents[-1] if contents else ""
    if is_judging(prompt):
        return Reply(verdicts(prompt))
    if found := next((told for words, told in TUNING.items() if words in prompt), None):
        return Reply(found)
    if (told := inquiry_reply(prompt)) is not None:
        return Reply(told)
    if "high_level_keywords" in prompt:
        return Reply(keywords_json(after_last(QUERY_MARK, last)))
    if "rating_explanation" in prompt:
        return Reply(report_json(after_first(TABLES_MARK, last)))
    if '("claim"' in prompt:
        return Reply(
            claim_records(
                "" if is_gleaning(messages) else after_first(TEXT_MARK, last.split(ENDED)[-1])
            )
        )
    if ENDED in prompt or wants_json(body):
        text = "" if is_gleaning(messages) else after_first(TEXT_MARK, last.split(ENDED)[-1])
        names, links = read_graph(text)
        if wants_json(body):
            return Reply(graph_json(names, links))
        return Reply(graph_records(names, links, PROPERTIES_MARK in prompt))
    if is_summary(prompt):
        return Reply(summary(after_last(LIST_MARK, last)))
    names = spans(after_last(QUERY_MARK, last))
    return Reply(f"The sources tell of {', '.join(names) if names else 'this'} [ref:1].")


def content_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return (
        content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    )


TEXT_MARK = re.compile(
    r"^[#\-*<\s]*(?:real data|input text|text|document)\b[^\n]{0,20}?[:>]\s*",
    re.IGNORECASE | re.MULTILINE,
)
QUERY_MARK = re.compile(
    r"^[#\-*<\s]*(?:current query|query|question)\b[^\n]{0,20}?[:>]\s*",
    re.IGNORECASE | re.MULTILINE,
)
LIST_MARK = re.compile(
    r"^[#\-*<\s]*(?:description list|descriptions)\b[^\n]{0,20}?[:>]\s*",
    re.IGNORECASE | re.MULTILINE,
)

TABLES_MARK = re.compile(r"^(?=-----\w+-----\n```csv$)", re.MULTILINE)
ENDED = "<|COMPLETE|>"


def after_last(mark: re.Pattern[str], prompt: str) -> str:
    """What follows the last such mark in the prompt; all of it where there is none."""
    found = list(mark.finditer(prompt))
    return prompt[found[-1].end() :] if found else prompt


def after_first(mark: re.Pattern[str], prompt: str) -> str:
    found = mark.search(prompt)
    return prompt[found.end() :] if found else prompt


def is_gleaning(messages: Messages) -> bool:
    return any(message.get("role") == "assistant" for message in messages)


def is_repair(messages: Messages) -> bool:
    """Whether the last reply is asked for once more, because it could not be read."""
    return is_gleaning(messages) and "could not be read" in content_of(messages[-1])


def is_summary(prompt: str) -> bool:
    words = prompt.lower()
    is_context = "id,entity,type" in words or "id,content" in words
    return "summar" in words and "descriptions" in words and not is_context


TUNING = {
    "In which field would somebody be at home": "lighthouses and those who built them",
    "In which language are most of the passages": "English",
    'that begin with "You are"': (
        "You are a historian of lighthouses. You look out for who built what, and when."
    ),
    "Which types do they call for?": "1. Person, lighthouse; institute, event, person",
}
"""Words of a prompt that tunes -> the reply."""


def is_judging(prompt: str) -> bool:
    return "`same` or `different`" in prompt


def verdicts(prompt: str) -> str:
    """Two names are the same where each word of the shorter stands in the longer."""
    pairs = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"pair"')]
    words = [[set(pair[side]["name"].lower().split()) for side in "ab"] for pair in pairs]
    found = ["same" if a <= b or b <= a else "different" for a, b in words]
    return "\n".join(
        f"{pair['pair']}: {verdict}" for pair, verdict in zip(pairs, found, strict=True)
    )


def wants_json(body: Mapping[str, Any]) -> bool:
    return (body.get("response_format") or {}).get("type") in ("json_schema", "json_object")


# Names, and the sentences they share.

TYPES = ("person", "organization", "location", "event", "concept")
NOT_NAMES = frozenset(
    re.findall(
        r"\w+",
        "A An The This That These Those It He She They We You I His Her Its Their Our My Your In On"
        " At By For From To Of With And But Or Nor So Yet If As When While Where Who Whom Whose"
        " Which What Why How Is Are Was Were Be Do Does Did Has Have Had There Here Then After"
        " Before During Since Until Both Each Every Some Any All No Not ",
    )
)
WORD = r"[A-ZÀ-ÞĀ-Ž][\w'’&+-]*"
SPAN = re.compile(rf"\b{WORD}(?:[ ](?:of |de |von |van )?{WORD})*")
HAN = r"[\u4e00-\u9fff]"
HAN_NAME = re.compile(rf"[（(《「“]({HAN}{{2,12}})[）)》」”]|(?:在|由|与|和|叫|是)({HAN}{{2,4}})")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
UNSAFE = re.compile(r"[#<>|()\"\s]+")


@dataclass(frozen=True)
class Link:
    source: str
    target: str
    description: str
    keywords: tuple[str, ...]
    strength: int


def sentences(text: str) -> list[str]:
    return [
        clean for piece in SENTENCE_END.split(text) if (clean := UNSAFE.sub(" ", piece).strip())
    ]


def spans(sentence: str) -> list[str]:
    """Names in order of first use: capitalised spans, and in Chinese what is quoted or follows a
    marker."""
    names = []
    for span in SPAN.findall(sentence):
        words = span.split(" ")
        while words and words[0] in NOT_NAMES:
            words.pop(0)
        names.append(" ".join(words).removesuffix("'s").removesuffix("’s").strip("'’-"))
    names += [quoted or marked for quoted, marked in HAN_NAME.findall(sentence)]
    return list(dict.fromkeys(name for name in names if len(name) > 1))


def long_words(sentence: str, least: int) -> list[str]:
    return list(
        dict.fromkeys(word for word in re.findall(r"\b[a-z]+\b", sentence) if len(word) >= least)
    )


def read_graph(text: str) -> tuple[dict[str, str], list[Link]]:
    """({name: the first sentence that holds it}, links between the first six names that share a
    sentence)."""
    names: dict[str, str] = {}
    links: dict[tuple[str, str], Link] = {}
    for sentence in sentences(text):
        found = spans(sentence)
        for name in found:
            names.setdefault(name, sentence)
        keywords = tuple(long_words(sentence, 6)[:2]) or ("related",)
        for pair in combinations(found[:6], 2):
            links.setdefault(pair, Link(*pair, sentence, keywords, len(sentence) % 10 + 1))
    return names, list(links.values())


def type_of(name: str) -> str:
    return TYPES[crc32(name.lower().encode()) % len(TYPES)]


def graph_records(
    names: Mapping[str, str], links: Sequence[Link], with_properties: bool = False
) -> str:
    records = [f'("entity"<|>{name}<|>{type_of(name)}<|>{text})' for name, text in names.items()]
    records += [
        f'("relationship"<|>{link.source}<|>{link.target}<|>{link.description}'
        f"<|>{', '.join(link.keywords)}<|>{link.strength})"
        for link in links
    ]
    if with_properties:
        records += [record for name in names for record in property_records(name, names[name])]
    return "##\n".join(records) + ENDED


def property_records(name: str, sentence: str) -> list[str]:
    """Two properties of a name, which depend on the sentence; some are of a wrong unit."""
    number = len(sentence) % 10
    unit = "kg" if number == 0 else "ft"
    return [
        f'("property"<|>{name}<|>height<|>{number} {unit})',
        f'("property"<|>{name}<|>built<|>185{number})',
    ]


PROPERTIES_MARK = "Give these properties"
"""Words of a prompt whose vocabulary has properties."""
STATUSES = ("TRUE", "FALSE", "SUSPECTED")


def claim_records(text: str) -> str:
    """A claim for each sentence that has a name: of the first, about the second."""
    records = []
    for sentence in sentences(text):
        subject, object, *_ = [*spans(sentence), "NONE", "NONE"]
        year = re.search(r"\b1\d{3}\b", sentence)
        fields = [
            subject, object, "CONDUCT", STATUSES[len(sentence) % 3],
            *[year[0] if year else "NONE"] * 2,
            f"It is said that {sentence}", sentence,
        ]  # fmt: skip
        if subject != "NONE":
            records.append(f'("claim"<|>{"<|>".join(fields)})')
    return "##\n".join(records) + ENDED


def report_json(tables: str) -> str:
    """Of the first rows, whatever they tell of."""
    rows = [line for line in tables.splitlines() if "," in line and not line.startswith(HEADERS)]
    names = list(dict.fromkeys(row.split(",")[0].strip('"') for row in rows))
    report = {
        "title": ", ".join(names[:3]),
        "summary": f"{len(rows)} facts of {', '.join(names[:5])}.",
        "rating": len(rows) % 11,
        "rating_explanation": f"{len(rows)} facts are known.",
        "findings": [
            {"summary": f"Of {row.split(',')[0]}", "explanation": UNSAFE.sub(" ", row)}
            for row in rows[:3]
        ],
    }
    return json.dumps(report, ensure_ascii=False)


HEADERS = ("title,report", "name,type,", "source,target,", "subject,object,")


def graph_json(names: Mapping[str, str], links: Sequence[Link]) -> str:
    entities = [{"name": n, "type": type_of(n), "description": text} for n, text in names.items()]
    relationships = [{**vars(link), "keywords": list(link.keywords)} for link in links]
    return json.dumps({"entities": entities, "relationships": relationships}, ensure_ascii=False)


def keywords_json(query: str) -> str:
    found = {"high_level_keywords": long_words(query, 6), "low_level_keywords": spans(query)}
    return json.dumps(found, ensure_ascii=False)


def summary(descriptions: str) -> str:
    return " ".join(sentences(descriptions)[:2])


# Tokens and vectors.


def count_tokens(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 4 + 1


def embed(text: str, dimensions: int) -> list[float]:
    """Hashed words and character trigrams, of length 1: texts that share words are near."""
    words = re.findall(r"\w+", text.lower())
    padded = f" {' '.join(words) or text} "
    vector = [0.0] * dimensions
    trigrams = [padded[i : i + 3] for i in range(len(padded) - 2)]
    for feature, weight in [
        *((word, 2.0) for word in words),
        *((trigram, 0.5) for trigram in trigrams),
    ]:
        hashed = crc32(feature.encode("utf-8", "surrogatepass"))
        vector[hashed % dimensions] += weight if hashed >> 31 else -weight
    norm = math.hypot(*vector) or 1.0
    return [value / norm for value in vector]
