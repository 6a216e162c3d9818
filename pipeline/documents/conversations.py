"""Read conversations from exports of ChatGPT and Slack: who said what, and when.

Times are in UTC. Texts are plain, one paragraph a message, under a line with the speaker and time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import unescape
from pathlib import PurePosixPath
from typing import Any

from pipeline.documents.records import Fault, read_json

PEOPLE = "users.json"
"""The file at the root of an export of Slack with the names of people."""
_CHANNELS = "channels.json"
_LISTS = frozenset({
    PEOPLE, _CHANNELS, "groups.json", "dms.json", "mpims.json", "integration_logs.json",
    "canvases.json",
})  # fmt: skip
"""The files at the root of an export that have no messages."""
LISTS_OF_EXPORT = frozenset({PEOPLE, _CHANNELS})
"""The files by which a folder is known to be an export of Slack."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
LIST_OF_EXPORT = Fault(
    "unsupported", "a list of the Slack export, read for names at most; nothing to do"
)
BROKEN_CHAT = "a conversation of which a message is missing; export it again"
NO_NAMES = Fault("parse", f"{PEOPLE} of its Slack export cannot be read; mend it")
_SILENT = frozenset({"channel_join", "channel_leave", "group_join", "group_leave"})
"""Subtypes of messages in Slack that nobody wrote."""
_DEEPEST_BLOCK = 12
"""The levels of blocks within blocks that are read. Those of Slack have five."""
_LINES = frozenset({"rich_text_section", "rich_text_quote", "rich_text_preformatted"})
"""The kinds of blocks whose elements are one line."""
_ELEMENTS = {
    "alt_text": "{}", "title": "{}", "url": "<{}>", "user_id": "<@{}>", "usergroup_id": "<@{}>",
    "channel_id": "<#{}>", "range": "<!{}>", "name": ":{}:",
    "fallback": "{}",
}  # fmt: skip
"""The field of an element of a block that stands for its text, and the mark of it in a text."""
_MARK = re.compile(r"<(?P<sign>[@#!]?)(?P<target>[^<>|]*)(?:\|(?P<label>[^<>]*))?>")
_UNSAID = frozenset({"system"})
"""Roles in ChatGPT whose messages are not part of what was said."""


@dataclass(frozen=True)
class Said:
    """A message. ``time`` is in seconds since 1970, None if unknown; ``note`` follows the time."""

    who: str
    time: float | None
    text: str
    note: str = ""


def is_chat(fields: Mapping[str, object]) -> bool:
    """Return whether a record of JSON is a conversation of an export of ChatGPT, or a damaged
    one."""
    if not {"mapping", "current_node"} <= set(fields):
        return False
    return isinstance(fields["mapping"], dict) or "conversation_id" in fields


def chat_fields(
    fields: Mapping[str, Any], columns: tuple[str, str, str]
) -> dict[str, object] | None:
    """Return a conversation of ChatGPT as the fields of a record.

    ``columns`` name id, title and text. The text has the branch of messages that is shown last.
    Returns None if a message of this branch is missing, since the rest would pass for the whole.
    """
    id, title, text = columns
    nodes = _shown_nodes(fields)
    if nodes is None:
        return None
    messages = [said for node in nodes if (said := _said_in_chat(node))]
    times = {"created": fields.get("create_time"), "updated": fields.get("update_time")}
    return {
        id: fields.get("conversation_id") or fields.get("id"),
        title: fields.get("title"),
        text: written(messages),
        **{name: day for name, time in times.items() if (day := _moment(time)[:10])},
    }


def _shown_nodes(fields: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the nodes from the beginning to the current one, each once; None if one is missing."""
    nodes = fields["mapping"]
    if nodes == {}:
        return []
    place = fields["current_node"]
    if not isinstance(nodes, dict) or place is None:
        return None
    found: list[Mapping[str, Any]] = []
    # A parent may be named that is one of its own children.
    seen: set[str] = set()
    while place is not None and place not in seen:
        if not isinstance(place, str) or not isinstance(nodes.get(place), dict):
            return None
        seen.add(place)
        found.append(nodes[place])
        place = nodes[place].get("parent")
    return found[::-1]


def _said_in_chat(node: Mapping[str, Any]) -> Said | None:
    """Return the message of a node, or None if nothing was said."""
    message = _object(node.get("message"))
    content = _object(message.get("content"))
    who = _object(message.get("author")).get("role")
    is_hidden = _object(message.get("metadata")).get("is_visually_hidden_from_conversation")
    if not isinstance(who, str) or who in _UNSAID or is_hidden:
        return None
    parts = content.get("parts")
    parts = parts if isinstance(parts, list) else [content.get("text")]
    text = "\n".join(filter(None, map(_text_of_part, parts))).strip()
    if not text:
        # Files and pictures of a message have no text here, but they were sent.
        text = "\n".join(filter(None, map(_mark_of_file, parts)))
    return Said(who, _number(message.get("create_time")), text) if text else None


def _text_of_part(part: object) -> str:
    """Return the text of a part of a message: what was written, or what was heard."""
    text = part if isinstance(part, str) else _object(part).get("text")
    return text if isinstance(text, str) else ""


def _mark_of_file(part: object) -> str:
    """Return "[image]" for a picture of a message, or "" for a part that is no file."""
    kind = _object(part).get("content_type")
    return f"[{kind.removesuffix('_asset_pointer')}]" if isinstance(kind, str) else ""


def written(messages: Iterable[Said]) -> str:
    """Return the messages as a text."""
    blocks: list[str] = []
    for said in messages:
        about = ", ".join(filter(None, (said.who, _moment(said.time), said.note)))
        blocks.append(f"{about}:\n{said.text}")
    return "\n\n".join(blocks)


def _moment(time: object) -> str:
    """Return a time in seconds as date and time (UTC), or "" if it is none."""
    seconds = _number(time)
    if seconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""


def _number(value: object) -> float | None:
    """Return a number, also one that is written as a text, or None."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _object(value: object) -> Mapping[str, Any]:
    """Return an object of JSON, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def _items_of(value: object) -> list[Any]:
    """Return a list of JSON, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def slack_exports(names: Iterable[str]) -> frozenset[str]:
    """Return the folders of exports of Slack among these files, "" for the input folder.

    Such a folder has the lists of people and of channels, and a day of a channel.
    """
    known = set(names)
    folders_of_lists: dict[str, set[str]] = {PEOPLE: set(), _CHANNELS: set()}
    roots_of_days: set[str] = set()
    for name in known:
        folder, _, last = name.rpartition("/")
        if last in folders_of_lists:
            folders_of_lists[last].add(folder)
        elif folder and _DAY.fullmatch(last):
            roots_of_days.add(folder.rpartition("/")[0])
    return frozenset(folders_of_lists[PEOPLE] & folders_of_lists[_CHANNELS] & roots_of_days)


def slack_place(name: str, exports: frozenset[str]) -> tuple[str, str] | None:
    """Return the export and the channel of a file, or None for a file of no export.

    The channel of a list of the export itself is "". Other files beside the lists are of no export.
    """
    path = PurePosixPath(name)
    if path.suffix.lower() != ".json":
        return None
    folder = _folder_of(path)
    if folder in exports and path.name in _LISTS:
        return folder, ""
    channel = PurePosixPath(folder)
    root = _folder_of(channel)
    is_day = _DAY.fullmatch(path.name) is not None
    return (root, channel.name) if folder and root in exports and is_day else None


def _folder_of(path: PurePosixPath) -> str:
    """Return the folder of a file as a text, "" for the topmost one."""
    folder = str(path.parent)
    return "" if folder == "." else folder


def people_of(text: str) -> dict[str, str] | None:
    """Return the names of people by their ids, from the list of an export of Slack.

    Returns None if the list cannot be read whole.
    """
    names: dict[str, str] = {}
    for item in read_json(text):
        if isinstance(item, Fault):
            return None
        if isinstance(item.fields.get("id"), str):
            names[str(item.fields["id"])] = _name_in(item.fields)
    return names


def _name_in(person: Mapping[str, Any]) -> str:
    """Return the best name that a person of Slack has, or ""."""
    profile = _object(person.get("profile"))
    candidates = (
        profile.get("real_name"), person.get("real_name"), profile.get("display_name"),
        person.get("display_name"), person.get("name"),
    )  # fmt: skip
    return next((name for name in candidates if isinstance(name, str) and name.strip()), "")


@dataclass(frozen=True)
class SlackDay:
    """A day of a channel: its text, and the names of those who wrote."""

    text: str
    people: list[str]


def read_slack_day(text: str, names: Mapping[str, str]) -> Iterator[SlackDay | Fault]:
    """Yield the faults of messages that cannot be read, and at last the day if it has a message.

    ``names`` has the names of people by their ids. A reply stands behind the message that it
    answers. There is no day of a file that breaks off: half of a day would replace the whole one
    that an earlier run may have read.
    """
    messages: list[Mapping[str, Any]] = []
    for item in read_json(text):
        if isinstance(item, Fault):
            yield item
            if item.line is None:
                return
        else:
            messages.append(item.fields)
    messages.sort(key=_order)
    said_in = [(message, _said_in_slack(message, names)) for message in messages]
    speakers = {str(message.get("ts")): said.who for message, said in said_in if said}
    day = [replace(said, note=_note(message, speakers)) for message, said in said_in if said]
    if day:
        yield SlackDay(written(day), sorted({said.who for said in day}))


def _order(message: Mapping[str, Any]) -> tuple[float, float]:
    """Return the time of the beginning of a message's thread, and its own."""
    time = _number(message.get("ts")) or 0.0
    return _number(message.get("thread_ts")) or time, time


def _note(message: Mapping[str, Any], speakers: Mapping[str, str]) -> str:
    """Return to whom a message replies; ``speakers`` are those of this day, by their stamps."""
    thread = message.get("thread_ts")
    if not isinstance(thread, str) or thread == message.get("ts"):
        return ""
    if thread in speakers:
        return f"in reply to {speakers[thread]}"
    return f"in a thread of {_moment(thread)[:10]}"


def _said_in_slack(message: Mapping[str, Any], names: Mapping[str, str]) -> Said | None:
    """Return a message of Slack, or None if nobody said anything."""
    text = message.get("text")
    attached = [
        str(file["name"])
        for file in _items_of(message.get("files"))
        if isinstance(file, dict) and file.get("name")
    ]
    written = text if isinstance(text, str) else ""
    # Programs often write into blocks alone. Where there is a text, it says the same.
    written = written.strip() or _text_of_block(message.get("blocks"))
    texts = [written, *_texts_of_attachments(message.get("attachments"))]
    plain = [_plain(one, names).strip() for one in texts]
    said = "\n".join(filter(None, [*plain, *(f"[file: {name}]" for name in attached)]))
    if not said or message.get("subtype") in _SILENT:
        return None
    user = message.get("user")
    known = names.get(user, "") if isinstance(user, str) else ""
    others = (_name_in(_object(message.get("user_profile"))), message.get("username"), user)
    candidates = (known, *others)
    who = next((name for name in candidates if isinstance(name, str) and name), "somebody")
    return Said(who, _number(message.get("ts")), said)


def _texts_of_attachments(attachments: object) -> list[str]:
    """Return the texts that a program attached to its message.

    The content of a page behind a link is none of them: nobody said it.
    """
    texts: list[str] = []
    for attachment in _items_of(attachments):
        found = _object(attachment)
        if found.get("from_url") or found.get("original_url"):
            continue
        told = [found.get("pretext"), found.get("title"), found.get("text")]
        for field in _items_of(found.get("fields")):
            told += [_object(field).get("title"), _object(field).get("value")]
        lines = [line for line in told if isinstance(line, str) and line]
        in_blocks = _text_of_block(found.get("blocks"))
        fallback = found.get("fallback")
        if lines or in_blocks:
            texts += [*lines, in_blocks]
        elif isinstance(fallback, str):
            texts.append(fallback)
    return texts


def _text_of_block(block: object, depth: int = 0) -> str:
    """Return the texts of a block of a message, or of a list of blocks: one line for each."""
    if depth > _DEEPEST_BLOCK:
        return ""
    if isinstance(block, list):
        lines = [_text_of_block(one, depth + 1) for one in block]
        return "\n".join(filter(None, lines))
    found = _object(block)
    text = found.get("text")
    own = text if isinstance(text, str) else _text_of_block(text, depth + 1)
    own = own or _mark_of_element(found)
    fields = _text_of_block(found.get("fields"), depth + 1)
    rows = _text_of_block(found.get("rows"), depth + 1)
    texts = [_text_of_block(one, depth + 1) for one in _items_of(found.get("elements"))]
    # The elements of a line are its words in bold, its links and so on.
    between = "" if found.get("type") in _LINES else "\n"
    line = between.join(filter(None, texts))
    return "\n".join(filter(None, [own, fields, rows, line]))


def _mark_of_element(element: Mapping[str, Any]) -> str:
    """Return an element of a block without a text as the text of a message has it, or ""."""
    for name, form in _ELEMENTS.items():
        value = element.get(name)
        if isinstance(value, str) and value:
            return form.format(value)
    return ""


def _plain(text: str, names: Mapping[str, str]) -> str:
    """Return a text of Slack with names and links in place of its marks."""

    def replaced(found: re.Match[str]) -> str:
        sign, target, label = found["sign"], found["target"], found["label"]
        if sign == "@":
            return f"@{names.get(target) or label or target}"
        if sign:
            return f"{'#' if sign == '#' else '@'}{label or target}"
        return f"[{label}]({target})" if label else target

    return unescape(_MARK.sub(replaced, text))
