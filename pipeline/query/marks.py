"""Marks of citations: those that a model is asked to write, and bare numbers in brackets.

An answer cites a passage as ``[ref:3]``, and a record as ``[Data: Sources (2)]``. A document may
hold the same characters, and a model that copies them would cite an unrelated passage. So prompts
show the text of documents with these marks made harmless (``inert``).
"""

import re
from html import unescape

from pipeline.query.data_citations import CITATION

NUMBER = r"\d{1,9}"
LONGEST_LIST, LONGEST_BARE_LIST = 150, 20
"""Most further numbers in one mark, and in one pair of brackets without a sign."""
WIDEST = 50
"""Most numbers of a range that are written out; of a longer range only its ends count."""
_LIST = rf"refs? ?: ?{NUMBER}(?: ?[,;–-] ?(?:refs? ?: ?)?{NUMBER}){{0,{LONGEST_LIST}}} ?"
MARKED = re.compile(
    rf" ?(?:\(\[ ?{_LIST}\]\)|\[ ?{_LIST}\]|【 ?{_LIST}】|\( ?{_LIST}\))", re.IGNORECASE
)
_OPEN, _CLOSE = r"\[［【〔", r"\]］】〕"
_NO_SHAPE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_SPACES = " \t\u00a0\u2000-\u200a\u202f\u205f\u2800\u3000"
_GAP_SIGNS = rf"{_SPACES}{_NO_SHAPE}\\*_~"
"""Characters, as ranges of a character set, with which ``[3]`` looks as it does without them: in
Markdown ``\\[3\\]`` and ``[**3**]`` are shown so too."""
_REFERENCE = "&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,24});"
_TAG = r"<[A-Za-z/!?][^<>\n]{0,60}>"
_OPENING = rf"(?:[{_OPEN}]|&(?:#0{{0,4}}91|#[xX]0{{0,4}}5[bB]|lbrack|lsqb);)"
_CLOSING = rf"(?:[{_CLOSE}]|&(?:#0{{0,4}}93|#[xX]0{{0,4}}5[dD]|rbrack|rsqb);)"
"""Brackets, also as characters of HTML: ``&#91;``."""
_LINE_BREAK = rf"\n(?=[ \t]{{0,3}}[\d{_CLOSE}])"
_UNIT = rf"(?:[{_GAP_SIGNS}\d,;–-]|{_REFERENCE}|{_TAG}|{_LINE_BREAK})"
BARE = re.compile(rf"{_OPENING}{_UNIT}{{1,200}}{_CLOSING}")
"""A text in brackets that may be shown as numbers alone: ``[3]``, ``[1, 3]``, ``【2】``.
``read_bare`` says whether it is."""
BEGINS_BARE = re.compile(
    rf"&#?\w{{0,7}}|{_OPENING}(?:{_UNIT}|\n){{0,200}}(?:&#?\w{{0,24}}|<[^<>\n]{{0,61}})?"
)
"""The end of a text that may become numbers in brackets."""
_SHOWN_BARE = re.compile(
    rf"[{_OPEN}](?:\d{{1,30}}|{NUMBER}(?:[,;–-]{NUMBER}){{1,{LONGEST_BARE_LIST}}})[{_CLOSE}]"
)
_NOT_SHOWN = re.compile(rf"{_TAG}|[{_GAP_SIGNS}\s]")
_BRACKETS = re.compile(rf"^{_OPENING}(.*){_CLOSING}$", re.DOTALL)
_OPENS_DATA = re.compile(r"\[(Data):", re.IGNORECASE)
_MAY_CITE = re.compile(rf"{_OPENING}|\( ?ref", re.IGNORECASE)
"""The beginning of each mark that ``inert`` changes. Few texts have one."""
_RANGE = re.compile(rf"({NUMBER})(?: ?[–-] ?(?:refs? ?: ?)?({NUMBER}))?", re.IGNORECASE)
_AS_PARENTHESES = str.maketrans("[］［]【】〔〕", "()()()()")
_NO_MARK = _AS_PARENTHESES | {ord(":"): " "}
_NO_DATA = _AS_PARENTHESES | {ord(":"): None}

FIRST_PASSAGE, FIRST_DATA, LAST = 0xF0000, 0x100000, 0x10FFFF
"""Placeholders of citations: characters of the two Unicode planes for private use."""
MOST_PASSAGES, MOST_DATA = FIRST_DATA - FIRST_PASSAGE, LAST + 1 - FIRST_DATA
PLACEHOLDERS = f"{chr(FIRST_PASSAGE)}-{chr(LAST)}"
"""The placeholders as a range in a character set of a pattern."""
PLACEHOLDER = re.compile(f"[{PLACEHOLDERS}]")


def parse_numbers(mark: str) -> list[int]:
    """Return the numbers that a mark names, each once, ranges written out."""
    numbers: dict[int, None] = {}
    for span in _RANGE.finditer(mark):
        first = int(span[1])
        last = int(span[2]) if span[2] else first
        is_written_out = first <= last < first + WIDEST
        named = range(first, last + 1) if is_written_out else (first, last)
        numbers |= dict.fromkeys(named)
    return list(numbers)


def read_bare(text: str) -> str:
    """Return what ``BARE`` has found as a reader sees it: ``[3]`` for ``[**3**]`` and ``&#91;3]``.

    Return "" if it is shown as anything else than numbers in brackets.
    """
    without_tags = _NOT_SHOWN.sub("", text)
    # A character of HTML may stand for one that is not shown either.
    shown = _NOT_SHOWN.sub("", unescape(without_tags))
    return shown if _SHOWN_BARE.fullmatch(shown) else ""


def put_in_parentheses(bare: str) -> str:
    """Return ``[3]`` as ``(3)``, so that it is no citation."""
    return _BRACKETS.sub(r"(\1)", bare)


def inert(text: str) -> str:
    """Return a document's text without anything that a model could copy as a citation.

    ``[ref:3]`` becomes ``(ref 3)``, ``[Data: Sources (2)]`` becomes ``(Data Sources (2))``, ``[3]``
    becomes ``(3)``.
    """
    if not _MAY_CITE.search(text):
        return text
    text = CITATION.sub(lambda found: found[0].translate(_NO_DATA), text)
    text = MARKED.sub(lambda found: found[0].translate(_NO_MARK), text)
    text = BARE.sub(_make_bare_harmless, text)
    # A mark inside another one hides it until now, as in "[Data: Sources (2) [1]]".
    return _OPENS_DATA.sub(r"(\1", text)


def _make_bare_harmless(found: re.Match[str]) -> str:
    """Return what ``BARE`` has found in parentheses if it is shown as numbers, else unchanged."""
    is_shown_as_numbers = bool(read_bare(found[0]))
    return put_in_parentheses(found[0]) if is_shown_as_numbers else found[0]


def on_one_line(text: str) -> str:
    """Return a title or a source without line breaks and citations, so that it cannot look like
    another entry of a list."""
    return inert(" ".join(text.split()))


def remove_placeholders(text: str) -> str:
    """Return the text without placeholders, so that no model can write one."""
    return PLACEHOLDER.sub("\ufffd", text)


def placeholder(number: int) -> str:
    """Return the character that stands for a citation of this passage, below ``MOST_PASSAGES``."""
    return chr(FIRST_PASSAGE + number)


def data_placeholder(place: int) -> str:
    """Return the character that stands for the citation of records at this place of a list."""
    return chr(FIRST_DATA + place)
