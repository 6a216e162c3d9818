"""The audit log of a project: one line of JSON for each question, edit, sign-in and export on the
server.

    data/audit/<day>.jsonl    the lines of one day in UTC, to which all processes append
    data/audit/hash-key       a secret key for hashes, without which hashed texts could be guessed

Lines never change, with two exceptions. If a document is purged, its name and the texts of
questions about it are removed. If a person is erased, so are the texts that name the person.
"""

import fcntl
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pipeline.engine.usage.lines import append
from pipeline.errors import StoreError, in_words
from pipeline.files import full_disk_named, lines_of, secret_in, write_text
from pipeline.settings.schema import AuditSettings

FOLDER = "data/audit"
DAYS = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].jsonl"
"""Pattern of the names of the log's own files; other files in the folder are left alone."""
PURGED = "purged"
"""The source of a passage in a line after its document was purged."""
LONGEST_TEXT = 10_000
"""Characters of a text that a line keeps. A refused question may have a megabyte and costs its
sender nothing, so whole texts could fill the disk, and nothing is answered on a full one."""
_NOT_SHOWN = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON allows in a text: controls of a terminal, ends of lines to some readers, and
signs that turn the direction of what follows."""
Kind = Literal["question", "edit", "sign-in", "export"]


@dataclass(frozen=True)
class AuditLog:
    """The log in a folder.

    If ``hashed`` is true, only hashes of the texts that people write are kept. Files older than
    ``keep_days`` days are deleted.
    """

    folder: Path
    hashed: bool = True
    keep_days: int = 90

    def add(self, kind: Kind, text: str | None = None, **fields: Any) -> None:
        """Append a line. ``text`` is what somebody wrote, and ``fields`` are values of JSON.

        Raises DiskFullError, or StoreError if the line cannot be written. Then the caller must not
        do what the line says.
        """
        now = datetime.now(UTC)
        line = {"at": now.isoformat(timespec="milliseconds"), "kind": kind, **fields}
        try:
            if text is not None:
                line |= self._hash_of(text) if self.hashed else _beginning_of(text)
            with self._alone():
                file = self.folder / f"{now:%Y-%m-%d}.jsonl"
                if not file.exists():
                    self._delete_old(now)
                encoded = _encoded(line).encode(errors="replace")
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                with open(descriptor, "a+b", buffering=0) as opened:
                    append(opened, encoded + b"\n")
        except OSError as error:
            fact = f"the audit log could not be written ({in_words(error)})"
            raise StoreError(f"{self.folder}: {fact}; let this user write there") from None

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines, the oldest first, except lines that a crash has cut off."""
        for file in sorted(self.folder.glob(DAYS)):
            for line in lines_of(file):
                content = _content(line)
                if content is not None:
                    yield content

    def forget(self, is_purged: Callable[[str], bool]) -> int:
        """Remove purged documents, which ``is_purged`` recognizes by name; return the number of
        changed lines.

        A line still says who asked when, and what it cost. Passages of the document become
        ``purged``. The question becomes a hash, because it may repeat what the document says.
        """
        return self._change(lambda line: self._without(line, is_purged))

    def hash_texts(self, is_chosen: Callable[[str], bool]) -> int:
        """Put hashes in place of the chosen texts; return the number of changed lines."""

        def hashed(line: str) -> str:
            content = _content(line)
            if content is None or not is_chosen(str(content.get("text", ""))):
                return line
            return _encoded(content | self._hash_of(content.pop("text")))

        return self._change(hashed)

    def _change(self, change: Callable[[str], str]) -> int:
        """Replace each line by what ``change`` returns; return the number of changed lines."""
        if not self.folder.is_dir():
            return 0
        changed = 0
        with self._alone():
            for file in sorted(self.folder.glob(DAYS)):
                before = lines_of(file)
                after = [change(line) for line in before]
                pairs = zip(before, after, strict=True)
                changed_here = sum(old_line != new_line for old_line, new_line in pairs)
                if changed_here:
                    write_text(file, "".join(f"{line}\n" for line in after))
                    file.chmod(0o600)
                changed += changed_here
        return changed

    def _without(self, line: str, is_purged: Callable[[str], bool]) -> str:
        """Return a line without the names of purged documents, and without a text about them."""
        content = _content(line)
        if content is None:
            return line
        passages = content.get("passages", [])
        kept = [each for each in passages if not is_purged(each.get("source", ""))]
        if len(kept) == len(passages):
            return line
        removed = len(passages) - len(kept)
        content["passages"] = kept + [{"source": PURGED}] * removed
        if "text" in content:
            content |= self._hash_of(content.pop("text"))
        return _encoded(content)

    def _hash_of(self, text: str) -> dict[str, str]:
        key = secret_in(self.folder / "hash-key")
        encoded = text.encode(errors="replace")
        return {"text_hash": hmac.new(key.encode(), encoded, hashlib.sha256).hexdigest()}

    def _delete_old(self, now: datetime) -> None:
        oldest = f"{now - timedelta(days=self.keep_days):%Y-%m-%d}"
        for file in self.folder.glob(DAYS):
            if file.stem < oldest:
                file.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the log among all processes while the block runs.

        The lock is a file of its own, because ``forget`` replaces the files of the log.
        """
        with full_disk_named(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self.folder / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield


def _encoded(line: Mapping[str, Any]) -> str:
    """Return a line as JSON that a terminal shows as it is, and that no reader breaks in two."""
    text = json.dumps(line, ensure_ascii=False)
    return _NOT_SHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _beginning_of(text: str) -> dict[str, Any]:
    """Return the fields of a text: the text itself, or its beginning and the length of all."""
    if len(text) <= LONGEST_TEXT:
        return {"text": text}
    return {"text": text[:LONGEST_TEXT], "characters": len(text)}


def audit_log_of(root: Path, settings: AuditSettings) -> AuditLog | None:
    """Return the log of the project, or None if settings do not ask for one."""
    if not settings.enabled:
        return None
    return AuditLog(root / FOLDER, settings.texts == "hash", settings.keep_days)


def _content(line: str) -> dict[str, Any] | None:
    try:
        content: Mapping[str, Any] = json.loads(line)
        return dict(content)
    except (ValueError, TypeError, RecursionError):
        return None
