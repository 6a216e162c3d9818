"""Cache of replies and vectors. A reply is stored before anybody reads it.

Stored: keys (hashes), model names, raw replies, token counts, owners. Not stored: requests,
addresses, API keys.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa

from pipeline.files import tell
from pipeline.models.cache.database import (
    COMPLETIONS,
    CONVERSIONS,
    EMBEDDINGS,
    Database,
    SharedWrites,
    row_digest,
    slices,
)
from pipeline.models.cache.repair import compact, mend

FORGETTABLE = (COMPLETIONS, EMBEDDINGS, CONVERSIONS)
"""Tables whose rows have an owner, who can delete them."""


def is_intact(
    digest: int | None, *content: str | int | bytes, consequence: str = "it is requested again"
) -> bool:
    """Check a row against its digest. If it is damaged, warn and state the ``consequence``.

    ``content`` begins with the key of the row. Rows of earlier versions have no digest and count as
    intact.
    """
    if digest is None or digest == row_digest(*content):
        return True
    tell(f"cache: the row of {content[0]} is damaged; {consequence}")
    return False


@dataclass(frozen=True)
class Completion:
    """A reply as it arrived. ``valid`` is None until somebody has read it."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    valid: bool | None = None


def _digested(reply: Completion) -> tuple[str | int, ...]:
    """Return the fields that the digest covers: all but ``valid``, which changes."""
    return reply.text, reply.finish_reason, reply.input_tokens, reply.output_tokens


class ReplyCache:
    """Cache of replies, vectors and conversions.

    ``url``: ``sqlite:///path`` or ``postgresql://...``; "" stores nothing. ``owner``: the owner of
    what is stored, so that it can be deleted later. A function computes the owner when it is
    needed. ``private``: no other project stores here, so rows without an owner, from an older
    version, also belong to this one.

    Raises the errors of ``Database``.
    """

    def __init__(self, url: str, owner: str | Callable[[], str] = "", private: bool = False):
        self.database = Database(url)
        self.private = private
        self._owner = owner
        self._replies = SharedWrites(self.database, COMPLETIONS)

    @cached_property
    def owner(self) -> str:
        return self._owner if isinstance(self._owner, str) else self._owner()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the intact replies with these keys."""
        columns = [
            COMPLETIONS.c[name] for name in ("key", "digest", *Completion.__dataclass_fields__)
        ]
        rows = self.database.select(columns, list(dict.fromkeys(keys)))
        found = {}
        for key, digest, *row in rows:
            reply = Completion(*row)
            if is_intact(digest, key, *_digested(reply)):
                found[key] = reply
        return found

    def store_completion(self, key: str, model: str, reply: Completion) -> None:
        """Store the reply in place of an older one. It is on disk when the call returns."""
        self._replies.write(self._reply_row(key, model, reply))

    def store_completions(self, model: str, replies: Mapping[str, Completion]) -> None:
        """Store all replies in one transaction, in place of older ones."""
        self.database.upsert(
            COMPLETIONS, [self._reply_row(key, model, reply) for key, reply in replies.items()]
        )

    def _reply_row(self, key: str, model: str, reply: Completion) -> dict[str, Any]:
        return {
            "key": key,
            "model": model,
            "created": datetime.now(UTC),
            "owner": self.owner,
            "digest": row_digest(key, *_digested(reply)),
            **vars(reply),
        }

    def mend(self) -> None:
        """Repair the file of a SQLite cache if it is damaged (repair.py)."""
        mend(self.database)

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Store for each key whether its reply may be served."""
        if valid and self.database.there:
            self.database.in_room(lambda: self._flag(valid))

    def _flag(self, valid: Mapping[str, bool]) -> None:
        """Store the verdicts in one transaction."""
        with self.database.connection(write=True) as connection:
            for verdict in (True, False):
                keys = [key for key, value in valid.items() if value is verdict]
                for some in slices(keys):
                    update = (
                        sa.update(COMPLETIONS)
                        .where(COMPLETIONS.c.key.in_(some))
                        .values(valid=verdict)
                    )
                    connection.execute(update)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the replies with these keys, whoever owns them, so that they are requested
        again."""
        if not self.database.there:
            return
        with self.database.connection(write=True) as connection:
            for some in slices(list(keys)):
                connection.execute(sa.delete(COMPLETIONS).where(COMPLETIONS.c.key.in_(some)))

    def vectors(self, keys: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the intact vectors with these keys, as float32 arrays."""
        columns = [EMBEDDINGS.c[name] for name in ("key", "digest", "vector")]
        rows = self.database.select(columns, list(dict.fromkeys(keys)))
        return {
            key: np.frombuffer(vector, "<f4").astype(np.float32)
            for key, digest, vector in rows
            if is_intact(digest, key, vector)
        }

    def known_vectors(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have a vector."""
        rows = self.database.select([EMBEDDINGS.c.key], list(dict.fromkeys(keys)))
        return {key for (key,) in rows}

    def store_vectors(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Store all vectors in one transaction, as little-endian 32-bit numbers."""
        rows = []
        for key, vector in vectors.items():
            stored = vector.astype("<f4").tobytes()
            rows.append(
                {
                    "key": key,
                    "model": model,
                    "owner": self.owner,
                    "vector": stored,
                    "digest": row_digest(key, stored),
                }
            )
        self.database.upsert(EMBEDDINGS, rows)

    def forget_all_but(self, keys: Iterable[str]) -> int:
        """Delete what this owner has stored, except these keys, without a trace in the database's
        files.

        Returns the number of deleted replies, vectors and conversions. Raises StoreError if a trace
        may be left; the same call then continues.
        """
        if not self.database.there:
            return 0
        kept = set(keys)
        owners = self._owners
        gone = 0
        with self.database.connection(write=True) as connection:
            for table in FORGETTABLE:
                own = connection.execute(
                    sa.select(table.c.key).where(table.c.owner.in_(owners))
                ).scalars()
                forgotten = [key for key in own if key not in kept]
                for some in slices(forgotten):
                    connection.execute(sa.delete(table).where(table.c.key.in_(some)))
                gone += len(forgotten)
        compact(self.database, FORGETTABLE)
        return gone

    def texts(self) -> Iterator[str]:
        """Yield the texts of all replies of this owner."""
        if not self.database.there:
            return
        own = sa.select(COMPLETIONS.c.text).where(COMPLETIONS.c.owner.in_(self._owners))
        with self.database.connection() as connection:
            for (text,) in connection.execute(own.execution_options(yield_per=1000)):
                yield text

    def owned(self) -> int:
        """Return the number of replies, vectors and conversions of this owner."""
        return self._count_rows_of(self._owners)

    def unowned(self) -> int:
        """Return the number of replies, vectors and conversions without an owner, from an older
        version."""
        return self._count_rows_of({""})

    def _count_rows_of(self, owners: set[str]) -> int:
        """Return the number of replies, vectors and conversions of these owners."""
        if not self.database.there:
            return 0
        total = 0
        with self.database.connection() as connection:
            for table in FORGETTABLE:
                count = sa.select(sa.func.count()).where(table.c.owner.in_(owners))
                total += connection.execute(count).scalar_one()
        return total

    @property
    def _owners(self) -> set[str]:
        return {self.owner, ""} if self.private else {self.owner}

    def close(self) -> None:
        self.database.close()


NO_CACHE = ReplyCache("")
"""Cache that stores nothing."""
