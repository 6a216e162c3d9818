"""Find the replies that Microsoft GraphRAG 3.3.0 has paid for, in its cache, by passage.

A reply does not say which passage it is about. The name of its file is a hash of the question, and
all parts of a question are in the project: the prompt, the types of entities, and the passage.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
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
REPORTING, CLAIMS = "community_reporting", "extract_claims"
"""The folders of replies whose content GraphRAG has put into tables, which an import takes."""
OUTPUT = "output"
"""The folder of tables where settings.yaml names none."""
TRIED = 1000
"""The number of passages whose replies are searched to see whether a cache fits an index: a few
seconds, where a whole index may take minutes."""
AT_LIMIT = "length"
"""The reason that an endpoint gives for the end of a reply, if it ended at the limit of tokens."""
Message = Mapping[str, str | None]


@dataclass(frozen=True)
class Reply:
    """A reply of the model. ``name`` is that of its file.

    ``is_cut`` says that it ended at the limit of tokens.
    """

    name: str
    content: str
    is_cut: bool = False


@dataclass(frozen=True)
class Conversation:
    """The first reply about a passage and those to further questions, in their order.

    ``answers`` has the names of the files that only answer whether there is more. ``is_broken``
    says that a further question was due, and has no reply or a damaged one.
    """

    replies: Sequence[Reply] = ()
    answers: Sequence[str] = ()
    is_broken: bool = False


@dataclass(frozen=True)
class GraphragCache:
    """The replies of a project of GraphRAG, and what its questions are made of.

    ``folder`` is that with the folders of all steps.
    """

    folder: Path
    prompt: str
    types: str
    gleanings: int

    def replies_about(self, passage: str) -> Conversation:
        """Return what the model was asked about a passage, and has replied.

        There is no reply if the first one is not there, or is damaged. Raises DataError for a
        reply that may not be read, and for a prompt that GraphRAG could not fill in.
        """
        messages: list[Message] = [_question(self._first_question(passage))]
        first = self._find(messages)
        if first is None:
            return Conversation()
        found, answers = [first], list[str]()
        messages.append(_answer(first))
        for number in range(self.gleanings):
            if number:
                messages.append(_question(LOOP))
                # GraphRAG leaves this answer out of the messages that follow.
                answer = self._find(messages)
                if answer is None:
                    return Conversation(found, answers, is_broken=True)
                answers.append(answer.name)
                if answer.content != YES:
                    break
            messages.append(_question(CONTINUE))
            reply = self._find(messages)
            if reply is None:
                return Conversation(found, answers, is_broken=True)
            messages.append(_answer(reply))
            found.append(reply)
        return Conversation(found, answers)

    def list_names(self) -> list[str]:
        """Return the names of the files with replies about passages, also of dead links."""
        return sorted(path.name for path in (self.folder / STEP).iterdir() if not path.is_dir())

    def is_damaged(self, name: str) -> bool:
        """Check that the file of this name holds no reply."""
        return self._read(name) is None

    def _first_question(self, passage: str) -> str:
        try:
            return self.prompt.format(input_text=passage.strip(), entity_types=self.types)
        except (LookupError, ValueError, AttributeError) as error:
            raise DataError(
                f"{SETTINGS} of GraphRAG: its prompt {STEP} cannot be filled in ({error}); take"
                " the prompt with which the index was made"
            ) from error

    def _find(self, messages: list[Message]) -> Reply | None:
        return self._read(name_of_reply(messages))

    def _read(self, name: str) -> Reply | None:
        """Return the reply in the file of this name; None if there is none, or a damaged one."""
        path = self.folder / STEP / name
        try:
            # A pipe of this name would let the import wait for ever.
            written = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"{path}: {error}; allow reading it, or remove it") from error
        try:
            response = json.loads(written)["result"]["response"]
            content = response["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            # A process that was killed leaves half a file; GraphRAG, too, takes it for none.
            return None
        if not isinstance(content, str | None):
            # A text made of any other value would be false.
            return None
        return Reply(name, content or "", _is_cut(response))


def _is_cut(response: Mapping[str, Any]) -> bool:
    """Check that the endpoint has ended a reply at the limit of tokens."""
    choices = response.get("choices")
    if not isinstance(choices, list):
        return False
    return any(isinstance(one, dict) and one.get("finish_reason") == AT_LIMIT for one in choices)


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
    root = _find_project(folder)
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
    root = _find_project(folder)
    if root is None:
        return _explain_unowned_cache(folder)
    settings = _read_settings(root / SETTINGS)
    storage = _section(_section(settings, "cache"), "storage")
    if _section(settings, "cache").get("type") == "sqlite":
        return f"the cache of {root}, as only one of type json is read"
    if storage.get("type") not in (None, "file"):
        return f"the cache of {root}, as only one in a folder is read"
    base = _cache_folder(root, settings)
    if not (base / STEP).is_dir():
        if base == root / CACHE:
            return ""
        return (
            f"the cache of {root}, as there is no {base / STEP}; let cache.storage.base_dir of"
            f" {SETTINGS} name the folder itself"
        )
    prompt = _section(settings, STEP).get("prompt")
    if prompt and (root / str(prompt)).is_file():
        return ""
    return (
        f"{base / STEP}, as {STEP}.prompt of {SETTINGS} names no file; let it name the prompt with"
        " which the index was made"
    )


def _explain_unowned_cache(folder: Path) -> str:
    """Return where a cache is that is of no known project, and why; "" if there is none."""
    place = Path(CACHE) / STEP
    for one in (folder, folder.parent):
        if (one / place).is_dir():
            if (one / SETTINGS).exists():
                return (
                    f"{one / place}, as output_storage.base_dir of {one / SETTINGS} names another"
                    " folder of tables than this one"
                )
            return f"{one / place}, as there is no {SETTINGS} beside it"
    return ""


def count_replies(folder: Path) -> int:
    """Return the number of files with replies about passages beside the tables in this folder."""
    for one in (folder, folder.parent):
        replies = one / CACHE / STEP
        if replies.is_dir():
            return _count_files(replies)
    return 0


def _find_project(folder: Path) -> Path | None:
    """Return the project of GraphRAG that this is, or that has this folder of tables.

    Tables in the folder of another project are not its own: its replies may contradict them.
    Raises DataError if settings.yaml in the folder or above it cannot be read.
    """
    if (folder / SETTINGS).exists():
        return folder
    for above in Path(os.path.abspath(folder)).parents:
        if not (above / SETTINGS).is_file():
            continue
        try:
            settings = _read_settings(above / SETTINGS)
        except DataError:
            if above == folder.parent:
                raise
            # Another program may have a file of this name further above.
            continue
        output = _section(settings, "output_storage").get("base_dir") or OUTPUT
        if (above / str(output)).resolve() == folder.resolve():
            return above
    return None


def _cache_folder(root: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder of replies of the project of GraphRAG in ``root``."""
    storage = _section(_section(settings, "cache"), "storage")
    return root / str(storage.get("base_dir") or CACHE)


def has_replies(cache: GraphragCache, folder: Path) -> bool:
    """Check that a passage of the index in ``folder`` has a reply in its cache.

    Passages from everywhere are tried: those of one document, or of one update, may have none.
    Raises as ``GraphragCache.replies_about`` and ``read_graphrag_tables``.
    """
    all_units = read_graphrag_tables(folder)["text_units"]
    units = all_units[:: 1 + len(all_units) // TRIED]
    return any(cache.replies_about(str(unit["text"] or "")).replies for unit in units)


def cache_digest(folder: Path) -> str:
    """Return a hash of the replies and of what questions are made of; "" if there is no cache.

    The names of other folders and the number of their files are in it, as the import tells them.
    """
    cache = open_cache(folder)
    if cache is None:
        return ""
    try:
        replies = (cache.folder / STEP / name for name in cache.list_names())
        hashes = [digest(path.name, _content_of(path)) for path in replies]
    except OSError as error:
        raise DataError(f"{cache.folder}: {error}; allow reading it") from error
    others = [f"{name}: {number}" for name, number in count_other_files(cache).items()]
    return digest(cache.prompt, cache.types, str(cache.gleanings), *hashes, *others)


def _content_of(path: Path) -> str:
    """Return what the file holds; "" for a dead link, or a pipe."""
    return path.read_bytes().hex() if path.is_file() else ""


def count_other_files(cache: GraphragCache) -> dict[str, int]:
    """Return the number of files in each folder of the cache from which no reply is read.

    A folder is named by its path below the cache, which is "." itself. Raises DataError for a
    folder that may not be read.
    """
    numbers: Counter[str] = Counter()
    try:
        for path in sorted(cache.folder.iterdir()):
            if not path.is_dir():
                numbers["."] += 1
            elif path.name != STEP:
                numbers[path.name] = _count_files(path)
        for path in sorted((cache.folder / STEP).iterdir()):
            if path.is_dir():
                numbers[f"{STEP}/{path.name}"] = _count_files(path)
    except OSError as error:
        raise DataError(f"{cache.folder}: {error}; allow reading it") from error
    return {name: number for name, number in numbers.items() if number}


def _count_files(folder: Path) -> int:
    """Return the number of files in a folder and below it; a link may lead to a whole disk."""
    paths = folder.iterdir() if folder.is_symlink() else folder.rglob("*")
    return sum(1 for path in paths if not path.is_dir())


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
