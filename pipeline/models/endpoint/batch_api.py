"""What graphmill asks of the Batch API of an endpoint, and the batches under way, written down
before they are made."""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from pipeline.errors import GraphmillError, ModelError
from pipeline.files import tell
from pipeline.models.cache.database import BATCHES, Database, row_digest
from pipeline.models.endpoint.attempts import backoff
from pipeline.models.endpoint.client import Endpoint, Failure

if TYPE_CHECKING:
    from openai import OpenAI


KEY = re.compile(r"[0-9a-f]{64}")
NO_KEY = ""
"""Of a batch whose keys are lost: what it answers is kept all the same."""
Answer = TypeVar("Answer")
COMPLETIONS = "/v1/chat/completions"
WINDOW = "24h"
METADATA = "graphmill"


@dataclass(frozen=True)
class BatchIntent:
    """``id`` is the batch's metadata and its file's name; ``keys`` are those of the cache, none
    once its replies are there; ``tokens``: about what it takes; ``file_id`` and ``batch_id`` are
    the endpoint's, None until they are known."""

    id: str
    keys: tuple[str, ...]
    tokens: int = 0
    file_id: str | None = None
    batch_id: str | None = None

    @property
    def file_name(self) -> str:
        return f"graphmill-{self.id}.jsonl"


@dataclass(frozen=True)
class BatchIntents:
    """Of one owner at one endpoint."""

    database: Database
    owner: str
    endpoint: str

    def all(self) -> list[BatchIntent]:
        """Oldest first."""
        if not self.database.there:
            return []
        columns = [
            BATCHES.c[name] for name in ("id", "keys", "tokens", "file_id", "batch_id", "digest")
        ]
        query = sa.select(*columns).where(self._own).order_by(BATCHES.c.created, BATCHES.c.id)
        with self.database.connection() as connection:
            rows = connection.execute(query).all()
        return [_read(*row) for row in rows]

    def begin(self, keys: Iterable[str], tokens: int) -> BatchIntent:
        """Write down that a batch of these requests is about to be made."""
        intent = BatchIntent(secrets.token_hex(12), tuple(keys), tokens)
        whose = {"owner": self.owner, "endpoint": self.endpoint, "created": datetime.now(UTC)}
        self.database.upsert(BATCHES, [{"id": intent.id, **whose, **_written(intent)}])
        return intent

    def note(self, intent: BatchIntent) -> BatchIntent:
        """Keep what is known of it by now."""
        with self.database.connection(write=True) as connection:
            connection.execute(
                sa.update(BATCHES).where(BATCHES.c.id == intent.id).values(**_written(intent))
            )
        return intent

    def end(self, intent: BatchIntent) -> None:
        with self.database.connection(write=True) as connection:
            connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == intent.id))

    @property
    def _own(self) -> sa.ColumnElement[bool]:
        return (BATCHES.c.owner == self.owner) & (BATCHES.c.endpoint == self.endpoint)


def _written(intent: BatchIntent) -> dict[str, Any]:
    row = {
        "keys": json.dumps(intent.keys), "tokens": intent.tokens, "file_id": intent.file_id,
        "batch_id": intent.batch_id,
    }  # fmt: skip
    return {**row, "digest": _digest(intent.id, **row)}


def _digest(id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None) -> int:
    return row_digest(id, keys, tokens, file_id or "", batch_id or "")


def _read(
    id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None, digest: int | None
) -> BatchIntent:
    """Of a damaged row those keys that can be read: what the others asked is asked again. Its file
    and its batch are looked for at the endpoint by the row's id, for another batch's would be as
    good as this one's. Rows of earlier versions have no digest."""
    try:
        if digest is None or digest == _digest(id, keys, tokens, file_id, batch_id):
            return BatchIntent(id, tuple(map(str, json.loads(keys))), tokens, file_id, batch_id)
    except (ValueError, TypeError):
        pass
    tell(
        f"cache: the row of batch {id} is damaged; what of its requests cannot be read is asked"
        " again"
    )
    return BatchIntent(id, tuple(KEY.findall(str(keys))) or (NO_KEY,))


class RefusedError(ModelError):
    """The endpoint will not have it, however often it is asked."""


@dataclass(frozen=True)
class BatchApi:
    """Each call is tried again after failures that may pass. Raises AuthError when the key is
    refused, RefusedError where no other attempt can do better, ModelError when a call fails for
    good."""

    endpoint: Endpoint
    max_retries: int

    def upload(self, intent: BatchIntent, content: bytes) -> BatchIntent:
        """With the id of the file; one that an answer got lost for is found by its name."""
        file = self._insist(
            lambda client: client.files.create(file=(intent.file_name, content), purpose="batch"),
            lambda: self._file_called(intent.file_name),
        )
        return replace(intent, file_id=file.id)

    def create(self, intent: BatchIntent) -> BatchIntent:
        """With the id of the batch; one that an answer got lost for is found by its metadata."""
        asked = {
            "endpoint": COMPLETIONS,
            "completion_window": WINDOW,
            "metadata": {METADATA: intent.id},
        }
        batch = self._insist(
            lambda client: client.batches.create(input_file_id=intent.file_id or "", **asked),
            lambda: self.find(intent),
        )
        return replace(intent, batch_id=batch.id)

    def find(self, intent: BatchIntent) -> Any | None:
        """The intent's batch, if the endpoint has it."""

        def search(client: "OpenAI") -> Any | None:
            batches = client.batches.list(limit=100)
            return next(
                (batch for batch in batches if (batch.metadata or {}).get(METADATA) == intent.id),
                None,
            )

        return self._insist(search)

    def look(self, intent: BatchIntent) -> Any | None:
        """The batch as it is now; None when the endpoint has forgotten it."""
        return self._insist(
            _unless_gone(lambda client: client.batches.retrieve(intent.batch_id or ""))
        )

    def lines(self, batch: Any) -> Iterator[str]:
        """The lines of what it wrote: replies, then errors; of files that are deleted, none."""
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            content = self._insist(
                _unless_gone(lambda client, file_id=file_id: client.files.content(file_id).text)
            )
            yield from filter(
                None, (content or "").split("\n")
            )  # not splitlines: U+2028 may stand in a reply

    def clean_up(self, intent: BatchIntent, batch: Any | None) -> None:
        """Delete the files: they hold text of documents."""
        files = [
            intent.file_id,
            getattr(batch, "output_file_id", None),
            getattr(batch, "error_file_id", None),
        ]
        if intent.file_id is None:
            files.append(getattr(self._file_called(intent.file_name), "id", None))
        for file_id in filter(None, files):
            self._insist(_unless_gone(lambda client, file_id=file_id: client.files.delete(file_id)))

    def cancel(self, intent: BatchIntent) -> None:
        """Whether or not it still can be: an ended batch stays ended."""
        self.endpoint.call(
            _unless_gone(lambda client: client.batches.cancel(intent.batch_id or ""))
        )

    def _file_called(self, name: str) -> Any | None:
        return self._insist(
            lambda client: next(
                (file for file in client.files.list(purpose="batch") if file.filename == name), None
            )
        )

    def _insist(
        self,
        function: "Callable[[OpenAI], Answer]",
        find: "Callable[[], Answer | None]" = lambda: None,
    ) -> Answer:
        """``find``: what a call whose answer got lost has made all the same, looked for before it
        is tried again."""
        for attempt in count(1):
            answer = self.endpoint.call(function)
            if not isinstance(answer, Failure):
                return answer
            if not answer.passing or attempt > self.max_retries:
                raise self._error(answer)
            time.sleep(answer.retry_after if answer.retry_after is not None else backoff(attempt))
            if (found := find()) is not None:
                return found
        raise AssertionError("unreachable")

    def _error(self, failure: Failure) -> GraphmillError:
        if failure.fatal:
            return failure.fatal
        fact = f"{self.endpoint.where}: batch: {failure.message}"
        if failure.passing:
            return ModelError(f"{fact}; run again: what came before is kept")
        return RefusedError(f"{fact}; mend what it names: what came before is kept")


def _unless_gone(function: "Callable[[OpenAI], Answer]") -> "Callable[[OpenAI], Answer | None]":
    """None for what the endpoint does not have (any more)."""

    def call(client: "OpenAI") -> "Answer | None":
        from openai import NotFoundError

        try:
            return function(client)
        except NotFoundError:
            return None

    return call
