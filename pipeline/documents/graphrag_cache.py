"""Find the replies that Microsoft GraphRAG 3.3.0 has paid for, in its cache, by passage.

A reply does not say which passage it is about. The name of its file is a hash of the question, and
all parts of a question are in the project: the prompt, the types of entities, and the passage.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.documents.graphrag_tables import read_graphrag_tables
from pipeline.errors import DataError
from pipeline.text.ids import digest

VERSION = "3.3.0"
"""The version whose cache the tests read."""
SETTINGS = "settings.yaml"
STEP = "extract_graph"
"""The name of the step in settings.yaml, and of the folder with its replies."""
CACHE = "cache"
"""The folder of replies where settings.yaml names none."""
TYPES = ("organization", "person", "geo", "event")
GLEANINGS = 1
"""The values that hold where settings.yaml names none."""
CONTINUE = (
    "MANY entities and relationships were missed in the last extraction. Remember to ONLY emit"
    " entities that match any of the previously extracted types. Add them below using the same"
    " format:\n"
)
LOOP = (
    "It appears some entities and relationships may have still been missed. Answer Y if there are"
    " still entities or relationships that need to be added, or N if there are none. Please answer"
    " with a single letter Y or N.\n"
)
"""The further questions of GraphRAG, word for word, since the hashes are made of them."""
YES = "Y"
CACHE_VERSION = "_v4"
FROM_TABLES = frozenset({STEP, "community_reporting", "extract_claims"})
"""The folders whose content an import takes: replies, and the tables of reports and claims."""
TRIED = 20
"""The number of passages whose replies are searched to see whether a cache fits an index."""
Message = Mapping[str, str | None]


@dataclass(frozen=True)
class Reply:
    """A reply of the model. ``name`` is that of its file."""

    name: str
    content: str


@dataclass(frozen=True)
class GraphragCache:
    """The replies of a project of GraphRAG, and what its questions are made of.

    ``folder`` is that with the folders of all steps.
    """

    folder: Path
    prompt: str
    types: str
    gleanings: int

    def replies_about(self, passage: str) -> list[Reply]:
        """Return the first reply about a passage and those to further questions, in their order.

        The list is empty if the first reply is not there, or is damaged. Raises DataError for a
        reply that may not be read, and for a prompt that GraphRAG could not fill in.
        """
        messages: list[Message] = [_question(self._first_question(passage))]
        reply = self._find(messages)
        found = [reply] if reply else []
        if reply:
            messages.append(_answer(reply))
        for number in range(self.gleanings if reply else 0):
            if number:
                messages.append(_question(LOOP))
                answer = self._find(messages)
                # GraphRAG leaves this answer out of the messages that follow.
                if answer is None or answer.content != YES:
                    break
            messages.append(_question(CONTINUE))
            reply = self._find(messages)
            if reply is None:
                break
            messages.append(_answer(reply))
            found.append(reply)
        return found

    def list_names(self) -> list[str]:
        """Return the names of the files with replies about passages."""
        return sorted(path.name for path in (self.folder / STEP).iterdir() if path.is_file())

    def _first_question(self, passage: str) -> str:
        try:
            return self.prompt.format(input_text=passage.strip(), entity_types=self.types)
        except (LookupError, ValueError, AttributeError) as error:
            raise DataError(
                f"{SETTINGS} of GraphRAG: its prompt {STEP} cannot be filled in ({error}); take"
                " the prompt with which the index was made"
            ) from error

    def _find(self, messages: list[Message]) -> Reply | None:
        name = name_of_reply(messages)
        path = self.folder / STEP / name
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"{path}: {error}; allow reading it, or remove it") from error
        try:
            return Reply(name, str(json.loads(written)["result"]["response"]["content"] or ""))
        except (ValueError, LookupError, TypeError, RecursionError):
            # A process that was killed leaves half a file; GraphRAG, too, takes it for none.
            return None


def _question(text: str) -> Message:
    return {"role": "user", "content": text}


def _answer(reply: Reply) -> Message:
    return {"role": "assistant", "content": reply.content, "refusal": None}


def name_of_reply(messages: list[Message]) -> str:
    """Return the name of the file in which GraphRAG keeps the reply to messages.

    The model is no part of it. Only the emitter of PyYAML that is written in Python breaks lines as
    GraphRAG does, so the faster one cannot be used.
    """
    question = {"messages": messages, "response_format": None}
    written = yaml.dump(question, sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest() + CACHE_VERSION


def open_cache(folder: Path) -> GraphragCache | None:
    """Return the cache of the project with this folder of tables; None if it has none.

    ``folder`` is the project of GraphRAG, or the folder with its tables. Raises DataError if
    settings.yaml or the prompt cannot be read.
    """
    root = _find_project(folder, SETTINGS)
    if root is None:
        return None
    settings = _read_settings(root / SETTINGS)
    step = _section(settings, STEP)
    prompt = root / str(step.get("prompt") or "")
    base = _cache_folder(root, settings)
    if not prompt.is_file() or not (base / STEP).is_dir():
        return None
    types, gleanings = step.get("entity_types"), step.get("max_gleanings")
    return GraphragCache(
        base,
        _read_text(prompt),
        ",".join(map(str, types if isinstance(types, list) else TYPES)),
        gleanings if isinstance(gleanings, int) else GLEANINGS,
    )


def explain_closed_cache(folder: Path) -> str:
    """Return where replies are that ``open_cache`` does not open, and why; "" if there are none.

    Raises DataError if settings.yaml cannot be read.
    """
    root = _find_project(folder, SETTINGS)
    if root is None:
        place = Path(CACHE) / STEP
        without = _find_project(folder, str(place))
        return f"{without / place}, as there is no {SETTINGS} beside it" if without else ""
    settings = _read_settings(root / SETTINGS)
    if _section(settings, "cache").get("type") == "sqlite":
        return f"the cache of {root}, as only one of type json is read"
    replies = _cache_folder(root, settings) / STEP
    prompt = _section(settings, STEP).get("prompt")
    if not replies.is_dir() or (prompt and (root / str(prompt)).is_file()):
        return ""
    return (
        f"{replies}, as {STEP}.prompt of {SETTINGS} names no file; let it name the prompt with"
        " which the index was made"
    )


def _find_project(folder: Path, part: str) -> Path | None:
    """Return the folder or the one above it, which has this file or folder; None if none has."""
    return next((one for one in (folder, folder.parent) if (one / part).exists()), None)


def _cache_folder(root: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder of replies of the project of GraphRAG in ``root``."""
    storage = _section(_section(settings, "cache"), "storage")
    return root / str(storage.get("base_dir") or CACHE)


def has_replies(cache: GraphragCache, folder: Path) -> bool:
    """Check that one of the first passages of the index in ``folder`` has a reply in its cache.

    Raises as ``GraphragCache.replies_about`` and ``read_graphrag_tables``.
    """
    units = read_graphrag_tables(folder)["text_units"][:TRIED]
    return any(cache.replies_about(str(unit["text"] or "")) for unit in units)


def cache_digest(folder: Path) -> str:
    """Return a hash of the replies and of what questions are made of; "" if there is no cache.

    The names of other folders and the number of their files are in it, as the import tells them.
    """
    cache = open_cache(folder)
    if cache is None:
        return ""
    try:
        replies = (cache.folder / STEP / name for name in cache.list_names())
        hashes = [digest(path.name, path.read_bytes().hex()) for path in replies]
    except OSError as error:
        raise DataError(f"{cache.folder}: {error}; allow reading it") from error
    others = [f"{name}: {number}" for name, number in count_other_replies(cache).items()]
    return digest(cache.prompt, cache.types, str(cache.gleanings), *hashes, *others)


def count_other_replies(cache: GraphragCache) -> dict[str, int]:
    """Return the number of files in each folder of the cache whose content is not taken."""
    numbers: dict[str, int] = {}
    for path in sorted(cache.folder.iterdir()):
        if not path.is_dir() or path.name in FROM_TABLES:
            continue
        number = len(list(path.iterdir()))
        if number > 0:
            numbers[path.name] = number
    return numbers


def _read_settings(path: Path) -> Mapping[str, Any]:
    try:
        settings = yaml.safe_load(_read_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path}: no readable YAML; take the file from a backup") from error
    return settings if isinstance(settings, dict) else {}


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}; allow reading it, or write it again") from error
