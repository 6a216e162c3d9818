"""Find the links of a text to other documents: [[A]], [[A|B]], and Markdown links to files."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from pipeline.phrases.titles import Names, TitleRow, title_forms, title_name
from pipeline.text.ids import match_key

# What follows the target begins with a mark that no target has. If both could match the same text,
# brackets that are never closed would be tried at each length of both.
_WIKI = re.compile(r"\[\[(?P<target>[^\[\]|#^\n]{1,200})(?:[|#^][^\[\]\n]{0,300})?\]\]")
_MARKDOWN = re.compile(
    r"\[[^\[\]\n]{0,300}\]\((?:<(?P<spaced>[^<>\[\]\n]{1,300})>|"
    # A path may have brackets in pairs, as Mercury_(planet).md has.
    r"(?P<path>(?:[^\s()<>\[\]]|\([^\s()<>\[\]]{0,100}\)){1,300}))"
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
    """A link in a text, with its offsets, and the keys of the document to which it leads.

    The first key that `link_targets` has counts.
    """

    start: int
    end: int
    keys: tuple[str, ...]

    def follow(self, targets: Mapping[str, str]) -> str | None:
        """Return the name of the entity to which the link leads, or None."""
        known = (targets[key] for key in self.keys if key in targets)
        return next(known, None)


def find_links(text: str) -> Iterator[Link]:
    """Yield the links in a text; those that lead to an address on the web are left out."""
    for found in _WIKI.finditer(text):
        # The target may be a title with a stroke in it, such as AC/DC.
        title_key = match_key(found["target"])
        keys = [title_key, *_keys_of(found["target"])]
        if any(keys):
            yield Link(found.start(), found.end(), tuple(dict.fromkeys(filter(None, keys))))
    for found in _MARKDOWN.finditer(text):
        target = found["spaced"] or found["path"]
        if _ADDRESS.match(target):
            continue
        path, _, _ = target.partition("#")
        keys = _keys_of(unquote(path))
        if keys:
            yield Link(found.start(), found.end(), keys)


def link_targets(documents: Iterable[TitleRow], named: dict[str, Names]) -> dict[str, str]:
    """Map the keys by which links name a document to the name of its entity.

    A key is made of the file's name without its suffix, or else of the title or an alias. A key
    that leads to several entities leads to none; where files of several folders have one name, the
    name behind its folder is a key too.
    """
    by_file: dict[str, set[str]] = defaultdict(set)
    by_path: dict[str, set[str]] = defaultdict(set)
    paths_of_file: dict[str, set[str]] = defaultdict(set)
    by_name: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        names = named.get(document.id)
        # "" stands for a document without an entity.
        entity_name = title_name(names.title) if names else ""
        # Two files of one name are ambiguous, even if only one of them has an entity.
        keys = _keys_of(document.source)
        if keys:
            by_file[keys[-1]].add(entity_name)
            by_path[keys[0]].add(entity_name)
            paths_of_file[keys[-1]].add(keys[0])
        if names:
            for name in (*title_forms(names.title), *names.aliases):
                by_name[match_key(name)].add(entity_name)
    # The folder is needed only where the name does not say which file is meant.
    of_ambiguous: dict[str, set[str]] = {}
    for file_key, paths in paths_of_file.items():
        # A file without a folder has no other key than its ambiguous name.
        in_folders = paths - {file_key}
        if len(paths) > 1:
            of_ambiguous.update((path, by_path[path]) for path in in_folders)
    targets: dict[str, str] = {}
    # What the names of files say goes before titles, so it comes last and replaces these.
    for key, entity_names in chain(by_name.items(), by_file.items(), of_ambiguous.items()):
        targets.pop(key, None)
        if key and len(entity_names) == 1:
            (targets[key],) = entity_names
    return {key: name for key, name in targets.items() if name}


def _keys_of(path: str) -> tuple[str, ...]:
    """Return the keys of a path without the suffix of its file: folder/name if it has a folder,
    and the name alone.
    """
    *folders, name = PurePosixPath(path.strip()).parts or [""]
    name_key = match_key(_SUFFIX.sub("", name))
    if not name_key:
        return ()
    if not folders or folders[-1] in ("..", "/"):
        return (name_key,)
    return (f"{match_key(folders[-1])}/{name_key}", name_key)
