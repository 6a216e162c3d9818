"""The batches of the test endpoint: made at once, answered when they were asked after often
enough."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.servers.openai_batch_rows import Answered, Row, expire_row, jsonl, read_rows, run_row
from tests.servers.openai_files import Files, RequestError, page

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer

ENDED = ("completed", "failed", "expired", "cancelled")
ENDPOINTS = ("/v1/chat/completions", "/v1/embeddings")


@dataclass(frozen=True)
class Batch:
    """``rows`` are forgotten once it has ended."""

    id: str
    endpoint: str
    input_file_id: str
    metadata: Mapping[str, str] | None
    total: int
    created_at: int
    rows: tuple[Row, ...] = field(default=(), repr=False)
    errors: tuple[Mapping[str, Any], ...] = ()
    status: str = "validating"
    polls: int = 0
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    output_file_id: str | None = None
    error_file_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        tokens = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        at = {
            f"{status}_at": self.created_at if self.status == status else None for status in ENDED
        }
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": list(self.errors)}
            if self.status == "failed"
            else None,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "expires_at": self.created_at + 24 * 3600,
            **at,
            "request_counts": {
                "total": self.total,
                "completed": self.completed,
                "failed": self.failed,
            },
            "usage": {**tokens, **details, "total_tokens": self.input_tokens + self.output_tokens},
            "metadata": self.metadata,
        }


class Batches:
    """A batch is answered by the request that finds it ended: then its rows go into the ledger."""

    def __init__(self, endpoint: "OpenAIServer", files: Files) -> None:
        self.made: dict[str, Batch] = {}
        self._endpoint, self._files = endpoint, files
        self._numbers = count(1)

    def create(self, body: Mapping[str, Any]) -> Batch:
        metadata = body.get("metadata")
        check_batch(body, metadata)
        try:
            content = self._files.find(str(body["input_file_id"])).content
        except RequestError as refused:
            raise RequestError(400, f"Invalid 'input_file_id': {refused.message}") from refused
        rows, errors = read_rows(content, body["endpoint"])
        if len(rows) > (most := self._endpoint.max_batch_requests):
            raise RequestError(
                400,
                f"The batch input file has {len(rows)} requests, more than the limit of {most}.",
            )
        id, now = f"batch_{next(self._numbers):06d}", int(time.time())
        batch = Batch(
            id,
            body["endpoint"],
            body["input_file_id"],
            metadata,
            len(rows),
            now,
            tuple(rows),
            tuple(errors),
        )
        self.made[id] = batch
        return batch

    def find(self, id: str) -> Batch:
        if id not in self.made:
            raise RequestError(404, f"No batch found with id '{id}'.")
        return self.made[id]

    def poll(self, id: str) -> Batch:
        """Look at it, which brings it on."""
        batch = self.find(id)
        if batch.status not in ENDED:
            self.made[id] = batch = self.bring_on(replace(batch, polls=batch.polls + 1))
        return batch

    def bring_on(self, batch: Batch) -> Batch:
        if batch.errors:
            return replace(batch, status="failed", rows=())
        if batch.status == "cancelling":
            return self.end_cancelled(batch)
        if self._endpoint.batch_hold or batch.polls <= self._endpoint.batch_polls:
            return replace(batch, status="in_progress")
        return self.end(batch)

    def end(self, batch: Batch) -> Batch:
        until = self._endpoint.batch_expire_after
        in_time, late = batch.rows[:until], batch.rows[until:] if until is not None else ()
        return self.answered(batch, in_time, late, "expired" if late else "completed")

    def end_cancelled(self, batch: Batch) -> Batch:
        """What was answered by then is in its files, as with OpenAI."""
        if batch.polls <= self._endpoint.batch_cancel_polls:
            return batch
        return self.answered(
            batch, batch.rows[: self._endpoint.batch_cancelled_after], (), "cancelled"
        )

    def answered(
        self, batch: Batch, in_time: tuple[Row, ...], late: tuple[Row, ...], status: str
    ) -> Batch:
        answered = [run_row(self._endpoint, row) for row in in_time]
        requests = [row.request for row in answered if row.request]
        for request in requests:
            self._endpoint.write_down(request)
        good = [row for row in answered if row.ok]
        bad = [row for row in answered if not row.ok] + [expire_row(row) for row in late]
        return replace(
            batch,
            rows=(),
            status=status,
            completed=len(good),
            failed=len(bad),
            input_tokens=sum(request.prompt_tokens for request in requests),
            output_tokens=sum(request.completion_tokens for request in requests),
            output_file_id=self.write(f"{batch.id}_output.jsonl", good),
            error_file_id=self.write(f"{batch.id}_error.jsonl", bad),
        )

    def write(self, filename: str, rows: list[Answered]) -> str | None:
        return self._files.add(filename, "batch_output", jsonl(rows)).id if rows else None

    def cancel(self, id: str) -> Batch:
        batch = self.find(id)
        if batch.status in ENDED:
            raise RequestError(409, f"Cannot cancel a batch with status '{batch.status}'.")
        if batch.status != "cancelling":
            self.made[id] = batch = replace(batch, status="cancelling", polls=0)
        return batch

    def page(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The newest first; looking at the list brings nothing on."""
        return page([batch.as_json() for batch in self.made.values()][::-1], query, 20)


def check_batch(body: Mapping[str, Any], metadata: Any) -> None:
    for name, known in {"endpoint": ENDPOINTS, "completion_window": ("24h",)}.items():
        if body.get(name) not in known:
            raise RequestError(
                400,
                f"Invalid value: '{body.get(name)}'. '{name}' has to be one of {', '.join(known)}.",
            )
    if not body.get("input_file_id"):
        raise RequestError(400, "Missing required parameter: 'input_file_id'.")
    if metadata is not None and (not isinstance(metadata, dict) or len(metadata) > 16):
        raise RequestError(400, "Invalid 'metadata': an object with at most 16 pairs is expected.")
    for name, value in (metadata or {}).items():
        if not isinstance(value, str) or len(value) > 512 or len(name) > 64:
            raise RequestError(
                400,
                f"Invalid 'metadata.{name}': names have at most 64, texts at most 512 characters.",
            )
