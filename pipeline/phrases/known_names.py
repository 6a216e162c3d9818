"""The names of all documents, and the text units that a change of them may affect."""

from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import pandas as pd

from pipeline.contract.schemas import TITLES
from pipeline.phrases.links import find_links, link_targets
from pipeline.phrases.titles import (
    Gazetteer,
    Names,
    TitleRow,
    TitleSearch,
    names_of_documents,
    title_forms,
    title_name,
)


def texts_may_differ(
    text_units: pd.DataFrame, before: pd.DataFrame, now: pd.DataFrame
) -> pd.Series:
    """Return for each text unit whether other titles may have changed its extractions.

    ``before`` and ``now`` are the titles, aliases and sources of all documents. A text unit is
    affected if the names of its own document have changed, if its text may contain one that was
    added or removed, or if it has a link that leads to another name now.
    """
    change = _compare_names(before, now)
    affected = _links_differ(text_units, change)
    if not change.named:
        return affected
    forms: set[str] = set()
    for _, names in change.named:
        forms.update(title_forms(names.title), names.aliases)
    search = TitleSearch(forms)
    may_contain_title = text_units["text"].map(search.may_find).astype(bool)
    return affected | may_contain_title


def links_may_differ(
    text_units: pd.DataFrame, before: pd.DataFrame, now: pd.DataFrame
) -> pd.Series:
    """Return for each text unit whether other titles may have changed what its links lead to.

    The inputs are those of `texts_may_differ`. A text unit is affected if the names of its own
    document have changed, or if it has a link that leads to another name now.
    """
    return _links_differ(text_units, _compare_names(before, now))


class _NameChange(NamedTuple):
    """The names that only one of two states of the documents has.

    ``named`` has pairs of a document's id and its names, ``moved`` the keys of links that lead to
    another name.
    """

    named: set[tuple[str, Names]]
    moved: set[str]


def _compare_names(before: pd.DataFrame, now: pd.DataFrame) -> _NameChange:
    """Compare the names of the documents before and now, and what links lead to."""
    names_before, targets_before = _names_and_targets(title_rows(before))
    names_now, targets_now = _names_and_targets(title_rows(now))
    # Items that only one of the two has: a document with new names is among them twice.
    changed_names = names_before.items() ^ names_now.items()
    changed_targets = targets_before.items() ^ targets_now.items()
    moved = {key for key, _ in changed_targets}
    return _NameChange(changed_names, moved)


# The text units come batch by batch, with the titles of all documents before and now each time.
@lru_cache(maxsize=2)
def _names_and_targets(documents: tuple[TitleRow, ...]) -> tuple[dict[str, Names], dict[str, str]]:
    """Return the names of the documents by their ids, and what links lead to."""
    named = names_of_documents(documents)
    return named, link_targets(documents, named)


def _links_differ(text_units: pd.DataFrame, change: _NameChange) -> pd.Series:
    """Return for each text unit whether a link of it, or the name of its document, has changed."""
    renamed = [document for document, _ in change.named]
    affected = text_units["document_id"].isin(renamed)
    if not change.moved:
        return affected
    has_moved_link: list[bool] = []
    for text in text_units["text"]:
        keys = chain.from_iterable(link.keys for link in find_links(text))
        has_moved_link.append(any(key in change.moved for key in keys))
    return affected | pd.Series(has_moved_link, index=text_units.index, dtype=bool)


def title_rows(documents: pd.DataFrame) -> tuple[TitleRow, ...]:
    """Return each document by its title, its aliases and its source."""
    titles = TITLES.filled(TITLES.seen(documents), "documents")
    rows = map(
        TitleRow,
        titles["id"],
        titles["title"],
        titles["title_from"],
        # Tuples can be compared and hashed.
        titles["aliases"].map(tuple),
        titles["source"],
    )
    return tuple(rows)


class KnownNames(NamedTuple):
    """The names of all documents.

    ``named`` maps the ids of documents to their names, ``targets`` the keys of links to names of
    entities. ``gazetteer`` searches for the names.
    """

    named: dict[str, Names]
    gazetteer: Gazetteer
    targets: dict[str, str]


# The verb is called bucket by bucket, with the titles of all documents each time.
@lru_cache(maxsize=1)
def find_known_names(documents: tuple[TitleRow, ...]) -> KnownNames:
    """Return the names of documents that count, a search for them, and what links lead to."""
    named, targets = _names_and_targets(documents)
    titles = [names.title for names in named.values()]
    aliases = chain.from_iterable(names.aliases for names in named.values())
    gazetteer = Gazetteer.of_titles(titles, aliases)
    return KnownNames(named, gazetteer, targets)


class LinkNames(NamedTuple):
    """The names that links connect.

    ``own`` maps the ids of documents to the names of their entities, ``targets`` the keys of links
    to the names of the entities to which they lead.
    """

    own: dict[str, str]
    targets: dict[str, str]


# The verb is called bucket by bucket, with the titles of all documents each time.
@lru_cache(maxsize=1)
def find_link_names(documents: tuple[TitleRow, ...]) -> LinkNames:
    """Return the names of the documents that count, and what links lead to."""
    named, targets = _names_and_targets(documents)
    own: dict[str, str] = {}
    for document_id, names in named.items():
        own[document_id] = title_name(names.title)
    return LinkNames(own, targets)
