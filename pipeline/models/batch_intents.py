"""Batches under way, written down before they are made: a run killed anywhere finds them again."""

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from pipeline.files import tell
from pipeline.models.database import BATCHES, Database

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
        columns = [BATCHES.c[name] for name in ("id", "keys", "tokens", "file_id", "batch_id")]
        query = sa.select(*columns).where(self._own).order_by(BATCHES.c.created, BATCHES.c.id)
        with self.database.connection() as connection:
            rows = connection.execute(query).all()
        return [Intent(row.id, _keys(row.id, row.keys), row.tokens, row.file_id, row.batch_id) for row in rows]

    def begin(self, keys: Iterable[str], tokens: int) -> Intent:
        """Write down that a batch of these requests is about to be made."""
        intent = Intent(secrets.token_hex(12), tuple(keys), tokens)
        row = {
            "id": intent.id, "owner": self.owner, "endpoint": self.endpoint, "keys": json.dumps(intent.keys),
            "tokens": tokens, "created": datetime.now(UTC), "file_id": None, "batch_id": None,
        }  # fmt: skip
        self.database.upsert(BATCHES, [row])
        return intent

    def note(self, intent: Intent) -> Intent:
        """Keep what is known of it by now."""
        known = {"keys": json.dumps(intent.keys), "file_id": intent.file_id, "batch_id": intent.batch_id}
        with self.database.connection(write=True) as connection:
            connection.execute(sa.update(BATCHES).where(BATCHES.c.id == intent.id).values(**known))
        return intent

    def end(self, intent: Intent) -> None:
        with self.database.connection(write=True) as connection:
            connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == intent.id))

    @property
    def _own(self) -> sa.ColumnElement[bool]:
        return (BATCHES.c.owner == self.owner) & (BATCHES.c.endpoint == self.endpoint)


def _keys(id: str, text: str) -> tuple[str, ...]:
    """Of a damaged row those that can be read: what the others asked is asked again."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        tell(f"cache: the row of batch {id} is damaged; what of its requests cannot be read is asked again")
        return tuple(KEY.findall(text)) or (NO_KEY,)
