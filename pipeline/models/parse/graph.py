"""Records of fields, ``("kind"<|>field<|>...)``, as models really write them. No reply raises.

Time grows with the length of the reply: every repetition in a pattern is bounded.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from pipeline.models.parsed import Item, Parsed, Problem, problem
from pipeline.models.reply_text import CLOSE, OPEN, QUOTES, balanced, one_line, plain

_Q = f"[{re.escape(QUOTES)}]"
_LT, _GT, _BAR, _HASH = "[<＜〈《⟨]", "[>＞〉》⟩]", "[|｜¦│]", "[#＃]"
_MARK = "\x1f"
_COMPLETION = re.compile(
    rf"(?:{_LT}\s?{_BAR}?|{_BAR})\s?/?\s?completed?\s?(?:{_BAR}?\s?{_GT}|{_BAR}|$)"
    r"|[<{]\|?completion_delimiter\|?[>}]|^\W{0,3}complete\W{0,3}\Z",
    re.IGNORECASE | re.MULTILINE,
)
_DELIMITER = re.compile(
    rf"{_LT}{{1,2}}\s?[/\\]?\s?{_BAR}\s?[^<>|\n\"]{{0,3}}?\s?{_BAR}{{0,2}}\s?[/\\]?\s?{_GT}{{1,2}}"
    r"|[<{]\|?(?:tuple_delimiter|sep)\|?[>}]",
    re.IGNORECASE,
)
_REMAINS = rf"{_LT}\s?{_BAR}{{1,3}}#?{_BAR}?|{_LT}?{_BAR}?#?{_BAR}{{1,2}}\s?{_GT}|{_LT}\s?[#/]?\s?{_GT}"
_DAMAGED = rf"(?:(?<!\s)(?:{_REMAINS})|(?:{_REMAINS})(?!\s)|(?<={_Q})\s?{_BAR}\s?(?={_Q}|\d))"
_DAMAGED_DELIMITER = re.compile(_DAMAGED)
_BARE_BAR = re.compile(_BAR)
_QUOTED_COMMA = re.compile(rf"(?<={_Q})\s?,\s?|,\s?(?={_Q})")
_SEPARATOR = re.compile(rf"(?<=[{CLOSE}\]}}])\s?##|##\s?(?:\n|\Z)")
_CLOSED_AFTER_QUOTE = re.compile(rf"(?:{_Q}|\d)\s?[{CLOSE}]{{1,3}}[\s,;]{{0,3}}(?:\n|\Z)")
_CLOSED = re.compile(rf"[{CLOSE}\]}}][ ,;]{{0,3}}(?:\n|\Z)")
_LINES = re.compile(r"##|\n")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Kind(Generic[Item]):
    """``words``: a pattern of its name; ``marks``: delimiters before the field that is its last, be it several lines;
    ``fields``: how many it has; ``read``: a record of its fields, None for a kind that is passed over."""

    words: str
    marks: int
    fields: int
    read: Callable[[list[str], str], Item | Problem] | None


@dataclass(frozen=True)
class RecordFormat(Generic[Item]):
    """``stray``: what is wrong with what has delimiters and is of no kind."""

    kinds: tuple[Kind[Item], ...]
    stray: str

    @cached_property
    def _head(self) -> re.Pattern[str]:
        words = "|".join(kind.words for kind in self.kinds)
        return re.compile(
            rf"(?:(?P<opened>[{OPEN}\[{{【])\s?|(?:^|(?<=##))\s?(?:\d{{1,4}}[.)]\s?|[-*•]\s)?[{OPEN}\[{{【]?\s?)"
            rf"[*_]{{0,2}}{_Q}{{0,3}}(?P<kind>{words}){_Q}{{0,3}}[*_]{{0,2}}[ \n]?"
            rf"(?:(?P<delimiter>{_MARK}|{_DAMAGED})|(?P<bar>{_BAR})|(?<={_Q})\s?(?P<comma>,))",
            re.IGNORECASE | re.MULTILINE,
        )

    def parse(self, reply: str) -> Parsed[Item]:
        """The records of a reply, however damaged."""
        text = _tidied(plain(reply))
        complete = _COMPLETION.search(text) is not None
        marked = _DELIMITER.sub(_MARK, _COMPLETION.sub("\n##\n", text)).strip()
        heads = list(self._head.finditer(marked))
        ends = [head.start() for head in heads[1:]] + [len(marked)]
        found: list[Item | Problem] = [*self._stray(marked[: heads[0].start()] if heads else marked)]
        for head, end in zip(heads, ends, strict=False):
            may_be_cut = end == len(marked) and not complete
            found += self._read(head, marked[head.end() : end], may_be_cut)
        return Parsed(
            records=tuple(one for one in found if not isinstance(one, Problem)),
            problems=tuple(one for one in found if isinstance(one, Problem)),
            complete=complete,
        )

    def _read(self, head: re.Match[str], region: str, may_be_cut: bool) -> list[Item | Problem]:
        """The record after this head, and what else stands before the next one."""
        kind = next(kind for kind in self.kinds if re.fullmatch(kind.words, head["kind"], re.IGNORECASE))
        body, closed, rest = _cut(region, bool(head["opened"]), kind.marks)
        if kind.read is None:
            return [*self._stray(rest)]
        shown = f"{head[0]}{body}"
        if may_be_cut and not closed and _ends_midway(body):
            return [record_problem("truncated", shown, "the reply ends inside this record")]
        return [kind.read(_fields(head, body, kind.fields), shown), *self._stray(rest)]

    def _stray(self, text: str) -> list[Problem]:
        """Lines between records that look like one."""
        lines = _LINES.split(text) if _MARK in text else ()
        return [record_problem("kind", line, self.stray) for line in lines if _MARK in line]


def _tidied(text: str) -> str:
    """White space collapsed, line ends that the reply spells out made real, record separators as ``##``."""
    lines = text if "\n" in text.strip() else text.replace("\\n", "\n")
    spaced = _LINE_ENDS.sub("\n", _SPACES.sub(" ", lines))
    return _BLANK_LINES.sub("\n\n", spaced).replace("＃＃", "##")


def _cut(region: str, opened: bool, marks: int) -> tuple[str, bool, str]:
    """(record, whether it was closed, what follows it). A closing parenthesis ends a record only after its
    last delimiters, for a field may hold some at the end of a line."""
    separator = _SEPARATOR.search(region)
    region, rest = (region[: separator.start()], region[separator.end() :]) if separator else (region, "")
    start = 0
    for _ in range(marks):
        start = region.find(_MARK, start) + 1 or start
    quoted = region[start : start + 2].strip()[:1] in QUOTES
    end = (_CLOSED_AFTER_QUOTE.search(region, start) if quoted else None) or _CLOSED.search(region, start)
    if opened and end:
        return region[: end.end()], True, region[end.end() :] + rest
    broken = region.find("\n\n" if opened else "\n", start)
    if broken < 0:
        return region, separator is not None, rest
    return region[:broken], True, region[broken:] + rest


def _ends_midway(body: str) -> bool:
    end = body.rstrip()[-1:]
    return not end or not (end.isdigit() or end in QUOTES + CLOSE + ".!?。！？")


def _fields(head: re.Match[str], body: str, wanted: int) -> list[str]:
    """The body's fields; delimiters that are damaged count where the others give too few."""
    trimmed = balanced(body.strip(" \n,;]}"))
    if head["bar"]:
        return _BARE_BAR.split(trimmed)
    if head["comma"]:
        return _QUOTED_COMMA.split(trimmed)
    fields = trimmed.split(_MARK)
    if len(fields) < wanted:
        fields = [piece for field in fields for piece in _split_damaged(field)]
    while len(fields) > 2 and not fields[-1].strip(QUOTES + " \n"):
        fields.pop()
    return fields


def _split_damaged(field: str) -> list[str]:
    """A delimiter has something on both sides: ``vector<>`` is a name."""
    pieces = _DAMAGED_DELIMITER.split(field)
    return pieces if all(piece.strip(QUOTES + " \n") for piece in pieces) else [field]


def running_text(pieces: list[str]) -> str:
    """Fields that are one text, on one line."""
    return " ".join(filter(None, map(one_line, pieces))).replace(_MARK, " ")


def record_problem(reason: str, text: str, message: str) -> Problem:
    return problem(reason, text[:400].replace(_MARK, "<|>"), message)
