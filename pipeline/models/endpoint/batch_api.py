"""Client of an endpoint's Batch API, and the records of its batches.

A record is written before its batch is created, so that no batch is lost if the run is killed.
"""

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
"""Key of a batch whose own keys are lost. Its replies are stored all the same."""
Answer = TypeVar("Answer")
COMPLETIONS = "/v1/chat/completions"
WINDOW = "24h"
"""Time within which the endpoint must complete a batch."""
METADATA = "graphmill"
"""Name of the metadata field that holds the id of the record."""


@dataclass(frozen=True)
class BatchIntent:
    """Record of a batch that was created or is about to be created.

    ``id`` is in the batch's metadata and in its file's name. ``keys`` are the cache keys of its
    requests, empty once the replies are stored. ``tokens``: about what it needs. ``file_id`` and
    ``batch_id`` are the endpoint's ids, None while unknown.
    """

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
    """Records of the batches of one owner at one endpoint."""

    database: Database
    owner: str
    endpoint: str

    def all(self) -> list[BatchIntent]:
        """Return all records, oldest first."""
        if not self.database.there:
            return []
        columns = [
            BATCHES.c[name] for name in ("id", "keys", "tokens", "file_id", "batch_id", "digest")
        ]
        query = sa.select(*columns).where(self._own).order_by(BATCHES.c.created, BATCHES.c.id)
        with self.database.connection() as connection:
            rows = connection.execute(query).all()
        return [_read_record(*row) for row in rows]

    def begin(self, keys: Iterable[str], tokens: int) -> BatchIntent:
        """Store and return a record of a batch that is about to be created for these requests."""
        intent = BatchIntent(secrets.token_hex(12), tuple(keys), tokens)
        row = {
            "id": intent.id,
            "owner": self.owner,
            "endpoint": self.endpoint,
            "created": datetime.now(UTC),
            **_columns_of(intent),
        }
        self.database.upsert(BATCHES, [row])
        return intent

    def note(self, intent: BatchIntent) -> BatchIntent:
        """Update the stored record, and return it."""
        with self.database.connection(write=True) as connection:
            update = sa.update(BATCHES).where(BATCHES.c.id == intent.id)
            connection.execute(update.values(**_columns_of(intent)))
        return intent

    def end(self, intent: BatchIntent) -> None:
        """Delete the record."""
        with self.database.connection(write=True) as connection:
            connection.execute(sa.delete(BATCHES).where(BATCHES.c.id == intent.id))

    @property
    def _own(self) -> sa.ColumnElement[bool]:
        return (BATCHES.c.owner == self.owner) & (BATCHES.c.endpoint == self.endpoint)


def _columns_of(intent: BatchIntent) -> dict[str, Any]:
    """Return the columns of the record that may change, with their digest."""
    row = {
        "keys": json.dumps(intent.keys),
        "tokens": intent.tokens,
        "file_id": intent.file_id,
        "batch_id": intent.batch_id,
    }
    return {**row, "digest": _digest(intent.id, **row)}


def _digest(id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None) -> int:
    return row_digest(id, keys, tokens, file_id or "", batch_id or "")


def _read_record(
    id: str, keys: str, tokens: int, file_id: str | None, batch_id: str | None, digest: int | None
) -> BatchIntent:
    """Return the record in a row of the table.

    A damaged row keeps only the keys that can still be read; the other requests are made again. Its
    ids of file and batch may be wrong, so both are searched for at the endpoint by the row's id.
    Rows of earlier versions have no digest and count as intact.
    """
    try:
        if digest is None or digest == _digest(id, keys, tokens, file_id, batch_id):
            return BatchIntent(id, tuple(map(str, json.loads(keys))), tokens, file_id, batch_id)
    except (ValueError, TypeError):
        pass
    tell(
        f"cache: the row of batch {id} is damaged; what of its requests cannot be read is asked"
        " again"
    )
    readable_keys = tuple(KEY.findall(str(keys)))
    return BatchIntent(id, readable_keys or (NO_KEY,))


class RefusedError(ModelError):
    """The endpoint refuses a request, and would refuse every repetition of it."""


@dataclass(frozen=True)
class BatchApi:
    """Calls of the Batch API. A call is repeated after transient errors.

    Raises AuthError when the key is refused, RefusedError if no repetition can succeed, and
    ModelError when all retries failed.
    """

    endpoint: Endpoint
    max_retries: int

    def upload(self, intent: BatchIntent, content: bytes) -> BatchIntent:
        """Upload the requests as a file. Return the record with the id of the file.

        If the answer was lost, the file is found by its name.
        """
        file = self._insist(
            lambda client: client.files.create(file=(intent.file_name, content), purpose="batch"),
            lambda: self._find_file(intent.file_name),
        )
        return replace(intent, file_id=file.id)

    def create(self, intent: BatchIntent) -> BatchIntent:
        """Create the batch. Return the record with its id.

        If the answer was lost, the batch is found by its metadata.
        """
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
        """Return the batch of the record if the endpoint has one, or None."""

        def search(client: "OpenAI") -> Any | None:
            # The client loads further pages as needed.
            for batch in client.batches.list(limit=100):
                metadata = batch.metadata or {}
                if metadata.get(METADATA) == intent.id:
                    return batch
            return None

        return self._insist(search)

    def fetch(self, intent: BatchIntent) -> Any | None:
        """Return the current state of the batch, or None if the endpoint has forgotten it."""
        return self._insist(
            _unless_gone(lambda client: client.batches.retrieve(intent.batch_id or ""))
        )

    def lines(self, batch: Any) -> Iterator[str]:
        """Yield the lines of the batch's output file, then those of its error file.

        Deleted files have no lines.
        """
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            content = self._insist(
                _unless_gone(lambda client, file_id=file_id: client.files.content(file_id).text)
            )
            # splitlines would also split at U+2028, which a reply may contain.
            yield from filter(None, (content or "").split("\n"))

    def clean_up(self, intent: BatchIntent, batch: Any | None) -> None:
        """Delete the files of the batch at the endpoint, because they contain text of documents."""
        files = [
            intent.file_id,
            getattr(batch, "output_file_id", None),
            getattr(batch, "error_file_id", None),
        ]
        if intent.file_id is None:
            files.append(getattr(self._find_file(intent.file_name), "id", None))
        for file_id in filter(None, files):
            self._insist(_unless_gone(lambda client, file_id=file_id: client.files.delete(file_id)))

    def cancel(self, intent: BatchIntent) -> None:
        """Cancel the batch. A batch that has already ended is left as it is, and errors are
        ignored."""
        self.endpoint.call(
            _unless_gone(lambda client: client.batches.cancel(intent.batch_id or ""))
        )

    def _find_file(self, name: str) -> Any | None:
        """Return the file with this name at the endpoint, or None."""

        def search(client: "OpenAI") -> Any | None:
            for file in client.files.list(purpose="batch"):
                if file.filename == name:
                    return file
            return None

        return self._insist(search)

    def _insist(
        self,
        function: "Callable[[OpenAI], Answer]",
        find: "Callable[[], Answer | None]" = lambda: None,
    ) -> Answer:
        """Make a call and return its answer. Repeat it after transient errors.

        Before each repetition, ``find`` searches for the result: the previous call may have
        succeeded although its answer was lost.
        """
        for attempt in count(1):
            answer = self.endpoint.call(function)
            if not isinstance(answer, Failure):
                return answer
            if not answer.passing or attempt > self.max_retries:
                raise self._error(answer)
            pause = answer.retry_after
            if pause is None:
                pause = backoff(attempt)
            time.sleep(pause)
            found = find()
            if found is not None:
                return found
        raise AssertionError("unreachable")

    def _error(self, failure: Failure) -> GraphmillError:
        """Return the error to raise for a failure, with the next action."""
        if failure.fatal:
            return failure.fatal
        fact = f"{self.endpoint.where}: batch: {failure.message}"
        if failure.passing:
            return ModelError(f"{fact}; run again: earlier results are kept")
        return RefusedError(f"{fact}; correct what it names: earlier results are kept")


def _unless_gone(function: "Callable[[OpenAI], Answer]") -> "Callable[[OpenAI], Answer | None]":
    """Return a function that makes the call, and returns None if the endpoint has no such
    object."""

    def call(client: "OpenAI") -> "Answer | None":
        from openai import NotFoundError

        try:
            return function(client)
        except NotFoundError:
            return None

    return call
