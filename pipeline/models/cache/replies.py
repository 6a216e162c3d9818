"""Replies and vectors, remembered by what was asked. A reply is stored before anybody reads it.

Kept: keys (hashes), model names, raw replies, token counts, who asked. Not kept: what was asked,
addresses, API keys.
"""

from collections.abc import Callable, Iterable, Mapping
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


def is_whole(
    digest: int | None, *content: str | int | bytes, anew: str = "it is asked again"
) -> bool:
    """Rows of earlier versions have no digest."""
    if digest is None or digest == row_digest(*content):
        return True
    tell(f"cache: the row of {content[0]} is damaged; {anew}")
    return False


@dataclass(frozen=True)
class Completion:
    """A reply as it came. ``valid`` is None until somebody has read it."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    valid: bool | None = None


def _content(reply: Completion) -> tuple[str | int, ...]:
    """All but the verdict, which changes."""
    return reply.text, reply.finish_reason, reply.input_tokens, reply.output_tokens


class ReplyCache:
    """``url``: ``sqlite:///path`` or ``postgresql://...``; "" remembers nothing. ``owner``: on
    whose behalf replies are stored, so that it can later forget its own, or what finds it out once
    it is needed. ``private``: nobody else is meant to store there, so rows without an owner, of an
    older version, are its own. Raises as Database does."""

    def __init__(self, url: str, owner: str | Callable[[], str] = "", private: bool = False):
        self.database = Database(url)
        self.private = private
        self._owner = owner
        self._replies = SharedWrites(self.database, COMPLETIONS)

    @cached_property
    def owner(self) -> str:
        return self._owner if isinstance(self._owner, str) else self._owner()

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """What is known of these keys."""
        columns = [
            COMPLETIONS.c[name] for name in ("key", "digest", *Completion.__dataclass_fields__)
        ]
        rows = self.database.select(columns, list(dict.fromkeys(keys)))
        found = {key: (digest, Completion(*row)) for key, digest, *row in rows}
        return {
            key: reply
            for key, (digest, reply) in found.items()
            if is_whole(digest, key, *_content(reply))
        }

    def store_completion(self, key: str, model: str, reply: Completion) -> None:
        """Keep the reply, in place of an older one; it is on disk when the call returns."""
        self._replies.write(self._row(key, model, reply))

    def store_completions(self, model: str, replies: Mapping[str, Completion]) -> None:
        self.database.upsert(
            COMPLETIONS, [self._row(key, model, reply) for key, reply in replies.items()]
        )

    def _row(self, key: str, model: str, reply: Completion) -> dict[str, Any]:
        digest = row_digest(key, *_content(reply))
        return {
            "key": key, "model": model, "created": datetime.now(UTC), "owner": self.owner,
            "digest": digest,
            **vars(reply),
        }  # fmt: skip

    def mend(self) -> None:
        """See repair.py."""
        mend(self.database)

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Note which stored replies may be served."""
        if valid and self.database.there:
            self.database.in_room(lambda: self._flag(valid))

    def _flag(self, valid: Mapping[str, bool]) -> None:
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
        """Delete these replies, whoever has stored them: they are asked for again."""
        if not self.database.there:
            return
        with self.database.connection(write=True) as connection:
            for some in slices(list(keys)):
                connection.execute(sa.delete(COMPLETIONS).where(COMPLETIONS.c.key.in_(some)))

    def vectors(self, keys: Iterable[str]) -> dict[str, np.ndarray]:
        columns = [EMBEDDINGS.c[name] for name in ("key", "digest", "vector")]
        rows = self.database.select(columns, list(dict.fromkeys(keys)))
        whole = {key: vector for key, digest, vector in rows if is_whole(digest, key, vector)}
        return {
            key: np.frombuffer(vector, "<f4").astype(np.float32) for key, vector in whole.items()
        }

    def known_vectors(self, keys: Iterable[str]) -> set[str]:
        """Which of the keys have a vector."""
        return {
            key for (key,) in self.database.select([EMBEDDINGS.c.key], list(dict.fromkeys(keys)))
        }

    def store_vectors(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Keep the vectors, all of them or, if the process dies, none."""
        shared = {"model": model, "owner": self.owner}
        stored = {key: vector.astype("<f4").tobytes() for key, vector in vectors.items()}
        rows = [
            {"key": key, **shared, "vector": vector, "digest": row_digest(key, vector)}
            for key, vector in stored.items()
        ]
        self.database.upsert(EMBEDDINGS, rows)

    def forget_all_but(self, keys: Iterable[str]) -> int:
        """Delete what this owner has stored, but for these keys, and leave no trace of it in the
        database's file. Returns how many replies, vectors and conversions went. Raises StoreError
        when a trace may be left: the same call goes on."""
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

    def owned(self) -> int:
        """How many replies, vectors and conversions are this owner's."""
        return self._count(self._owners)

    def unowned(self) -> int:
        """How many replies, vectors and conversions have no owner: an older version stored them."""
        return self._count({""})

    def _count(self, owners: set[str]) -> int:
        if not self.database.there:
            return 0
        with self.database.connection() as connection:
            counts = [
                sa.select(sa.func.count()).where(table.c.owner.in_(owners)) for table in FORGETTABLE
            ]
            return sum(connection.execute(count).scalar_one() for count in counts)

    @property
    def _owners(self) -> set[str]:
        return {self.owner, ""} if self.private else {self.owner}

    def close(self) -> None:
        self.database.close()


NO_CACHE = ReplyCache("")
"""Remembers nothing."""
