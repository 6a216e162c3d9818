"""The words of a reply without what models put around them, and the JSON in it. No reply raises."""

import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pipeline.text.ids import clean, clean_name

QUOTES = "\"'`´‘’‚“”„«»‹›「」『』〝〞＂＇"
OPEN, CLOSE = "(（", ")）"
MISSING_WEIGHT, LEAST_WEIGHT, GREATEST_WEIGHT = 1.0, 0.1, 10.0

_THINKING = re.compile(r"<\s?(/?)\s?(?:think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
LONGEST_TAG = len("< reasoning >")
_FENCE = re.compile(r"```[ \t]{0,3}[A-Za-z]{0,12}")
_CHARACTER_REFERENCE = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_EDGES = QUOTES + " \n"
_NOISE = _EDGES + OPEN + CLOSE + "[]{}<>|#.,:;!?*_-\\/"
_LABEL = r"(?:relationship[ _])?(?:strength|weight|score|rating|强度|強度)?\s?[:=：]?\s?"
_NUMBER = r"(?P<number>[-+]?\d{1,20}(?:[.,]\d{1,20})?(?:e[-+]?\d{1,4})?)"
_SCALE = r"(?:\s?(?:/|out of|of)\s?(?P<scale>\d{1,20}))?"
_NO_NUMBER = r"[-+]?(?:nan|inf|infinity)|none|null|n/a|unknown|high|strong|medium|moderate|low|weak"
_STRENGTH = re.compile(
    rf"{_LABEL}(?:{_NUMBER}{_SCALE}|{_NO_NUMBER})(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_LIST_SEPARATOR = re.compile(r"[,;，；、\n]")
_START = re.compile(r"[{\[]\s{0,20}[\"'“{\[}\]]|\{\s{0,20}\w{1,40}\s?:")
_BRACKET = re.compile(r"[{}\[\]]")
_DECODER = json.JSONDecoder(strict=False)
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?P<end>"|\\?\Z)', re.DOTALL)
"""A text in JSON, or the rest of the reply from a quote that no other one closes. The rest is one
match: to look for the end of a text at each quote in it anew would take quadratic time."""
_BEGUN_VALUE = re.compile(r"[-+.\w]{0,8}")
"""A number or a literal such as ``true`` may be cut in its middle; it is the rest of the text
then."""
_DEEPEST, _LONGEST_REPAIR = 30, 200_000
"""Nesting beyond any graph, and a length at which json_repair still takes seconds at worst."""


def without_thinking(reply: str) -> str:
    """The reply after its thinking; where thinking never ends, only the tag is dropped."""
    kept: list[str] = []
    position, thinking = 0, False
    for tag in _THINKING.finditer(reply):
        closes = bool(tag[1])
        if closes and not thinking:
            kept.clear()
        elif not closes and not thinking:
            kept.append(reply[position : tag.start()])
        position, thinking = tag.end(), not closes
    return "".join(kept) + reply[position:]


def after_thinking(pieces: Iterator[str]) -> Iterator[str]:
    """A reply as it comes, without the thinking it begins with; nothing comes while that lasts."""
    held = ""
    for piece in pieces:
        held += piece
        if said := _after_first_thinking(held):
            yield said
            break
    else:
        yield without_thinking(held)
    yield from pieces


def _after_first_thinking(text: str) -> str:
    """Nothing while it lasts, and while it may yet begin."""
    begun = text.lstrip()
    if opened := _THINKING.match(begun):
        closed = _THINKING.search(begun, opened.end())
        return begun[closed.end() :].lstrip() if closed else ""
    may_open = begun.startswith("<") and ">" not in begun and len(begun) <= LONGEST_TAG
    return "" if not begun or may_open else text


def bare(reply: str) -> str:
    """The reply without thinking, fences and control characters."""
    return _FENCE.sub("\n", clean(without_thinking(reply)))


def plain(reply: str) -> str:
    """The bare reply, character references and escaped quotes replaced by what they stand for."""
    text = _CHARACTER_REFERENCE.sub(lambda match: html.unescape(match[0]), bare(reply))
    return clean(text).replace('\\"', '"').replace("\\'", "'")


def one_line(text: str) -> str:
    """White space collapsed; quotes around the text, or a quote that has no partner, taken off."""
    line = _unbold(" ".join(text.split()))
    if len(line) > 1 and line[0] in QUOTES and line[-1] in QUOTES:
        return line[1:-1].strip()
    if (line.count('"') + line.count("“") + line.count("”")) % 2:
        return line.removeprefix('"').removeprefix("“").removesuffix('"').removesuffix("”").strip()
    return line


def name_of(text: str) -> str:
    """A name as ``clean_name`` gives it; empty when there is nothing but quotes and punctuation."""
    return clean_name(_unbold(text.strip(_EDGES))) if text.strip(_NOISE) else ""


def _unbold(text: str) -> str:
    return (
        text[2:-2].strip()
        if len(text) > 4 and text.startswith("**") and text.endswith("**")
        else text
    )


def keywords_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Comma-separated words of all the texts, each once (case aside), in order."""
    return distinct_names(word for text in texts for word in _LIST_SEPARATOR.split(text))


def distinct_names(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts as names, empty ones left out, each once (case aside), in order."""
    unique: dict[str, str] = {}
    for name in filter(None, map(name_of, texts)):
        unique.setdefault(name.casefold(), name)
    return tuple(unique.values())


def balanced(text: str) -> str:
    """The text without the closing parentheses at its end that nothing opened."""
    excess = sum(map(text.count, CLOSE)) - sum(map(text.count, OPEN))
    end = len(text)
    while excess > 0 and end and text[end - 1] in CLOSE + " \n":
        end -= 1
        excess -= text[end] in CLOSE
    return text[:end].rstrip()


def weight_of(text: str, strict: bool = False) -> float | None:
    """A strength within 0.1 to 10 ("8", "8/10", "strength: 8.5"), 1.0 for one that is no finite
    number; None when the text is not a strength. ``strict``: nor is a number with words after
    it."""
    match = _STRENGTH.match(text.strip(_EDGES + CLOSE + "]}"))
    if match is None:
        return None
    rest, only_number = match["rest"], not any(map(str.isalnum, match["rest"]))
    if rest[:1].isalnum() or not (only_number or (match["number"] and not strict)):
        return None
    if match["number"] is None:
        return MISSING_WEIGHT
    value, scale = (
        float(match["number"].replace(",", ".")),
        float(match["scale"] or GREATEST_WEIGHT),
    )
    scaled = value * GREATEST_WEIGHT / scale if scale else value
    return (
        min(max(scaled, LEAST_WEIGHT), GREATEST_WEIGHT) if math.isfinite(scaled) else MISSING_WEIGHT
    )


def json_values(reply: str) -> list[Any]:
    """The JSON values in the reply; from where it is broken, what can be repaired of it."""
    text = bare(reply)
    values: list[Any] = []
    start = _START.search(text) if _depth(text) <= _DEEPEST else None
    while start:
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            return values + _repaired(text[start.start() :])
        values.append(value)
        start = _START.search(text, end)
    return values


def _repaired(text: str) -> list[Any]:
    if len(text) > _LONGEST_REPAIR:
        return []
    import json_repair

    try:
        return [json_repair.loads(text, skip_json_loads=True)]
    except Exception:  # a foreign parser over arbitrary text: whatever it raises means "not JSON"
        return []


Ending = Literal["whole", "between", "inside"]
"""Where the JSON of a reply ends: it closes; it is cut between two records; it is cut inside a
record."""


def ending_of(reply: str) -> Ending:
    """Find out whether the JSON of a reply closes, and where it is cut if it does not.

    JSON that is only malformed, and JSON beyond what is read, count as whole: they are no cuts.
    """
    text = bare(reply)
    start = _START.search(text) if _depth(text) <= _DEEPEST else None
    while start:
        try:
            _, end = _DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            begun = text[start.start() :]
            if not _ran_out(text, error) and not _stays_open(begun):
                return "whole"
            return "inside" if _is_inside_record(begun) else "between"
        start = _START.search(text, end)
    return "whole"


def without_texts(json_text: str) -> str:
    """Return JSON without its texts; one that is not closed stays, from its quote on."""
    return _TEXT.sub(lambda text: "" if text["end"] == '"' else text[0], json_text)


def _ran_out(text: str, error: json.JSONDecodeError) -> bool:
    """Check that the decoder met the end of the text, not a mistake before it."""
    unterminated = error.msg.startswith("Unterminated string")
    return unterminated or _BEGUN_VALUE.fullmatch(text[error.pos :].strip()) is not None


def _stays_open(text: str) -> bool:
    """Check that malformed JSON is cut too: it does not end in a bracket and opens more of them
    than it closes."""
    outside = without_texts(text)
    opened = outside.count("{") + outside.count("[")
    closed = outside.count("}") + outside.count("]")
    return not text.rstrip().endswith(("}", "]")) and opened > closed


def _is_inside_record(text: str) -> bool:
    """Check that JSON without its end stops in an object that is an item of a list: records are
    such objects."""
    open_brackets = ""
    for bracket in _BRACKET.findall(without_texts(text).partition('"')[0]):
        open_brackets = open_brackets + bracket if bracket in "{[" else open_brackets[:-1]
    return "[{" in open_brackets


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "{[" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def folded(value: Any) -> dict[str, Any]:
    """An object by its keys in lower case without separators; nothing for what is no object."""
    if not isinstance(value, Mapping):
        return {}
    return {"".join(filter(str.isalnum, str(key))).casefold(): item for key, item in value.items()}


def first_of(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return (
            ", ".join(map(text_of, value)) if all(isinstance(item, str) for item in value) else ""
        )
    return (
        clean(str(value))
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else ""
    )
