"""Tell names of files that name what they are about from numbers, codes and habits of programs."""

import re

_LONGEST = 120
# Letters of scripts without case count as capitals: 林海.md is a name.
_PART = r"[^\W\d_]+(?:[.'’&-]+[^\W\d_]+)*"
_ONE_WORD = re.compile(_PART)
_WORDS = re.compile(r"[\w'’&.,;!()（）·–—+-]+(?: [\w'’&.,;!()（）·–—+-]+)+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CODE = re.compile(r"[0-9a-f-]{16,}", re.IGNORECASE)
_OF_PROGRAMS = frozenset(
    """
    attachment book chapter copy doc document draft export file final foto home image img index
    introduction layout new note notes microsoft of output page part photo picture pdf powerpoint
    presentation print readme rev scan scanned screenshot section sheet slide template text the
    title untitled v version word workbook
    """.split()
)
"""Words that name no subject, even together and with numbers: "Scan 12", "Copy of document"."""


def is_name(stem: str) -> bool:
    """Return whether a file's name without its suffix looks like a name or a title.

    It is one word of letters with a capital and small letters, or several words with a space
    between them. ``doc-3``, ``IMG_2031``, ``2024-05-03``, ``README`` and "Scan 12" are none.
    """
    stem = stem.strip()
    if len(stem) > _LONGEST or "_" in stem:
        return False
    words = [word.casefold() for word in _LETTERS.findall(stem)]
    # A name without a letter has no words, so it is none either.
    if all(word in _OF_PROGRAMS for word in words):
        return False
    if any(_CODE.fullmatch(part) for part in stem.split()):
        return False
    if _WORDS.fullmatch(stem):
        return True
    is_one_word = _ONE_WORD.fullmatch(stem) is not None
    return is_one_word and _is_capitalised(stem)


def names_subject(title: str) -> bool:
    """Return whether a title that is a file's name may name what its document is about.

    Words in small letters alone, as "meeting notes", describe it rather than name a subject.
    """
    has_case = title.lower() != title.upper()
    is_description = has_case and title == title.lower()
    return not is_description and is_name(title)


def _is_capitalised(word: str) -> bool:
    """Return whether a word begins with a capital before small letters; True without case."""
    has_case = word.lower() != word.upper()
    if not has_case:
        return True
    is_in_capitals = word == word.upper()
    return word[0].isupper() and not is_in_capitals
