"""Which script a text is written in, and classes of characters for regular expressions."""

import re
from itertools import groupby
from unicodedata import category

CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CHINESE = re.compile(f"[{CHINESE}]")
_LETTER = re.compile(r"[^\W\d_]")
_CHINESE_SHARE = 0.3
_LAST_CASED = 0x2FFF


def _ranges(wanted: str) -> str:
    """The characters of a Unicode category below the CJK blocks, as the inside of a character class."""
    points = [point for point in range(_LAST_CASED + 1) if category(chr(point)) == wanted]
    runs = [[point for _, point in run] for _, run in groupby(enumerate(points), key=lambda pair: pair[1] - pair[0])]
    return "".join(chr(run[0]) if len(run) == 1 else f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


UPPER = _ranges("Lu")
LOWER = _ranges("Ll")


def is_chinese(text: str) -> bool:
    """Whether at least three in ten of the text's letters are Chinese characters."""
    chinese = len(_CHINESE.findall(text))
    return chinese > 0 and chinese >= _CHINESE_SHARE * len(_LETTER.findall(text))
