"""Extract the words and the JSON of a reply, without the markup that models add.

No reply raises an error.
"""

import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pipeline.text.ids import clean, clean_name

QUOTES = "\"'`´‘’‚“”„«»‹›「」『』〝〞＂＇"
"""Characters that models use as quotation marks."""
OPEN, CLOSE = "(（", ")）"
MISSING_WEIGHT, LEAST_WEIGHT, GREATEST_WEIGHT = 1.0, 0.1, 10.0
"""Weight of a relationship without a number, and the range of all other weights."""

_THINKING = re.compile(r"<\s?(/?)\s?(?:think|thinking|thought|reasoning)\s?>", re.IGNORECASE)
LONGEST_TAG = len("< reasoning >")
"""Length of the longest opening tag of thinking."""
_FENCE = re.compile(r"```[ \t]{0,3}[A-Za-z]{0,12}")
_CHARACTER_REFERENCE = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_EDGES = QUOTES + " \n"
"""Characters to remove from both ends of a name."""
_NOISE = _EDGES + OPEN + CLOSE + "[]{}<>|#.,:;!?*_-\\/"
"""A text of only these characters is no name."""
_LABEL = r"(?:relationship[ _])?(?:strength|weight|score|rating|强度|強度)?\s?[:=：]?\s?"
_NUMBER = r"(?P<number>[-+]?\d{1,20}(?:[.,]\d{1,20})?(?:e[-+]?\d{1,4})?)"
_SCALE = r"(?:\s?(?:/|out of|of)\s?(?P<scale>\d{1,20}))?"
_NO_NUMBER = r"[-+]?(?:nan|inf|infinity)|none|null|n/a|unknown|high|strong|medium|moderate|low|weak"
_STRENGTH = re.compile(
    rf"{_LABEL}(?:{_NUMBER}{_SCALE}|{_NO_NUMBER})(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_LIST_SEPARATOR = re.compile(r"[,;，；、\n]")
_START = re.compile(r"[{\[]\s{0,20}[\"'“{\[}\]]|\{\s{0,20}\w{1,40}\s?:")
"""Beginning of a JSON object or list, such as ``{"`` or ``[{``."""
_BRACKET = re.compile(r"[{}\[\]]")
_DECODER = json.JSONDecoder(strict=False)
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?P<end>"|\\?\Z)', re.DOTALL)
"""A string in JSON, or the rest of the reply from a quote without a partner. The rest is one match:
searching again from each quote in it would take quadratic time."""
_BEGUN_VALUE = re.compile(r"[-+.\w]{0,8}")
"""A number or a literal such as ``true`` may be cut in its middle. It is then the rest of the
text."""
_DEEPEST, _LONGEST_REPAIR = 30, 200_000
"""Nesting beyond that of any graph, and a length in characters up to which json_repair takes
seconds at most."""


def without_thinking(reply: str) -> str:
    """Return the reply without its thinking. If thinking never ends, only its tag is removed."""
    kept: list[str] = []
    position = 0
    is_thinking = False
    for tag in _THINKING.finditer(reply):
        is_closing = bool(tag[1])
        if is_closing and not is_thinking:
            # The opening tag is missing: everything so far was thinking.
            kept.clear()
        elif not is_closing and not is_thinking:
            kept.append(reply[position : tag.start()])
        position = tag.end()
        is_thinking = not is_closing
    return "".join(kept) + reply[position:]


def after_thinking(chunks: Iterator[str]) -> Iterator[str]:
    """Yield the chunks of a reply as they arrive, without thinking at its beginning.

    Nothing is yielded while the thinking lasts. If it never ends, only its tag is removed.
    """
    held = ""
    for chunk in chunks:
        held += chunk
        answer = _after_first_thinking(held)
        if answer:
            yield answer
            break
    else:
        yield without_thinking(held)
    yield from chunks


def _after_first_thinking(text: str) -> str:
    """Return the text behind its first thinking, or all of it if it does not begin with thinking.

    Returns "" while the thinking lasts, and while the text may still be the start of a tag.
    """
    begun = text.lstrip()
    opened = _THINKING.match(begun)
    if opened:
        closed = _THINKING.search(begun, opened.end())
        return begun[closed.end() :].lstrip() if closed else ""
    may_open = begun.startswith("<") and ">" not in begun and len(begun) <= LONGEST_TAG
    return "" if not begun or may_open else text


def bare(reply: str) -> str:
    """Return the reply without thinking, code fences and control characters."""
    return _FENCE.sub("\n", clean(without_thinking(reply)))


def plain(reply: str) -> str:
    """Return the bare reply, with character references and escaped quotes decoded."""
    text = _CHARACTER_REFERENCE.sub(lambda match: html.unescape(match[0]), bare(reply))
    return clean(text).replace('\\"', '"').replace("\\'", "'")


def one_line(text: str) -> str:
    """Return the text on one line, without quotes around it and without a quote that has no
    partner."""
    line = _unbold(" ".join(text.split()))
    if len(line) > 1 and line[0] in QUOTES and line[-1] in QUOTES:
        return line[1:-1].strip()
    has_odd_quote = sum(line.count(quote) for quote in '"“”') % 2 == 1
    if has_odd_quote:
        return line.removeprefix('"').removeprefix("“").removesuffix('"').removesuffix("”").strip()
    return line


def name_of(text: str) -> str:
    """Return the name in the text, or "" if the text is only quotes and punctuation."""
    if not text.strip(_NOISE):
        return ""
    return clean_name(_unbold(text.strip(_EDGES)))


def _unbold(text: str) -> str:
    """Remove the asterisks of Markdown around the text."""
    is_bold = len(text) > 4 and text.startswith("**") and text.endswith("**")
    return text[2:-2].strip() if is_bold else text


def keywords_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the comma-separated words of all texts in order, each of them once (ignoring case)."""
    return distinct_names(word for text in texts for word in _LIST_SEPARATOR.split(text))


def distinct_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts as names in order, each of them once (ignoring case), without empty ones."""
    unique: dict[str, str] = {}
    for name in filter(None, map(name_of, texts)):
        unique.setdefault(name.casefold(), name)
    return tuple(unique.values())


def drop_unopened_brackets(text: str) -> str:
    """Return the text without the closing parentheses at its end that were never opened."""
    opened = sum(text.count(bracket) for bracket in OPEN)
    closed = sum(text.count(bracket) for bracket in CLOSE)
    excess = closed - opened
    end = len(text)
    while excess > 0 and end and text[end - 1] in CLOSE + " \n":
        end -= 1
        if text[end] in CLOSE:
            excess -= 1
    return text[:end].rstrip()


def weight_of(text: str, strict: bool = False) -> float | None:
    """Return the strength in the text, within 0.1 to 10, or None if the text is no strength.

    Examples are "8", "8/10" and "strength: 8.5". A word such as "high" or a number that is not
    finite gives 1.0. ``strict``: a number with words behind it is no strength.
    """
    match = _STRENGTH.match(text.strip(_EDGES + CLOSE + "]}"))
    if match is None:
        return None
    rest = match["rest"]
    if rest[:1].isalnum():
        # The match ends in the middle of a word.
        return None
    has_words_behind = any(map(str.isalnum, rest))
    may_have_words_behind = match["number"] and not strict
    if has_words_behind and not may_have_words_behind:
        return None
    if match["number"] is None:
        return MISSING_WEIGHT
    value = float(match["number"].replace(",", "."))
    scale = float(match["scale"] or GREATEST_WEIGHT)
    scaled = value * GREATEST_WEIGHT / scale if scale else value
    if not math.isfinite(scaled):
        return MISSING_WEIGHT
    return min(max(scaled, LEAST_WEIGHT), GREATEST_WEIGHT)


def json_values(reply: str) -> list[Any]:
    """Return the JSON values in the reply. From the first broken one on, the rest is repaired as
    one value.

    JSON that is nested too deeply gives no values.
    """
    text = bare(reply)
    values: list[Any] = []
    start = _START.search(text) if _depth(text) <= _DEEPEST else None
    while start:
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            return values + _repair(text[start.start() :])
        values.append(value)
        start = _START.search(text, end)
    return values


def _repair(text: str) -> list[Any]:
    """Return the value that json_repair reads from the text, in a list.

    The list is empty if the text is too long or cannot be repaired.
    """
    if len(text) > _LONGEST_REPAIR:
        return []
    import json_repair

    try:
        return [json_repair.loads(text, skip_json_loads=True)]
    except Exception:
        # Any exception of this foreign parser means that the text is no JSON.
        return []


Ending = Literal["whole", "between", "inside"]
"""State of the JSON at the end of a reply: it closes, it is cut between two records, or it is cut
inside a record."""


def ending_of(reply: str) -> Ending:
    """Return whether the JSON of a reply closes, and where it is cut if it does not.

    JSON that is only malformed, and JSON that is too deep to be read, count as "whole", because
    they are not cut.
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
    """Return JSON without its strings. A string that is not closed stays, from its quote on."""
    return _TEXT.sub(lambda text: "" if text["end"] == '"' else text[0], json_text)


def _ran_out(text: str, error: json.JSONDecodeError) -> bool:
    """Check that the decoder reached the end of the text, and did not meet a mistake before it."""
    unterminated = error.msg.startswith("Unterminated string")
    return unterminated or _BEGUN_VALUE.fullmatch(text[error.pos :].strip()) is not None


def _stays_open(text: str) -> bool:
    """Check that malformed JSON is also cut: it opens more brackets than it closes, and ends in
    none."""
    outside = without_texts(text)
    opened = outside.count("{") + outside.count("[")
    closed = outside.count("}") + outside.count("]")
    return not text.rstrip().endswith(("}", "]")) and opened > closed


def _is_inside_record(text: str) -> bool:
    """Check that JSON without its end stops inside a record: an object that is an item of a
    list."""
    # A string that is not closed may contain brackets, so the search ends at its quote.
    outside_strings = without_texts(text).partition('"')[0]
    open_brackets = ""
    for bracket in _BRACKET.findall(outside_strings):
        if bracket in "{[":
            open_brackets += bracket
        else:
            open_brackets = open_brackets[:-1]
    return "[{" in open_brackets


def _depth(text: str) -> int:
    """Return the deepest nesting of brackets in the text, those in strings included."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "{[" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def fold_keys(value: Any) -> dict[str, Any]:
    """Return the fields of an object by their keys in lower case without separators.

    The result is empty if the value is no object.
    """
    if not isinstance(value, Mapping):
        return {}
    return {"".join(filter(str.isalnum, str(key))).casefold(): item for key, item in value.items()}


def first_value(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the value of the first of the keys that has one, or None."""
    for key in keys:
        if fields.get(key) is not None:
            return fields[key]
    return None


def text_of(value: Any) -> str:
    """Return a string, a number or a list of strings as text; "" for any other value."""
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            return ""
        return ", ".join(map(text_of, value))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return clean(str(value))
