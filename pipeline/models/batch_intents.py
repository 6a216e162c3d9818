"""Batches under way, written down before they are made: a run killed anywhere finds them again."""

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from pipeline.files import tell
from pipeline.models.database import BATCHES, Database, row_digest

KEY = re.compile(r"[0-9a-f]{64}")
NO_KEY = ""
"""Of a batch whose keys are lost: what it answers is kept all the same."""


@dataclass(frozen=True)
class Intent:
    """``id`` is the batch's metadata and its file's name; ``keys`` are those of the cache, none once its
    replies are there; ``tokens``: about what it takes; ``file_id`` and ``batch_id`` are the
    endpoint's, None until they are known."""

    id: str
    keys: tuple[str, ...]
    tokens: int = 0
    file_id: str | None = None
    batch_id: str | None = None

    @property
    def file_name(self) -> str:
        return f"graphmill-{self.id}.jsonl"


@dataclass(frozen=True)
class Intents:
    """Of one owner at one endpoint."""

    database: Database
    owner: str
    endpoint: str

    def all(self) -> list[Intent]:
        """Oldest first."""
        if not self.database.there:
            return []
        columns = [BATCHES.c[name] for name in ("id", "keys", "tokens", "file_id", "batch_id", "digest")]
        query = sa.select(*columns).where(self._own).order_by(BATCHES.c.created, BATCHES.c.id)
        with self.database.connection() as connection:
            rows = connection.execute(query).all()
        return [_read(*row) for row in rows]

    def begin(self, keys: Iterable[str], tokens: int) -> Intent:
        """Write down that a batch of these requests is about to be made."""
        intent = Intent(secrets.token_hex(12), tuple(keys), tokens)
        whose = {"owner": self.owner, "endpoint": self.endpoint, "created": datetime.now(UTC)}
        self.database.upsert(BATCHES, [{"id": intent.id, **whose, **_written(intent)}])
        return intent

    def note(self, intent: Intent) -> Intent:
        """Keep what is known of it by now."""
        with self.database.connection(write=True) as connection:
            connection.execute(sa.update(BATCHES).where(BATCHES.c.id == intent.id).values(**_written(intent)))
        return intent

    def end(self, intent: Intent) -> None:
        with self.database.connection(write=True) as connection:
            connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == intent.id))

    @property
    def _own(self) -> sa.ColumnElement[bool]:
        return (BATCHES.c.owner == self.owner) & (BATCHES.c.endpoint == self.endpoint)


def _written(intent: Intent) -> dict[str, Any]:
    row = {
        "keys": json.dumps(intent.keys), "tokens": intent.tokens, "file_id": intent.file_id,
        "batch_id": intent.batch_id,
    }  # fmt: skip
    return {**row, "digest": _digest(intent.id, **row)}


def _digest(id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None) -> int:
    return row_digest(id, keys, tokens, file_id or "", batch_id or "")


def _read(id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None, digest: int | None) -> Intent:
    """Of a damaged row those keys that can be read: what the others asked is asked again. Its file and its batch are
    looked for at the endpoint by the row's id, for another batch's would be as good as this one's. Rows of earlier
    versions have no digest."""
    try:
        if digest is None or digest == _digest(id, keys, tokens, file_id, batch_id):
            return Intent(id, tuple(map(str, json.loads(keys))), tokens, file_id, batch_id)
    except (ValueError, TypeError):
        pass
    tell(f"cache: the row of batch {id} is damaged; what of its requests cannot be read is asked again")
    return Intent(id, tuple(KEY.findall(str(keys))) or (NO_KEY,))
