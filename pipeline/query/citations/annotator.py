"""The last step of an answer: its final text, and the citations in it as data.

Nothing changes the text after this step, so places of citations stay valid. Checked marks arrive
as placeholders, characters that no model can write. So nothing that a model writes becomes a
citation by itself. A number in brackets becomes a citation if its passage supports the sentence;
otherwise it is put into parentheses.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.query.citations.annotations import Annotation, Cited, Piece
from pipeline.query.citations.support import Passages, Statement
from pipeline.query.data_citations import parse_cited_records
from pipeline.query.marks import (
    BARE,
    BEGINS_BARE,
    FIRST_DATA,
    FIRST_PASSAGE,
    PLACEHOLDER,
    PLACEHOLDERS,
    parse_numbers,
    put_in_parentheses,
    read_bare,
)

_MEMBER = re.compile(rf"[{PLACEHOLDERS}]|{BARE.pattern}")
_BETWEEN = r"[ ,;]{0,3}"
_GROUP = re.compile(rf"(?:{_MEMBER.pattern})(?:{_BETWEEN}(?:{_MEMBER.pattern}))*")
_MAY_GO_ON = re.compile(rf"{_BETWEEN}(?:{BEGINS_BARE.pattern})?")
"""Everything that follows a group, if another citation may still join the group."""
_SPECIAL = re.compile(rf"\n|`+|[\[［【〔&{PLACEHOLDERS}]")
_SENTENCE_END = re.compile(rf"[.!?](?=[\s\"'”’»)*_])|[。！？…\n]|[{PLACEHOLDERS}]|{BARE.pattern}")
_FENCE_OPENING = re.compile(r"( {0,3})(`{3,}[^`\n]*|~{3,}[^\n]*)(?:\n|$)")
_MAY_OPEN_FENCE = re.compile(r" {0,3}(?:`*|~*|`{3,}[^`\n]*|~{3,}[^\n]*)")
_LIST_SIGN = re.compile(r"\s*(?:(?:[-*+>#|]+|\d{1,3}[.)])\s+)*")
_WORD = re.compile(r"\w")
LONGEST_SPAN = 300
"""Characters of a code span, of a fence's line, or after a citation that a stream waits for."""
LONGEST_GROUP = 2000
MOST_BEFORE = 1000
"""Characters before a citation among which its sentence is searched."""


@dataclass(frozen=True)
class _Fence:
    """The signs of an open block of code."""

    sign: str
    length: int
    indent: int


@dataclass(frozen=True)
class _Words:
    """The words before a citation; ``continues``: they follow a citation in the same sentence."""

    text: str
    continues: bool = False

    @cached_property
    def statement(self) -> Statement:
        return Statement.of(self.text, self.continues)

    @property
    def is_whole(self) -> bool:
        """True if the sentence ends before the citation."""
        return bool(re.search(r"[.!?。！？…][\s\"'”’»)*_]*$", self.text))


class Annotator:
    """A writer of the text in its final form, as it streams; it adds citations to ``cited``."""

    def __init__(self, passages: Passages, data: Sequence[str], cited: Cited):
        """Take the citations of records, which placeholders stand for; ``data`` may still grow."""
        self._passages, self._data, self._cited = passages, data, cited
        self._held, self._final = "", False
        self._written = 0
        self._fence: _Fence | None = None
        self._at_line_start, self._line_is_blank = True, True
        self._escaped = False
        # A backslash that escapes what follows is written with it, and not before a citation:
        # "\[1]" is shown as "\[1]" by a reader that knows no Markdown.
        self._pending = ""
        # In a paragraph with a backtick that closes nothing on its line, readers of Markdown may
        # see code elsewhere than this class does. So nothing in it counts as code, and no bare
        # number stays in brackets.
        self._without_code_spans = False
        self._before = ""
        self._last: _Words | None = None
        # The words behind the last citation may have been read as its statement. Then they are not
        # the next one's.
        self._cited_ahead, self._to_skip = False, 0
        self._text: list[str] = []
        self._annotations: list[Annotation] = []

    def stream(self, pieces: Iterable[str]) -> Iterator[Piece]:
        """Yield the text in pieces, each with its citations. Nothing that was yielded is changed by
        what follows."""
        for piece in pieces:
            self._held += piece
            yield from self._write_settled()
        self._final = True
        yield from self._write_settled()

    def _write_settled(self) -> Iterator[Piece]:
        """Write as much of the held text as is settled; yield it as a piece, if there is any."""
        while self._held and self._write_next():
            pass
        if self._final:
            self._write_pending()
        if self._text:
            piece = Piece("".join(self._text), tuple(self._annotations))
            self._text, self._annotations = [], []
            self._cited.annotations += piece.annotations
            yield piece

    def _write_next(self) -> bool:
        """Write the beginning of the held text; return False if that depends on text to come."""
        if self._fence:
            if self._at_line_start:
                return self._enter_line_in_fence(self._fence)
            return self._write_code_line()
        if self._at_line_start:
            return self._enter_line()
        special = _SPECIAL.search(self._held)
        if special is None or special.start() > 0:
            self._write_plain(special.start() if special else len(self._held))
            return True
        if self._held[0] == "\n":
            self._end_line()
            return True
        if self._held[0] == "`":
            return self._write_backticks(special[0])
        return self._write_bracket_or_citation()

    # Blocks of code

    def _enter_line(self) -> bool:
        """Begin a line, and a block of code if it opens one; return as ``_write_next``."""
        opening = _FENCE_OPENING.match(self._held)
        is_whole = opening is not None and (self._final or opening[0].endswith("\n"))
        if opening and is_whole and len(opening[0]) <= LONGEST_SPAN:
            signs = opening[2].rstrip("\n")
            length = len(signs) - len(signs.lstrip(signs[0]))
            self._fence = _Fence(signs[0], length, len(opening[1]))
            self._at_line_start = False
            return True
        if (
            not self._final
            and len(self._held) <= LONGEST_SPAN
            and _MAY_OPEN_FENCE.fullmatch(self._held)
        ):
            return False
        self._at_line_start = False
        return True

    def _enter_line_in_fence(self, fence: _Fence) -> bool:
        """Begin a line of code, and end the block if it closes it; return as ``_write_next``."""
        stripped = self._held.lstrip(" ")
        indent = len(self._held) - len(stripped)
        if not stripped and indent <= fence.indent + 3 and not self._final:
            return False
        if stripped and stripped[0] != "\n" and indent < fence.indent:
            # The list item that the block stands in may have ended, and the block with it.
            self._fence = None
            return True
        if stripped.startswith(fence.sign) and indent <= 3:
            line, newline, _ = self._held.partition("\n")
            if not newline and not self._final and len(line) <= LONGEST_SPAN:
                return False
            signs = line.strip()
            if (
                len(line) <= LONGEST_SPAN
                and len(signs) >= fence.length
                and not signs.strip(fence.sign)
            ):
                self._write_code(len(line))
                self._fence, self._at_line_start = None, False
                return True
        self._at_line_start = False
        return True

    def _write_code_line(self) -> bool:
        """Write the held rest of a line of code, or its line break; return True."""
        if self._held[0] == "\n":
            self._end_line()
            return True
        end = self._held.find("\n")
        self._write_code(end if end >= 0 else len(self._held))
        return True

    # Code in a line

    def _write_backticks(self, run: str) -> bool:
        """Write the code span that the backticks begin, or only them; return as ``_write_next``."""
        if self._escaped:
            self._write_plain(1)
            return True
        line = self._held.partition("\n")[0]
        if len(run) == len(self._held) and not self._final and len(run) <= LONGEST_SPAN:
            return False
        if self._without_code_spans:
            self._write_plain(len(run))
            return True
        line_is_whole = self._final or len(line) < len(self._held)
        window = line[:LONGEST_SPAN]
        window_is_whole = line_is_whole and len(window) == len(line)
        for closing in re.finditer("`+", window[len(run) :]):
            end = len(run) + closing.end()
            # A run of backticks at the end of what is there may yet become longer.
            if len(closing[0]) == len(run) and (window_is_whole or end < len(window)):
                self._write_code(end)
                return True
        if not line_is_whole and len(line) <= LONGEST_SPAN:
            return False
        self._without_code_spans = True
        self._write_plain(len(run))
        return True

    # Citations

    def _write_bracket_or_citation(self) -> bool:
        """Write the citations that come next, or a single bracket; return as ``_write_next``."""
        group = _GROUP.match(self._held, 0, LONGEST_GROUP)
        if group is None:
            if (
                not self._final
                and BEGINS_BARE.fullmatch(self._held)
                and len(self._held) <= LONGEST_SPAN
            ):
                return False
            self._write_plain(1)
            return True
        rest = self._held[group.end() :]
        if not self._final and len(self._held) < LONGEST_GROUP and _MAY_GO_ON.fullmatch(rest):
            return False
        said = self._find_statement()
        following: str | None = ""
        if said.statement.is_weak and PLACEHOLDER.search(group[0]):
            following = self._words_after(rest)
            if following is None:
                return False
            said = _Words(f"{said.text} {following}", said.continues)
        if self._last and self._cited_ahead and not _WORD.search(said.text):
            # Both cite the same statement, as in: according to [1], it is so [2].
            said = self._last
        self._held = rest
        if self._write_group(group[0], said):
            self._cited_ahead, self._to_skip = bool(following.strip()), len(following)
        return True

    def _find_statement(self) -> "_Words":
        """Return the sentence before a citation, or its words since the citation before it."""
        # This import loads a library that other questions do not need.
        from pipeline.text.sentences import find_sentences

        goes_on = self._last is not None and "\n" not in self._before
        lines = [line for line in self._before.split("\n") if _WORD.search(line)]
        if not lines:
            return self._last if self._last and goes_on and not self._cited_ahead else _Words("")
        signs = _LIST_SIGN.match(lines[-1])
        line = lines[-1][signs.end() :] if signs else lines[-1]
        spans = [span for span in find_sentences(line) if _WORD.search(line, *span)]
        start, end = spans[-1] if spans else (0, len(line))
        is_first = start == 0 and len(lines) == 1
        said = _Words(
            line[start:end],
            continues=bool(goes_on and is_first and self._last and not self._last.is_whole),
        )
        is_joint = said.continues and len(said.text.split()) <= 1 and not said.statement.names
        if self._last and is_joint and not self._cited_ahead:
            # Both cite the same statement, as in: [1] and [2].
            return self._last
        return said

    def _words_after(self, rest: str) -> str | None:
        """Return the words after a citation that begins its sentence; None if they may go on."""
        window = rest[:LONGEST_SPAN]
        if end := _SENTENCE_END.search(window):
            return window[: end.start()]
        return window if self._final or len(rest) >= LONGEST_SPAN else None

    def _write_group(self, group: str, said: "_Words") -> bool:
        """Write marks and bare numbers in a row; return whether any of them is a citation."""
        members = list(_MEMBER.finditer(group))
        numbers = [number for member in members for number in self._cited_numbers(member[0])]
        supported = self._passages.supporting(said.statement, numbers)
        citable = supported
        if said.statement.is_weak:
            # A few common words can be in any passage: they make a citation of a bare number only
            # where the passage says them in the same order.
            citable = self._passages.holding_the_clause(said.statement, supported)
        is_citation = [self._is_citation(member[0], citable) for member in members]
        if is_citation[0]:
            self._pending = ""
        end = 0
        for member, cites in zip(members, is_citation, strict=True):
            self._append(group[end : member.start()])
            if cites:
                self._write_citation(member[0], supported)
            else:
                self._append(self._make_harmless(member[0]))
            end = member.end()
        self._escaped, self._line_is_blank = False, False
        if any(is_citation):
            # The statement of the next citation begins here.
            self._before, self._last = "", said
            self._cited_ahead, self._to_skip = False, 0
        else:
            # The numbers may be meant as citations, so they are no part of the statement.
            self._remember_written(re.sub(r"\d", " ", group))
        return any(is_citation)

    def _cited_numbers(self, member: str) -> list[int]:
        """Return the numbers of passages that a placeholder or bare numbers refer to."""
        code = ord(member[0])
        if code >= FIRST_DATA:
            return parse_cited_records(self._data[code - FIRST_DATA]).get("sources", [])
        if code >= FIRST_PASSAGE:
            return [code - FIRST_PASSAGE]
        return parse_numbers(read_bare(member))

    def _is_citation(self, member: str, citable: frozenset[int]) -> bool:
        """Return whether the member is a checked mark or bare numbers of supporting passages."""
        is_placeholder = ord(member[0]) >= FIRST_PASSAGE
        if is_placeholder:
            return True
        numbers = self._cited_numbers(member)
        return bool(numbers) and citable.issuperset(numbers)

    def _write_citation(self, member: str, supported: frozenset[int]) -> None:
        """Write a citation; ``supported`` are the passages that support its statement."""
        code = ord(member[0])
        if code >= FIRST_DATA:
            self._write_data(self._data[code - FIRST_DATA], supported)
            return
        for number in self._cited_numbers(member):
            self._write_number(f"[{number}]", number, number in supported)

    def _make_harmless(self, bare: str) -> str:
        """Return bare numbers in parentheses; leave a list unchanged if it is no list of passages.

        Such a list is something else, for example an interval.
        """
        is_one_number = len(re.findall(r"\d+", read_bare(bare))) == 1
        numbers = self._cited_numbers(bare)
        are_passages = bool(numbers) and all(number in self._passages for number in numbers)
        if is_one_number or are_passages:
            return put_in_parentheses(bare)
        return bare

    def _write_data(self, citation: str, supported: frozenset[int]) -> None:
        """Write a citation of records; its numbers of text units are also citations of passages."""
        reports = parse_cited_records(citation).get("reports", ())
        self._cited.records += 1
        self._cited.reports += [number for number in reports if number not in self._cited.reports]
        sources = re.search(r"Sources \(([^()]*)\)", citation)
        end_of_last = 0
        if sources:
            for found in re.finditer(r"\d+", sources[1]):
                start = sources.start(1) + found.start()
                number = int(found[0])
                self._append(citation[end_of_last:start])
                self._write_number(found[0], number, number in supported)
                end_of_last = start + len(found[0])
        self._append(citation[end_of_last:])

    def _write_number(self, text: str, number: int, supported: bool) -> None:
        """Write the text of a citation of a passage and add it to what is cited."""
        start = self._written
        self._append(text)
        if number not in self._passages:
            return
        self._annotations.append(Annotation(start, self._written, number, supported))
        if number not in self._cited.sources:
            self._cited.sources.append(number)

    # Writing

    def _append(self, text: str) -> None:
        """Write the text, which is final, behind a backslash that waits for it."""
        if text:
            self._write_pending()
            self._text.append(text)
            self._written += len(text)

    def _write_pending(self) -> None:
        """Write the backslash that waits, if there is one."""
        if self._pending:
            self._text.append(self._pending)
            self._written += len(self._pending)
            self._pending = ""

    def _write_plain(self, length: int) -> None:
        """Write the first ``length`` characters of the held text, which hold no citation."""
        text, self._held = self._held[:length], self._held[length:]
        self._remember_written(text)
        n_backslashes = len(text) - len(text.rstrip("\\"))
        # A text of nothing but backslashes goes on with those before it.
        if self._escaped and n_backslashes == len(text):
            n_backslashes += 1
        # Each pair of backslashes is one that is shown: only a last one without another escapes.
        self._escaped = n_backslashes % 2 == 1
        if self._escaped:
            self._append(text[:-1])
            self._pending = "\\"
        else:
            self._append(text)

    def _write_code(self, length: int) -> None:
        """Write the first ``length`` characters of the held text, which are code.

        Numbers in brackets belong to the code; marks are citations there too.
        """
        text, self._held = self._held[:length], self._held[length:]
        end = 0
        for mark in PLACEHOLDER.finditer(text):
            self._append(text[end : mark.start()])
            self._remember_written(text[end : mark.start()])
            self._write_group(mark[0], self._find_statement())
            end = mark.end()
        self._append(text[end:])
        self._remember_written(text[end:])
        self._escaped = False

    def _end_line(self) -> None:
        """Write a line break."""
        self._held = self._held[1:]
        self._append("\n")
        self._remember_written("\n")
        if self._line_is_blank:
            self._without_code_spans = False
        self._at_line_start, self._line_is_blank, self._escaped = True, True, False

    def _remember_written(self, text: str) -> None:
        """Add written text to the words among which the next citation's statement is searched."""
        if text.strip():
            self._line_is_blank = False
        skipped = min(self._to_skip, len(text))
        self._to_skip -= skipped
        self._before = (self._before + text[skipped:])[-MOST_BEFORE:]
