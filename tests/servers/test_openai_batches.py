import json
from collections.abc import Iterator
from typing import Any

import openai as openai_library
import pytest
from openai import OpenAI
from openai.types import Batch

from tests.servers.openai_server import OpenAIServer, Reply


@pytest.fixture
def client(openai: OpenAIServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=openai.base_url, api_key="test-key", max_retries=0) as client:
        yield client


def rows(count: int) -> list[dict[str, Any]]:
    bodies = [
        {"model": "m", "messages": [{"role": "user", "content": f"Who met Ada {n}?"}]}
        for n in range(count)
    ]
    return [
        {"custom_id": f"row {n}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        for n, body in enumerate(bodies)
    ]


def upload(client: OpenAI, lines: list[dict[str, Any]]) -> str:
    content = "\n".join(json.dumps(line) for line in lines).encode()
    return client.files.create(file=("rows.jsonl", content), purpose="batch").id


def submit(
    client: OpenAI, lines: list[dict[str, Any]], metadata: dict[str, str] | None = None
) -> Batch:
    return client.batches.create(
        input_file_id=upload(client, lines),
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata=metadata,
    )


def statuses(client: OpenAI, batch: Batch, times: int) -> list[str]:
    return [client.batches.retrieve(batch.id).status for _ in range(times)]


def read(client: OpenAI, file_id: str | None) -> dict[str, Any]:
    assert file_id is not None
    lines = [json.loads(line) for line in client.files.content(file_id).text.splitlines()]
    return {line["custom_id"]: line for line in lines}


def test_files_are_kept_listed_and_deleted(openai: OpenAIServer, client: OpenAI):
    content = b"one\r\n--two\r\n\r\n\x00three\r\n"
    file = client.files.create(file=("a.jsonl", content), purpose="batch")
    other = client.files.create(file=("b.jsonl", b""), purpose="batch")
    assert (file.filename, file.bytes, file.purpose) == ("a.jsonl", len(content), "batch")
    assert client.files.content(file.id).content == content
    assert client.files.retrieve(file.id) == file
    assert [listed.id for listed in client.files.list(limit=1)] == [other.id, file.id]
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai_library.NotFoundError):
        client.files.content(file.id)
    assert [(kept.deleted, kept.content) for kept in openai.files] == [(True, b""), (False, b"")]
    assert [listed.id for listed in client.files.list(purpose="batch")] == [other.id]


def test_a_batch_answers_as_direct_calls_do_and_is_written_down(
    openai: OpenAIServer, client: OpenAI
):
    batch = submit(client, rows(5), {"run": "7"})
    assert (batch.status, batch.metadata) == ("validating", {"run": "7"})
    assert statuses(client, batch, 1) == ["in_progress"]
    assert openai.count("batch") == 0
    ended = client.batches.retrieve(batch.id)
    assert (ended.status, ended.error_file_id) == ("completed", None)
    lines = read(client, ended.output_file_id)
    assert list(lines) != sorted(lines), "the order is not that of the input"
    direct = client.chat.completions.create(**rows(1)[0]["body"])
    told = lines["row 0"]["response"]
    assert (told["status_code"], lines["row 0"]["error"]) == (200, None)
    assert told["body"]["choices"][0]["message"]["content"] == direct.choices[0].message.content
    assert direct.usage is not None
    assert told["body"]["usage"]["total_tokens"] == direct.usage.total_tokens
    written = [request for request in openai.requests if request.kind == "batch"]
    assert [request.custom_id for request in written] == [f"row {n}" for n in range(5)]
    assert ended.usage is not None
    assert ended.usage.total_tokens == sum(r.prompt_tokens + r.completion_tokens for r in written)


def test_polls_and_hold_decide_when_a_batch_ends(openai: OpenAIServer, client: OpenAI):
    openai.batch_polls = 0
    assert statuses(client, submit(client, rows(1)), 1) == ["completed"]
    openai.batch_polls = 3
    assert statuses(client, submit(client, rows(1)), 4) == ["in_progress"] * 3 + ["completed"]
    openai.batch_hold = True
    held = submit(client, rows(1))
    assert statuses(client, held, 6) == ["in_progress"] * 6
    openai.batch_hold = False
    assert statuses(client, held, 2) == ["completed"] * 2
    assert [batch.status for batch in openai.batches] == ["completed"] * 3


def test_rows_that_fail_are_in_the_error_file(openai: OpenAIServer, client: OpenAI):
    openai.batch_polls = 0
    failing: dict[str, bool | int] = {"row 1": True, "row 2": 400}
    openai.fail_batch_rows = lambda custom_id: failing.get(custom_id, False)
    openai.script("batch", [200, Reply("as told"), 500])
    ended = client.batches.retrieve(submit(client, rows(5)).id)
    good, bad = read(client, ended.output_file_id), read(client, ended.error_file_id)
    assert sorted(good) == ["row 0", "row 3"]
    assert good["row 3"]["response"]["body"]["choices"][0]["message"]["content"] == "as told"
    assert (bad["row 1"]["response"], bad["row 1"]["error"]["code"]) == (None, "server_error")
    assert [bad[f"row {n}"]["response"]["status_code"] for n in (2, 4)] == [400, 500]
    assert ended.request_counts is not None
    assert (ended.request_counts.completed, ended.request_counts.failed) == (2, 3)
    assert [r.status for r in openai.requests if r.kind == "batch"] == [200, 500, 400, 200, 500]
    assert sum(r.prompt_tokens > 0 for r in openai.requests) == 2


def test_a_batch_can_expire_in_its_middle(openai: OpenAIServer, client: OpenAI):
    openai.batch_polls, openai.batch_expire_after = 0, 2
    ended = client.batches.retrieve(submit(client, rows(3)).id)
    assert ended.status == "expired"
    assert sorted(read(client, ended.output_file_id)) == ["row 0", "row 1"]
    assert read(client, ended.error_file_id)["row 2"]["error"]["code"] == "batch_expired"
    assert openai.count("batch") == 2


def test_a_batch_can_be_cancelled_until_it_ends(client: OpenAI):
    batch = submit(client, rows(1))
    assert client.batches.cancel(batch.id).status == "cancelling"
    assert statuses(client, batch, 1) == ["cancelled"]
    with pytest.raises(openai_library.ConflictError, match="cancelled"):
        client.batches.cancel(batch.id)


def test_batches_are_listed_in_pages_the_newest_first(client: OpenAI):
    made = [submit(client, rows(1)).id for _ in range(5)]
    first = client.batches.list(limit=2)
    assert [batch.id for batch in first.data] == made[:2:-1]
    assert first.has_more
    assert [batch.id for batch in client.batches.list(limit=2)] == made[::-1]
    assert [batch.id for batch in client.batches.list(after=made[1]).data] == made[:1]


def test_what_is_too_large_is_refused(openai: OpenAIServer, client: OpenAI):
    openai.max_batch_requests = 2
    with pytest.raises(
        openai_library.BadRequestError, match="3 requests, more than the limit of 2"
    ):
        submit(client, rows(3))
    openai.max_file_bytes = 10
    with pytest.raises(openai_library.BadRequestError, match="File is too large"):
        submit(client, rows(1))
    assert (len(openai.files), openai.batches) == (1, [])


def test_a_batch_without_its_file_or_with_large_metadata_is_refused(client: OpenAI):
    file = upload(client, rows(1))
    client.files.delete(file)
    with pytest.raises(openai_library.BadRequestError, match="No such File object"):
        client.batches.create(
            input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h"
        )
    with pytest.raises(openai_library.BadRequestError, match="metadata"):
        submit(client, rows(1), {"run": "x" * 513})


def test_a_batch_with_bad_lines_fails_and_says_which(openai: OpenAIServer, client: OpenAI):
    first, other = rows(2)
    elsewhere = {**other, "url": "/v1/embeddings"}
    batch = submit(client, [first, first, elsewhere, {"custom_id": "no body"}])
    assert statuses(client, batch, 1) == ["failed"]
    errors = client.batches.retrieve(batch.id).errors
    assert errors is not None
    assert [(error.line, error.code) for error in errors.data or []] == [
        (2, "duplicate_custom_id"),
        (3, "mismatched_url"),
        (4, "invalid_json_line"),
    ]
    assert openai.count("batch") == 0


def test_a_batch_whose_creation_got_no_answer_is_there(openai: OpenAIServer, client: OpenAI):
    openai.script("batches", [500, Reply(drop=True)])
    with pytest.raises(openai_library.InternalServerError):
        submit(client, rows(1))
    assert openai.batches == []
    with pytest.raises(openai_library.APIConnectionError):
        submit(client, rows(1), {"intent": "a"})
    assert [batch.metadata for batch in client.batches.list()] == [{"intent": "a"}]


def test_texts_can_be_embedded_in_a_batch(openai: OpenAIServer, client: OpenAI):
    openai.batch_polls = 0
    line = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/embeddings",
        "body": {"model": "e", "input": ["one"]},
    }
    file = upload(client, [line])
    batch = client.batches.create(
        input_file_id=file, endpoint="/v1/embeddings", completion_window="24h"
    )
    ended = client.batches.retrieve(batch.id)
    told = read(client, ended.output_file_id)["a"]["response"]["body"]["data"][0]["embedding"]
    direct = (
        client.embeddings.create(model="e", input="one", encoding_format="float").data[0].embedding
    )
    assert told == pytest.approx(direct)
