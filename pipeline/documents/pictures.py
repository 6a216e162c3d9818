"""Describe pictures with a chat model that sees them; what it writes is the text of a document."""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipeline.contract.conversion import Conversion, Converted, FileToConvert, NotConverted
from pipeline.contract.prompts import Prompt
from pipeline.documents.input_files import not_read
from pipeline.models.base import GENEROUS_REPLY, ChatModel, ChatReply, ChatRequest, Picture, Talk
from pipeline.models.parse.lenient_json import bare
from pipeline.models.parse.records import failed, unusable

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
"""Suffixes of pictures: the kinds that the OpenAI protocol has."""
MOST_MB = 20
"""The largest picture. OpenAI and most other endpoints refuse larger ones."""
_LAST_CHUNK = b"IEND\xaeB`\x82"
"""The last chunk of every PNG, with its checksum."""
Size = tuple[int, int]
"""Width and height in pixels."""


def describe_pictures(
    files: Sequence[FileToConvert], prompt: Prompt, chat: ChatModel
) -> list[Converted]:
    """Return what the model writes about each picture, or why there is nothing, in their order.

    The model is asked once about equal pictures, whatever their names are.
    """
    looked_at = [look_at(file.path) for file in files]
    talks = [
        _talk_about(file.name, one, prompt, str(chat.identity.get("model", "")))
        for file, one in zip(files, looked_at, strict=True)
        if isinstance(one, Picture)
    ]
    described = iter(chat.converse(talks) if talks else [])
    return [next(described) if isinstance(one, Picture) else one for one in looked_at]


def _talk_about(name: str, picture: Picture, prompt: Prompt, model: str) -> Talk[Converted]:
    """Ask for the description of one picture; ``name`` is that of its file."""
    messages = ({"role": "user", "content": prompt.render().strip()},)
    request = ChatRequest(
        name, messages, check=_find_no_use, max_tokens=GENEROUS_REPLY, picture=picture
    )
    (reply,) = yield (request,)
    return _read_description(reply, model)


def _find_no_use(text: str) -> str | None:
    """Return why the text of a reply is of no use, or None."""
    problem = unusable(text)
    return problem.message if problem else None


def _read_description(reply: ChatReply, model: str) -> Converted:
    problem = failed(reply) or unusable(reply.text)
    if problem:
        return NotConverted(problem.reason, problem.message)
    return Conversion(bare(reply.text).strip(), model)


def look_at(path: Path) -> Picture | NotConverted:
    """Return the picture in a file, or why there is none: it is too large, damaged or unreadable.

    The content decides on the format, not the suffix: endpoints refuse a wrong one.
    """
    try:
        if path.stat().st_size > MOST_MB * 2**20:
            message = f"a picture over {MOST_MB} MB, which endpoints refuse; save it smaller"
            return NotConverted("too_large", message)
        content = path.read_bytes()
    except OSError as error:
        return NotConverted(*not_read(error))
    media_type, size_of = _format_of(content)
    if size_of is None:
        known = "no PNG, JPEG, WebP or GIF, whatever its suffix says"
        return NotConverted("parse", f"{known}; save it as one of these")
    try:
        size = size_of(content)
    except struct.error:
        size = None
    if size is None or not all(size):
        return NotConverted("parse", "a damaged picture: a part of it is missing; mend it")
    return Picture(path, hashlib.sha256(content).hexdigest(), media_type, *size)


SizeOf = Callable[[bytes], Size | None]


def _format_of(content: bytes) -> tuple[str, SizeOf | None]:
    """Return the media type of a picture, and the function that reads its size."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp", _size_of_webp
    for beginning, (media_type, size_of) in _FORMATS.items():
        if content.startswith(beginning):
            return media_type, size_of
    return "", None


# Each function below returns None for a picture whose end is missing.


def _size_of_png(content: bytes) -> Size | None:
    width, height = struct.unpack_from(">II", content, 16)
    return (width, height) if content.find(_LAST_CHUNK, 16) > 0 else None


def _size_of_gif(content: bytes) -> Size | None:
    width, height = struct.unpack_from("<HH", content, 6)
    return (width, height) if content.rstrip(b"\x00").endswith(b";") else None


def _size_of_webp(content: bytes) -> Size | None:
    (length,) = struct.unpack_from("<I", content, 4)
    if len(content) < length + 8:
        return None
    kind = content[12:16]
    if kind == b"VP8X":
        return _count_from_0(content[24:27]), _count_from_0(content[27:30])
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", content, 26)
    # The two upper bits of each say how to scale it.
    return width & 0x3FFF, height & 0x3FFF


def _count_from_0(little_endian: bytes) -> int:
    return int.from_bytes(little_endian, "little") + 1


_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of JPEG behind which the size stands."""
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})
_START_OF_SCAN, _END_OF_PICTURE = 0xDA, b"\xff\xd9"


def _size_of_jpeg(content: bytes) -> Size | None:
    """Return the size of a JPEG from its segments, each of a marker and its length."""
    size: Size | None = None
    place = 2
    while place + 4 <= len(content):
        if content[place] != 0xFF:
            return None
        marker = content[place + 1]
        if marker == 0xFF:
            # Any number of these may fill the space before a marker.
            place += 1
            continue
        if marker == _START_OF_SCAN:
            # The end of a preview that lies before the picture does not count.
            return size if content.find(_END_OF_PICTURE, place) > 0 else None
        if marker in _WITHOUT_LENGTH:
            place += 2
            continue
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            size = (width, height)
        (length,) = struct.unpack_from(">H", content, place + 2)
        place += 2 + length
    return None


_FORMATS: Mapping[bytes, tuple[str, SizeOf]] = {
    b"\x89PNG\r\n\x1a\n": ("image/png", _size_of_png),
    b"\xff\xd8\xff": ("image/jpeg", _size_of_jpeg),
    b"GIF87a": ("image/gif", _size_of_gif),
    b"GIF89a": ("image/gif", _size_of_gif),
}
"""The first bytes of a format -> its media type, and the function that reads its size."""
