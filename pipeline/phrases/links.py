"""Find the links of a text to other documents: [[A]], [[A|B]], and Markdown links to files."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from pipeline.phrases.titles import Names, TitleRow, title_forms, title_name
from pipeline.text.ids import match_key

# What follows the target begins with a mark that no target has. If both could match the same text,
# brackets that are never closed would be tried at each length of both.
_WIKI = re.compile(r"\[\[(?P<target>[^\[\]|#^\n]{1,200})(?:[|#^][^\[\]\n]{0,300})?\]\]")
_MARKDOWN = re.compile(
    r"\[[^\[\]\n]{0,300}\]\((?:<(?P<spaced>[^<>\[\]\n]{1,300})>|(?P<path>[^\s()<>\[\]]{1,300}))"
    r"(?:[ ]+\"[^\"\[\]\n]{0,200}\")?\)"
)
# Neither pattern looks at what is around a link, so that a text has the links of its sentences.
_ADDRESS = re.compile(r"[a-z][a-z\d+.-]*:|//", re.IGNORECASE)
"""The beginning of a link that leads out of the corpus: https:, mailto:."""
_SUFFIX = re.compile(
    r"\.(?:md|markdown|txt|rst|html?|pdf|docx|pptx|xlsx|csv|tsv|jsonl?)$", re.IGNORECASE
)


LINK_KEYWORD = "links to"
"""The keyword of a relationship between two documents of which one has a link to the other."""


class Link(NamedTuple):
    """A link in a text, with its offsets, and the key of the document to which it leads."""

    start: int
    end: int
    key: str


def find_links(text: str) -> Iterator[Link]:
    """Yield the links in a text; those that lead to an address on the web are left out."""
    for found in _WIKI.finditer(text):
        key = _key_of(found["target"])
        if key:
            yield Link(found.start(), found.end(), key)
    for found in _MARKDOWN.finditer(text):
        target = found["spaced"] or found["path"]
        if _ADDRESS.match(target):
            continue
        path, _, _ = target.partition("#")
        key = _key_of(unquote(path))
        if key:
            yield Link(found.start(), found.end(), key)


def link_targets(documents: Iterable[TitleRow], named: dict[str, Names]) -> dict[str, str]:
    """Map the keys by which links name a document to the name of its entity.

    A key is made of the file's name without its suffix, or else of the title or an alias. A key
    that leads to several entities leads to none.
    """
    by_file: dict[str, set[str]] = defaultdict(set)
    by_name: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        names = named.get(document.id)
        # "" stands for a document without an entity.
        entity_name = title_name(names.title) if names else ""
        # Two files of one name are ambiguous, even if only one of them has an entity.
        file_key = _key_of(document.source)
        by_file[file_key].add(entity_name)
        if names:
            for name in (*title_forms(names.title), *names.aliases):
                by_name[match_key(name)].add(entity_name)
    targets: dict[str, str] = {}
    # What the names of files say goes before titles, so it comes last and replaces these.
    for key, entity_names in [*by_name.items(), *by_file.items()]:
        targets.pop(key, None)
        if key and len(entity_names) == 1:
            (targets[key],) = entity_names
    return {key: name for key, name in targets.items() if name}


def _key_of(path: str) -> str:
    """Return the match key of the last part of a path, without the suffix of a file."""
    name = PurePosixPath(path.strip()).name
    return match_key(_SUFFIX.sub("", name))
