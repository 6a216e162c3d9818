"""The files that were uploaded to the test endpoint, and those that its batches wrote."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any


class RequestError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class StoredFile:
    """``content`` is empty once it was deleted."""

    id: str
    filename: str
    purpose: str
    content: bytes = field(repr=False)
    created_at: int
    deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        size = {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
        }
        return {
            **size,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "expires_at": None,
        }


class Files:
    def __init__(self) -> None:
        self.stored: dict[str, StoredFile] = {}
        self._numbers = count(1)

    def add(self, filename: str, purpose: str, content: bytes) -> StoredFile:
        file = StoredFile(
            f"file-{next(self._numbers):06d}", filename, purpose, content, int(time.time())
        )
        self.stored[file.id] = file
        return file

    def find(self, id: str) -> StoredFile:
        file = self.stored.get(id)
        if file is None or file.deleted:
            raise RequestError(404, f"No such File object: {id}")
        return file

    def delete(self, id: str) -> dict[str, Any]:
        self.stored[id] = replace(self.find(id), content=b"", deleted=True)
        return {"id": id, "object": "file", "deleted": True}

    def page(self, query: Mapping[str, str]) -> dict[str, Any]:
        wanted = [file for file in self.stored.values() if not file.deleted]
        if "purpose" in query:
            wanted = [file for file in wanted if file.purpose == query["purpose"]]
        listed = [file.as_json() for file in wanted]
        return page(listed if query.get("order") == "asc" else listed[::-1], query, 10_000)


def page(
    items: Sequence[Mapping[str, Any]], query: Mapping[str, str], usual_limit: int
) -> dict[str, Any]:
    """``limit`` of the items that come after the item ``after``."""
    ids = [item["id"] for item in items]
    after, limit = query.get("after"), query.get("limit", str(usual_limit))
    if after is not None and after not in ids:
        raise RequestError(400, f"'after': no object {after}.")
    if not limit.isdecimal() or int(limit) == 0:
        raise RequestError(400, f"'limit' has to be a positive number, not {limit}.")
    start = ids.index(after) + 1 if after else 0
    data = items[start : start + int(limit)]
    ends = (
        {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
        if data
        else {"first_id": None, "last_id": None}
    )
    return {"object": "list", "data": data, **ends, "has_more": start + len(data) < len(items)}


@dataclass(frozen=True)
class Part:
    filename: str
    content: bytes


def read_multipart(content_type: str, body: bytes) -> dict[str, Part]:
    """The parts of a form by name."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if boundary is None:
        raise RequestError(400, "The body is not multipart/form-data.")
    parts = {}
    for piece in body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = piece[2:-2].partition(b"\r\n\r\n")
        name = re.search(rb'[; ]name="([^"]*)"', head)
        filename = re.search(rb'filename="([^"]*)"', head)
        if name:
            parts[name[1].decode()] = Part(filename[1].decode() if filename else "", content)
    return parts
