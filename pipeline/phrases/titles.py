"""Use the titles of documents as names: decide which are names, and find them in texts."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from pipeline.contract.schemas import FILE_NAME, NAMING
from pipeline.phrases.lexicon import ARTICLES, CALENDAR, DEMONYMS, LABELS, STARTERS
from pipeline.phrases.names import (
    CHINESE,
    UPPER,
    Name,
    is_chinese,
    leftmost_longest,
    without_article,
)
from pipeline.text.file_names import names_subject
from pipeline.text.ids import clean_name, match_key

_QUALIFIER = re.compile(r"\s*[(（](?P<within>[^()（）]*)[)）]$|,\s\d{4}(?:\s?[-–]\s?\d{2,4})?$")
_CATALOGUED_PERSON = re.compile(r"(?P<surname>[^,()]+), (?P<given>[^,()]+) \([^()]*\d{3,4}[^()]*\)")
_FIRST_WORD = re.compile(rf"(?<![\w'’&-])[{UPPER}\d]\w*")
_WORD_ENDS = re.compile(rf"(?![\w+#@]|[-'’&][{UPPER}])")
_CHINESE_CHARACTER = re.compile(rf"[{CHINESE}](?=\w)")
_NEVER_ALONE = STARTERS | ARTICLES | CALENDAR | DEMONYMS | LABELS
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_VERSION = re.compile(
    r"(?:^|[\s_.(-]+)(?:v|ver|version|rev|revision)[\s_.-]?\d+(?:[._]\d+)*\)?$", re.IGNORECASE
)
"""The end of a file's name that says which version it holds: travel-v2, Travel (rev 3)."""
_SITE = re.compile(r"\s+[-–—|·]\s+[^-–—|·]{1,60}$")
"""The end of a title that may name what the document is a part of: "Ann Moor - Wikipedia"."""
SITE_TITLES = 5
"""The fewest titles that share such an end if it names a site and no subject."""


class TitleRow(NamedTuple):
    """A document by its title; a blank ``title_from`` means that the title was given."""

    id: str
    title: str
    title_from: str
    aliases: tuple[str, ...] = ()
    source: str = ""


def naming_titles(documents: Iterable[TitleRow]) -> dict[str, str]:
    """Map the ids of documents to their titles if these name what the documents are about.

    A title counts if `may_name` says so, and if no other document has it, be it as its first line:
    a letterhead is nobody's name. Files that differ in the version that their names end with are
    one document here.
    """
    naming: list[tuple[TitleRow, str]] = []
    works_with_title: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        may_be_name = may_name(document.title, document.title_from)
        # A file's name that is no name takes no title away from another document.
        is_mere_file_name = document.title_from == FILE_NAME and not may_be_name
        if is_mere_file_name or not document.title.strip():
            continue
        key = match_key(title_name(document.title))
        works_with_title[key].add(_work_of(document))
        if may_be_name:
            naming.append((document, key))
    titles: dict[str, str] = {}
    for document, key in naming:
        if len(works_with_title[key]) == 1:
            titles[document.id] = document.title
    return titles


def _work_of(document: TitleRow) -> str:
    """Return what the versions of a document have in common: the path without the version."""
    path = PurePosixPath(document.source)
    unversioned = _VERSION.sub("", path.stem)
    # Records of one file have its name, and # with their place.
    is_record = "#" in document.source
    if is_record or unversioned in ("", path.stem):
        return document.id
    return f"{path.parent}/{unversioned}"


class Names(NamedTuple):
    """The title of a document as a name, and the further names that the document gives itself."""

    title: str
    aliases: tuple[str, ...] = ()


def names_of_documents(documents: Sequence[TitleRow]) -> dict[str, Names]:
    """Map the ids of documents to their names, for those with a title that `naming_titles` takes.

    An alias counts if no other document has it as an alias or as its title. Names are made of
    titles without the name of a site behind them.
    """
    documents = without_sites(documents)
    titles = naming_titles(documents)
    works_with_name: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        work = _work_of(document)
        for name in (document.title, *document.aliases):
            key = match_key(title_name(name))
            works_with_name[key].add(work)
    names_by_id: dict[str, Names] = {}
    for document in documents:
        if document.id not in titles:
            continue
        own_aliases: list[str] = []
        for alias in document.aliases:
            name = title_name(alias)
            if name and len(works_with_name[match_key(name)]) == 1:
                own_aliases.append(name)
        names_by_id[document.id] = Names(titles[document.id], tuple(own_aliases))
    return names_by_id


def without_sites(documents: Iterable[TitleRow]) -> list[TitleRow]:
    """Return the documents with their titles cut where SITE_TITLES or more of them end alike.

    Such an end begins with a dash or a bar between spaces: " - Wikipedia", " | Company Handbook".
    """
    documents = list(documents)
    site_ends = [_SITE.search(document.title) for document in documents]
    # Versions of one document count as one title.
    works_with_end: dict[str, set[str]] = defaultdict(set)
    for document, site_end in zip(documents, site_ends, strict=True):
        if site_end:
            works_with_end[match_key(site_end[0])].add(_work_of(document))
    without_ends: list[TitleRow] = []
    for document, site_end in zip(documents, site_ends, strict=True):
        subject = document.title
        # A title that is nothing but such an end stays.
        if site_end and site_end.start() > 0:
            n_titles = len(works_with_end[match_key(site_end[0])])
            if n_titles >= SITE_TITLES:
                subject = document.title[: site_end.start()]
        without_ends.append(document._replace(title=subject))
    return without_ends


def may_name(title: str, title_from: str) -> bool:
    """Return whether a title of this origin may name what its document is about.

    It was given, is a heading, or is a file's name that looks like a name.
    """
    return title_from in NAMING or (title_from == FILE_NAME and names_subject(title))


def title_name(title: str) -> str:
    """Return the title as the name of an entity: on one line, without an article in front."""
    return without_article(clean_name(title))


def title_aliases(title: str) -> list[str]:
    """Return other names for what the title names.

    "Name (qualifier)" and "Name, 1826-1958" give the name. They give the qualifier too if it is in
    another script, as in a Chinese title with the English name. "Moor, Ann (1801-1866), engineer"
    gives "Ann Moor".
    """
    name = title_name(title)
    person = _CATALOGUED_PERSON.match(name)
    if person:
        return [f"{person['given']} {person['surname']}"]
    qualified = _QUALIFIER.search(name)
    if not qualified:
        return []
    base = name[: qualified.start()]
    if not base:
        return []
    qualifier = clean_name(qualified["within"] or "")
    is_in_other_script = is_chinese(base) != is_chinese(qualifier)
    return [base, qualifier] if qualifier and is_in_other_script else [base]


def title_forms(title: str) -> list[str]:
    """Return the title as a name, followed by its aliases."""
    return [title_name(title), *title_aliases(title)]


class Spellings:
    """A search for names by their beginnings.

    A text is compared once for each length of the names with its beginning. So the time does not
    grow with the number of names.
    """

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Take pairs of a beginning and a name."""
        self._names: set[str] = set()
        lengths_of_names: dict[str, set[int]] = defaultdict(set)
        for beginning, name in names:
            self._names.add(name)
            lengths_of_names[beginning].add(len(name))
        # The longest first, so that no search stops at a name within a longer one.
        self._lengths = {
            beginning: sorted(lengths, reverse=True)
            for beginning, lengths in lengths_of_names.items()
        }

    def at(self, beginning: str, text: str, start: int) -> Iterator[str]:
        """Yield the names that ``text`` has at ``start``, the longest first.

        ``beginning`` is the beginning of the text there, as given with the names.
        """
        for length in self._lengths.get(beginning, ()):
            name = text[start : start + length]
            if name in self._names:
                yield name


class Gazetteer:
    """A search for names in sentences by their exact spelling.

    ``keys`` holds the match keys of the names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        distinct = frozenset(names)
        searched: list[tuple[str, str]] = []
        for name in distinct:
            beginning = _beginning(name)
            if beginning:
                searched.append((beginning, name))
        self._spellings = Spellings(searched)
        self.keys = frozenset(map(match_key, distinct))

    @classmethod
    def of_titles(cls, titles: Iterable[str], aliases: Iterable[str] = ()) -> "Gazetteer":
        """Return a gazetteer of the titles with their other forms, and of the ``aliases``."""
        forms = chain.from_iterable(map(title_forms, titles))
        return cls(chain(forms, aliases))

    def find(self, sentence: str) -> list[Name]:
        """Return the names in the sentence, none overlapping; line breaks count as spaces."""
        on_one_line = sentence.replace("\n", " ")
        found = self._longest_at_each_word(on_one_line)
        return leftmost_longest(list(found))

    def _longest_at_each_word(self, sentence: str) -> Iterator[Name]:
        """Yield the longest name that begins at each word or Chinese character."""
        for found in _FIRST_WORD.finditer(sentence):
            start = found.start()
            for name in self._spellings.at(found[0], sentence, start):
                if _ends_word(sentence, name, start + len(name)):
                    yield Name(start, start + len(name), name)
                    break
        for found in _CHINESE_CHARACTER.finditer(sentence):
            start = found.start()
            for name in self._spellings.at(sentence[start : start + 2], sentence, start):
                yield Name(start, start + len(name), name)
                break


class TitleSearch:
    """A fast test of whether a text may have one of several names.

    It compares letters and digits only and ignores all else. It finds every text in which a
    `Gazetteer` finds one of the names, or which has a name with the match key of one of them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        letters = {"".join(_words(name)) for name in names}
        self._spellings = Spellings((name[:2], name) for name in letters)

    def may_find(self, text: str) -> bool:
        """Return whether the text may have one of the names; True may be wrong, False is not."""
        words = _words(text)
        letters = "".join(words)
        start = 0
        for word in words:
            # A name of a single letter has a beginning of one letter.
            for length in (2, 1):
                beginning = letters[start : start + length]
                if next(self._spellings.at(beginning, letters, start), None):
                    return True
            start += len(word)
        return False


def _words(text: str) -> list[str]:
    """Split the letters and digits of a text, folded like a match key, where a name may begin.

    A text in ASCII is split into words, any other text into characters.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    decomposed = unicodedata.normalize("NFKD", text)
    # Folding the case of a letter may compose it again.
    folded = unicodedata.normalize("NFKD", decomposed.casefold())
    return [character for character in folded if character.isalnum()]


def _beginning(name: str) -> str | None:
    """Return the text by which a name is looked up, or None if the name is never looked for.

    It has two characters of a Chinese name, and the first word of others.
    """
    if is_chinese(name[:2]):
        return name[:2]
    if name.isdigit() or name.lower() in _NEVER_ALONE:
        return None
    found = _FIRST_WORD.match(name)
    return found[0] if found else None


def _ends_word(sentence: str, name: str, end: int) -> bool:
    """Return whether no longer word begins with the name that ends at ``end`` of the sentence."""
    return not name[-1].isalnum() or _WORD_ENDS.match(sentence, end) is not None
