"""Versions of one document among the passages found: which is newer, and their order.

A passage is never hidden. Versions of one document are known by their metadata (``supersedes``, and
``version``, ``status`` or date) where their titles are equal or their texts nearly the same. Files
whose names differ only in a version at the end, as rules-v1.md and rules-v2.md, are versions too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.query.search.named_versions import (
    YEAR,
    NamedVersions,
    Version,
    find_versions,
    read_named_versions,
    read_numbers,
    strip_zeros,
)
from pipeline.stores.records import Passage
from pipeline.text.shingles import compute_resemblance, hash_shingles

DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
"""A date as ISO 8601 writes it, with the precision that is known, at the beginning of a text."""
ASKS_NEWEST = re.compile(
    r"\b(?:current|currently|latest|newest|most recent|up[- ]to[- ]date|as of|nowadays|"
    r"aktuell\w*|neue?ste[nrsm]?|derzeit\w*|momentan|zurzeit|actuel\w*|actual(?:es|mente)|"
    r"(?:el|la|los|las|del|su|nuestr[ao]) (?:\w+ ){1,3}actual)\b|最新|目前|現在|现在",
    re.IGNORECASE,
)
"""Words of a question that asks for the newest version.

Spanish "actual" counts behind an article alone: the English word means something else.
"""
_ENDED = frozenset(
    ("superseded", "obsolete", "withdrawn", "archived", "replaced", "expired", "veraltet")
)
"""Values of ``status`` of a document that another one has replaced."""
_VERSION_IN_NAME = re.compile(
    r"(?P<rest>.*[^-_ ])[-_ ]v(?P<version>\d{1,4}(?:\.\d{1,4}){0,3})", re.IGNORECASE
)
"""A path without its ending whose last part is a version. Without the "v" a number may be a part of
a series, or a year."""
MOST_COMPARED = 100
"""Most passages among which versions are looked for: each is compared with each."""
NEARLY_THE_SAME = 0.7
"""The least resemblance of two passages that count as versions of one text."""
FEWEST_SHINGLES = 30
"""The fewest shingles of a passage that is compared: short texts are alike by chance."""
MOST_NAMES, LONGEST_NAME, LONGEST_VERSION = 100, 1000, 100
"""Most names that ``supersedes`` may list, and most characters of a name and of a version that are
read. A longer value would be read again in each comparison."""


def wants_newest(question: str, prefer: str) -> bool:
    """Return whether newer documents of one title come first.

    ``prefer`` is the option of the request. A question that names a year asks for that one.
    """
    asks = ASKS_NEWEST.search(question) is not None and YEAR.search(question) is None
    return prefer == "newest" or asks


def order_versions(passages: Sequence[Passage], question: str, prefer: str) -> list[Passage]:
    """Return the passages so that a newer version comes before each older one.

    The first passage of each newer version comes before the older one, newest first, if none of
    this version is placed yet. All others keep their order. Passages with nearly the same text
    and different dates count as versions. In a question for the newest (``wants_newest``), so do
    documents with the same title and different dates. A question that names a version or a date
    has this version first, and one that names another year keeps the order.
    """
    compared = passages[:MOST_COMPARED]
    newer_than = find_preferred(compared, question, prefer)
    placed: dict[str, Passage] = {}

    def place(passage: Passage, before: frozenset[str]) -> None:
        """Place the passage behind newer versions; ``before``: ids of those that wait for it."""
        newer = newer_than[passage.id]
        placed_documents = {other.document_id for other in newer if other.id in placed}
        for other in newer:
            if other.document_id in placed_documents or other.id in before:
                continue
            place(other, before | {passage.id})
            # This has also placed what is newer than the other.
            placed_documents = {other.document_id for other in newer if other.id in placed}
        placed[passage.id] = passage

    for passage in compared:
        if passage.id not in placed:
            place(passage, frozenset())
    return [*placed.values(), *passages[MOST_COMPARED:]]


def find_preferred(
    passages: Sequence[Passage], question: str, prefer: str
) -> dict[str, list[Passage]]:
    """Return the id of each passage -> the other versions that the question prefers to it.

    Where the question names a version that is among them, this is the only one. Otherwise these
    are the newer ones. In a question for the newest (``wants_newest``) documents with the same
    title and different dates are versions too. A question that names a year prefers no newer one.
    """
    newest = wants_newest(question, prefer)
    if YEAR.search(question) and not newest:
        preferred: dict[str, list[Passage]] = {passage.id: [] for passage in passages}
    else:
        preferred = find_newer(passages, by_date=newest)
    named = read_named_versions(question)
    if prefer == "newest":
        # The caller has said what counts more than a date.
        named = NamedVersions(named.versions)
    if not named.versions and not named.dates:
        return preferred
    for family in _list_families(passages):
        chosen = _choose_named(family, named)
        if chosen:
            chosen_ids = {passage.id for passage in chosen}
            for fields in family:
                is_chosen = fields.passage.id in chosen_ids
                preferred[fields.passage.id] = [] if is_chosen else chosen
    return preferred


def _list_families(passages: Sequence[Passage]) -> list[list["_Fields"]]:
    """Return the passages that are versions of each other, directly or over others."""
    newer_than = find_newer(passages, by_date=True)
    neighbours: dict[str, set[str]] = {passage.id: set() for passage in passages}
    for id, newer in newer_than.items():
        for other in newer:
            neighbours[id].add(other.id)
            neighbours[other.id].add(id)
    families: list[list[_Fields]] = []
    placed: set[str] = set()
    for passage in passages:
        if passage.id in placed:
            continue
        members = {passage.id}
        waiting = [passage.id]
        while waiting:
            found = neighbours[waiting.pop()] - members
            members |= found
            waiting += found
        placed |= members
        families.append([_read_fields(one) for one in passages if one.id in members])
    return families


def _choose_named(family: Sequence["_Fields"], named: NamedVersions) -> list[Passage]:
    """Return the passages of the versions that are named; empty if there is none.

    A version counts more than a date: "What does v1 say of 2024?" asks for v1.
    """
    chosen: dict[str, Passage] = {}
    for version in named.versions:
        for fields in _keep_newest(_with_version(family, version)):
            chosen[fields.passage.id] = fields.passage
    if chosen:
        return list(chosen.values())
    for date in named.dates:
        for fields in _keep_newest(_with_date(family, date, named.as_of)):
            chosen[fields.passage.id] = fields.passage
    return list(chosen.values())


def _with_version(family: Sequence["_Fields"], version: Version) -> list["_Fields"]:
    """Return the passages of this version, or else those of its parts, as 1.2 of 1."""
    exact = [fields for fields in family if fields.any_version == strip_zeros(version)]
    within = [fields for fields in family if fields.any_version[: len(version)] == version]
    return exact or within


def _with_date(family: Sequence["_Fields"], date: str, as_of: bool) -> list["_Fields"]:
    """Return the passages with this date, to the precision that is known.

    ``as_of``: whether those with an earlier date follow where none has this one.
    """
    dated = [fields for fields in family if fields.date]
    found = [
        fields for fields in dated if fields.date.startswith(date) or date.startswith(fields.date)
    ]
    if not found and as_of:
        return [fields for fields in dated if fields.date < date]
    return found


def _keep_newest(found: Sequence["_Fields"]) -> list["_Fields"]:
    """Return those of which no newer version is among them."""
    return [one for one in found if not any(_is_older(one, other, by_date=True) for other in found)]


def find_newer(passages: Sequence[Passage], by_date: bool = False) -> dict[str, list[Passage]]:
    """Return the id of each passage -> those of newer versions of its document, in their order.

    The newer ones are looked for among the first MOST_COMPARED passages.
    ``by_date``: whether documents with the same title and different dates are versions, also where
    their texts differ much. Passages with nearly the same text are versions in any case.
    """
    # Each passage is compared with each, so the fields of one are read once and not in each pair.
    read = [_read_fields(passage) for passage in passages]
    compared = read[:MOST_COMPARED]
    newer: dict[str, list[Passage]] = {}
    for one in read:
        found = [other.passage for other in compared if _is_older(one, other, by_date)]
        newer[one.passage.id] = found
    return newer


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a passage by which versions of its document are known.

    ``document_id``: that of the passage. ``title``: in lower case. ``supersedes``: the names that
    its document lists there, in lower case. ``has_ended``: whether ``status`` says so. ``version``
    and ``date``: empty if there is none. ``unversioned_source``: the source without the version at
    the end of the file's name, in lower case; ``version_in_name``: this version. Both are empty if
    the name has none. ``any_version``: the version, or else that of the name, or of the title.
    """

    passage: Passage
    document_id: str
    title: str
    supersedes: frozenset[str]
    has_ended: bool
    version: Version
    date: str
    unversioned_source: str
    version_in_name: Version
    any_version: Version


def _read_fields(passage: Passage) -> _Fields:
    unversioned_source, version_in_name = _split_source(passage.source)
    version = _version(passage)
    in_title = find_versions(passage.title[:LONGEST_NAME])
    version_in_title = strip_zeros(in_title[0]) if in_title else ()
    return _Fields(
        passage,
        passage.document_id,
        passage.title.casefold(),
        supersedes=_names_in(passage, "supersedes"),
        has_ended=_has_ended(passage),
        version=version,
        date=date_of(passage),
        unversioned_source=unversioned_source,
        version_in_name=version_in_name,
        any_version=version or version_in_name or version_in_title,
    )


def _split_source(source: str) -> tuple[str, Version]:
    """Return the source without the version in the file's name, and this version; else empty."""
    path, dot, ending = source[:LONGEST_NAME].rpartition(".")
    # A version in a name without an ending may have a dot itself: "rules-v2.1".
    found = _VERSION_IN_NAME.fullmatch(path) if not ending.isdigit() else None
    if found is None:
        return "", ()
    version = strip_zeros(read_numbers(found["version"]))
    return f"{found['rest']}{dot}{ending}".casefold(), version


def _is_older(one: _Fields, other: _Fields, by_date: bool) -> bool:
    """Return whether ``one`` is of an older version of the document of ``other``."""
    if one.document_id == other.document_id:
        return False
    if _supersedes(other, one):
        return True
    if _supersedes(one, other):
        return False
    same_title = bool(one.title.strip()) and one.title == other.title
    if one.has_ended != other.has_ended:
        return one.has_ended and (same_title or _is_nearly_the_same(one.passage, other.passage))
    if one.version and other.version and one.version != other.version:
        is_lower = one.version < other.version
        return is_lower and (same_title or _is_nearly_the_same(one.passage, other.passage))
    same_name = bool(one.unversioned_source) and one.unversioned_source == other.unversioned_source
    if same_name and one.version_in_name != other.version_in_name:
        is_lower = one.version_in_name < other.version_in_name
        # The name alone is too little: api-v1.md and api-v2.md may both be valid.
        is_one_document = same_title or _is_nearly_the_same(one.passage, other.passage)
        return is_lower and (by_date or is_one_document)
    shortest = min(len(one.date), len(other.date))
    # Dates of other precision are compared as far as both are known.
    is_earlier = one.date[:shortest] < other.date[:shortest]
    if not is_earlier:
        return False
    return (by_date and same_title) or _is_nearly_the_same(one.passage, other.passage)


def _is_nearly_the_same(one: Passage, other: Passage) -> bool:
    """Return whether the texts of two passages share most of their shingles."""
    shorter, longer = sorted((len(one.content), len(other.content)))
    # Texts of such lengths cannot share enough, so most pairs need no comparison.
    if shorter < NEARLY_THE_SAME * longer / 2:
        return False
    shingles, others = _shingles_of(one.content), _shingles_of(other.content)
    if min(len(shingles), len(others)) < FEWEST_SHINGLES:
        return False
    return compute_resemblance(shingles, others) >= NEARLY_THE_SAME


@lru_cache(maxsize=2 * MOST_COMPARED)
def _shingles_of(text: str) -> frozenset[int]:
    """Return the shingles of a passage, which is compared with many others."""
    return hash_shingles(text)


def date_of(passage: Passage) -> str:
    """Return the date of the document, "" if it has none.

    A workspace whose documents were loaded without dates may have one in their metadata.
    """
    if passage.date:
        return passage.date
    date = (passage.metadata or {}).get("date", "")
    found = DATE.match(str(date))
    return found[0] if found else ""


def _names_in(passage: Passage, field: str) -> frozenset[str]:
    """Return the names in a field of the document's metadata, in lower case."""
    value = (passage.metadata or {}).get(field)
    values = value if isinstance(value, list) else [value]
    names: set[str] = set()
    for item in values[:MOST_NAMES]:
        if isinstance(item, str | int | float) and item != "":
            name = str(item)[:LONGEST_NAME]
            names.add(name.strip().casefold())
    return frozenset(names)


def _supersedes(one: _Fields, other: _Fields) -> bool:
    """Return whether ``one`` names the other document: by title, source, file name or id."""
    # Most documents supersede none, and each pair of passages is compared.
    if not one.supersedes:
        return False
    file_name = other.passage.source.rsplit("/", 1)[-1]
    stem = file_name.rsplit(".", 1)[0]
    names = {other.document_id, other.passage.source, file_name, stem}
    # Versions often share their title, which then names neither.
    if other.title != one.title:
        names.add(other.title)
    return not one.supersedes.isdisjoint(name.casefold() for name in names)


def _has_ended(passage: Passage) -> bool:
    status = (passage.metadata or {}).get("status", "")
    return str(status).strip().casefold() in _ENDED


def _version(passage: Passage) -> Version:
    """Return the numbers of the version, as (1, 10) of "v1.10"; () if it has none."""
    value = (passage.metadata or {}).get("version")
    if not isinstance(value, str | int | float):
        return ()
    text = str(value)[:LONGEST_VERSION]
    # More numbers, and longer ones, are no version that a person has written.
    numbers = re.findall(r"\d+", text)[:5]
    return strip_zeros(tuple(int(number[:9]) for number in numbers))
