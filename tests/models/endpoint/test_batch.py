"""Batch API: requests, replies, and the files that are left at the endpoint."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.usage.run_budget import Budget, Meter
from pipeline.errors import AuthError, BudgetError, ModelError, SettingsError, WaitingError
from pipeline.models.base import ChatReply, ChatRequest, Talk, Tokens
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.endpoint.batch import BatchChat, BatchOptions
from pipeline.models.endpoint.batch_api import BatchIntents
from pipeline.models.endpoint.chat import OpenAIChat
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

AT_ONCE = BatchOptions(poll_seconds=0.01, wait_seconds=30, least=2)
NO_WAIT = replace(AT_ONCE, wait_seconds=0)


@dataclass
class Asker:
    """A model and its cache. Each ``chat`` behaves like one of a new process."""

    endpoint: OpenAIServer
    folder: Path
    key: str = ""
    caches: list[ReplyCache] = field(default_factory=list)

    def chat(self, options: BatchOptions = AT_ONCE, **more: Any) -> BatchChat:
        self.caches.append(ReplyCache(f"sqlite:///{self.folder / 'cache.sqlite'}", "w"))
        chat = OpenAIChat(
            model="gpt-4o-mini", base_url=self.endpoint.base_url,
            api_key=self.key or self.endpoint.key,
            input_price=1.0, output_price=2.0, where="models.chat.default",
            **{"cache": self.caches[-1], "max_retries": 2, **more},
        )  # fmt: skip
        return BatchChat(chat, options)

    @property
    def intents(self) -> int:
        chat = self.chat().chat
        return len(BatchIntents(chat.cache.database, "w", chat.endpoint.digest).all())

    @property
    def nothing_left(self) -> bool:
        """True if neither the endpoint nor the cache has anything of a batch."""
        return not self.intents and all(file.deleted for file in self.endpoint.files)


@pytest.fixture
def asker(openai: OpenAIServer, tmp_path: Path) -> Iterator[Asker]:
    openai.batch_polls = 0
    asker = Asker(openai, tmp_path)
    yield asker
    for cache in asker.caches:
        cache.close()


def ask(text: str) -> ChatRequest:
    return ChatRequest(f"row {text}", ({"role": "user", "content": text},))


def questions(count: int) -> list[ChatRequest]:
    return [ask(f"Question: what of Port {chr(65 + n)}ella?") for n in range(count)]


def texts(replies: list[ChatReply]) -> list[str]:
    return [reply.text for reply in replies]


def custom_id(chat: BatchChat, request: ChatRequest) -> str:
    return chat.memory().key(request)


def test_it_answers_as_the_model_itself_does_and_leaves_nothing_behind(
    openai: OpenAIServer, asker: Asker
):
    hearer = Hearer()
    replies = asker.chat().complete(questions(5), hearer)
    assert texts(replies) == [
        f"The sources tell of Port {chr(65 + n)}ella [ref:1]." for n in range(5)
    ]
    assert [openai.count("batch"), openai.count("chat"), len(openai.batches)] == [5, 0, 1]
    assert asker.nothing_left
    assert {usage.row_id for usage in hearer.usages} == {request.row_id for request in questions(5)}
    direct = asker.chat().chat.complete(questions(5))
    assert openai.count("chat") == 0
    assert texts(direct) == texts(replies)


def test_a_batch_costs_half_the_price(openai: OpenAIServer, asker: Asker):
    hearer = Hearer()
    asker.chat().complete(questions(5), hearer)
    rows = [request for request in openai.requests if request.kind == "batch"]
    full = sum(request.prompt_tokens + 2 * request.completion_tokens for request in rows) / 1e6
    assert sum(usage.cost or 0 for usage in hearer.usages) == pytest.approx(full / 2)
    assert sum(usage.input_tokens for usage in hearer.usages) == sum(
        request.prompt_tokens for request in rows
    )


def test_equal_requests_are_one_row(openai: OpenAIServer, asker: Asker):
    same = [replace(ask("Question: Quill?"), row_id=str(n)) for n in range(3)]
    replies = asker.chat().complete([*same, *questions(3)])
    assert openai.count("batch") == 4
    assert len(set(texts(replies)[:3])) == 1


def test_too_few_requests_for_a_batch_are_made_directly(openai: OpenAIServer, asker: Asker):
    assert len(asker.chat(replace(AT_ONCE, least=4)).complete(questions(3))) == 3
    assert [openai.count("chat"), openai.count("files"), openai.count("batches")] == [3, 0, 0]


def recovering(n: int) -> Talk[str]:
    """Run a conversation that repeats a request whose reply is bad."""
    first = ChatRequest(
        f"row-{n}", ({"role": "user", "content": f"Question {n}"},), check=complaint
    )
    (reply,) = yield (first,)
    if reply.good:
        return reply.text
    repair = ChatRequest(
        f"row-{n}", ({"role": "user", "content": f"Repair {n}"},), check=complaint, mends=first
    )
    (reply,) = yield (repair,)
    return f"mended by {reply.text}" if reply.good else "lost"


def complaint(text: str) -> str | None:
    return None if text.startswith("good") else "unreadable"


def reply_that_is_bad_for(rows: set[str]) -> Callable[..., Reply]:
    def reply(messages: Any, body: Any) -> Reply:
        text = messages[-1]["content"]
        return Reply("nonsense" if text.removeprefix("Question ") in rows else f"good {text}")

    return reply


@pytest.mark.parametrize("least", [2, 50])
def test_a_reply_that_was_mended_is_not_paid_for_again(
    openai: OpenAIServer, asker: Asker, least: int
):
    """Make either all rows or only the repairs directly."""
    openai.reply = reply_that_is_bad_for({"1"})
    for night in range(3):
        told = asker.chat(replace(AT_ONCE, least=least)).converse(map(recovering, range(3)))
        assert told == ["good Question 0", "mended by good Repair 1", "good Question 2"]
        asked = openai.count("chat") + openai.count("batch")
        assert asked == 4, f"night {night}"


@pytest.mark.parametrize("least", [2, 50])
@pytest.mark.parametrize("still_bad", [set(), {"1"}])
def test_selected_rows_are_requested_again_once(
    openai: OpenAIServer, asker: Asker, least: int, still_bad: set[str]
):
    options = replace(AT_ONCE, least=least)
    openai.reply = reply_that_is_bad_for({"0", "1"})
    asker.chat(options).converse(map(recovering, range(5)))
    openai.forget()
    openai.reply = reply_that_is_bad_for(still_bad)
    told = asker.chat(options).converse(
        map(recovering, range(5)), None, {"row-0", "row-1"}.__contains__
    )
    assert told[:2] == [
        "good Question 0",
        "mended by good Repair 1" if still_bad else "good Question 1",
    ]
    assert openai.count("chat") + openai.count("batch") == 2


def test_a_known_reply_is_not_requested_in_a_batch(openai: OpenAIServer, asker: Asker):
    asker.chat().chat.complete(questions(2))
    asker.chat().complete(questions(6))
    assert [openai.count("chat"), openai.count("batch")] == [2, 4]


def test_a_second_question_of_a_row_is_in_the_next_batch(openai: OpenAIServer, asker: Asker):
    def talk(n: int) -> Talk[list[str]]:
        (first,) = yield (ask(f"Question: first of Port {n}?"),)
        (second,) = yield (ask(f"Question: then {first.text} {n}?"),)
        return [first.text, second.text]

    told = asker.chat().converse(talk(n) for n in range(4))
    assert len(openai.batches) == 2
    assert [openai.count("batch"), openai.count("chat")] == [8, 0]
    assert all(len(both) == 2 and all(both) for both in told)


@pytest.mark.parametrize("limit", ["requests", "bytes"])
def test_too_many_for_one_batch_are_several(openai: OpenAIServer, asker: Asker, limit: str):
    if limit == "requests":
        openai.max_batch_requests, options = 2, replace(AT_ONCE, max_requests=2)
    else:
        openai.max_file_bytes, options = 600, replace(AT_ONCE, max_bytes=600)
    replies = asker.chat(options).complete(questions(5))
    assert [batch.total for batch in openai.batches] == [2, 2, 1]
    assert texts(replies) == texts(asker.chat().chat.complete(questions(5)))
    assert openai.count("chat") == 0
    assert asker.nothing_left


def test_a_held_batch_is_waited_for_and_found_again(openai: OpenAIServer, asker: Asker):
    openai.batch_hold = True
    for _ in range(2):
        with pytest.raises(
            WaitingError, match="batch_000001: not ready yet; run the same command later"
        ):
            asker.chat(NO_WAIT).complete(questions(5))
    assert [len(openai.batches), len(openai.files)] == [1, 1]
    openai.batch_hold = False
    assert len(asker.chat(NO_WAIT).complete(questions(5))) == 5
    assert [len(openai.batches), openai.count("batch"), openai.count("chat")] == [1, 5, 0]
    assert asker.nothing_left


DAMAGED = {
    "keys = replace(keys, '[', '{')": 5, "keys = substr(keys, 1, 150)": 2, "keys = 'x'": 0,
    "created = 'x'": 5,
    "batch_id = 'batch_x'": 5, "file_id = 'file_x'": 5, "tokens = 'x'": 5, "tokens = -1": 5,
}  # fmt: skip
"""Change of a batch's row -> how many of its five requests it still tells."""


@pytest.mark.parametrize(("damage", "spared"), DAMAGED.items())
def test_readable_requests_in_a_damaged_row_are_not_made_again(
    openai: OpenAIServer, asker: Asker, damage: str, spared: int
):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    with closing(sqlite3.connect(asker.folder / "cache.sqlite")) as connection, connection:
        connection.execute(f"UPDATE batches SET {damage}")
    openai.batch_hold = False
    assert all(texts(asker.chat().complete(questions(5))))
    assert openai.count("batch") + openai.count("chat") == 5 + (5 - spared)
    assert asker.nothing_left


def test_the_token_count_in_a_damaged_row_of_a_batch_is_ignored(openai: OpenAIServer, asker: Asker):
    """Damage the count so that a budget would believe that more is left."""
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    with closing(sqlite3.connect(asker.folder / "cache.sqlite")) as connection, connection:
        connection.execute("UPDATE batches SET tokens = tokens - 1000000")
    chat = asker.chat().chat
    [intent] = BatchIntents(chat.cache.database, "w", chat.endpoint.digest).all()
    assert (intent.tokens, intent.batch_id, len(intent.keys)) == (0, None, 5)


def test_a_batch_under_way_serves_its_rows_and_others_are_a_batch_of_their_own(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    openai.batch_hold = False
    assert len(asker.chat().complete(questions(9))) == 9
    assert [batch.total for batch in openai.batches] == [5, 4]
    assert openai.count("batch") == 9


def test_a_batch_nobody_wants_any_more_is_kept_when_it_comes_and_not_waited_for(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    few = replace(NO_WAIT, least=9)
    assert len(asker.chat(few).complete([ask("Question: another?")])) == 1
    assert asker.intents == 1
    openai.batch_hold = False
    asker.chat(few).complete([ask("Question: another?")])
    assert asker.nothing_left
    assert len(asker.chat().complete(questions(5))) == 5
    assert openai.count("batch") == 5


DROPPED: dict[str, tuple[str, list[Reply | int]]] = {
    "the upload's answer": ("files", [Reply(drop=True)]),
    "the batch's answer": ("batches", [Reply(drop=True)]),
    "the upload": ("files", [500]),
    "the batch": ("batches", [503]),
    "a look": ("batches", [200, Reply(drop=True), 500]),
    "the download": ("files", [200, Reply(drop=True), 500]),
    "the deletion": ("files", [200, 200, Reply(drop=True), 500]),
}


@pytest.mark.parametrize(("kind", "replies"), DROPPED.values(), ids=DROPPED)
def test_a_call_that_fails_is_made_again_and_nothing_is_made_twice(
    openai: OpenAIServer, asker: Asker, kind: str, replies: list[Reply | int]
):
    openai.script(kind, replies)
    assert all(texts(asker.chat().complete(questions(5))))
    assert [len(openai.batches), openai.count("batch"), openai.count("chat")] == [1, 5, 0]
    assert sum(file.purpose == "batch" for file in openai.files) == 1
    assert asker.nothing_left


def test_an_output_that_is_gone_is_asked_for_directly(openai: OpenAIServer, asker: Asker):
    """Simulate a kill between the deletion of the files and the end of the record, with nothing
    stored."""
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    openai.batch_hold = False
    openai.batch_store.poll(openai.batches[0].id)
    for file in openai.files:
        openai.file_store.delete(file.id)
    assert all(texts(asker.chat().complete(questions(5))))
    assert [len(openai.batches), openai.count("chat")] == [1, 5]
    assert asker.nothing_left


def test_a_batch_that_the_endpoint_forgot_is_made_anew(openai: OpenAIServer, asker: Asker):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    openai.batch_hold = False
    openai.batch_store.made.clear()
    assert all(texts(asker.chat().complete(questions(5))))
    assert asker.nothing_left


def test_an_expired_batch_keeps_what_came_and_the_rest_is_asked_directly(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_expire_after = 2
    replies = asker.chat().complete(questions(5))
    assert [openai.count("batch"), openai.count("chat")] == [2, 3]
    assert all(reply.reason is None for reply in replies)
    assert asker.nothing_left


def test_an_expired_batch_is_rejected_where_that_is_wanted_and_tried_again(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_expire_after = 2
    reject = replace(AT_ONCE, failed="reject")
    replies = asker.chat(reject).complete(questions(5))
    assert [reply.reason for reply in replies] == [None, None, "expired", "expired", "expired"]
    assert openai.count("chat") == 0
    openai.batch_expire_after = None
    assert all(reply.reason is None for reply in asker.chat(reject).complete(questions(5)))
    assert [batch.total for batch in openai.batches] == [5, 3]
    assert openai.count("batch") == 5


def test_rows_that_failed_are_rejected_with_their_reason_or_asked_directly(
    openai: OpenAIServer, asker: Asker
):
    filtered = Reply("The response was filtered: content_filter.", status=400)
    replies: list[Reply | int] = [200, filtered, 500, 200, Reply(raw=b"no answer")]
    openai.script("batch", replies)
    lost = asker.chat(replace(AT_ONCE, failed="reject")).complete(questions(5))
    assert [reply.reason for reply in lost] == [
        None,
        "content_filter",
        "server_error",
        None,
        "server_error",
    ]
    assert "HTTP 400" in lost[1].message
    found = asker.chat(replace(AT_ONCE, least=9)).complete(questions(5))
    assert [reply.reason for reply in found] == [None] * 5
    assert [openai.count("batch", 200), openai.count("chat")] == [3, 3]
    assert asker.nothing_left


def test_a_row_without_a_response_is_asked_directly(openai: OpenAIServer, asker: Asker):
    chat, failing = asker.chat(), questions(5)[2]
    openai.fail_batch_rows = lambda row: row == custom_id(chat, failing)
    assert all(reply.reason is None for reply in chat.complete(questions(5)))
    assert [
        request.messages[0]["content"] for request in openai.requests if request.kind == "chat"
    ] == [failing.messages[0]["content"]]


LINE_ENDS = "one\u2028two\u0085three\u2029four"
"""Ends of lines for some readers, and no ends of lines in JSON."""


def test_texts_with_unusual_line_ends(openai: OpenAIServer, asker: Asker):
    openai.reply = lambda messages, body: Reply(f"{messages[0]['content']} five")
    raw = openai.file_store.add

    def unescaped(filename: str, purpose: str, content: bytes) -> Any:
        lines = [
            json.dumps(json.loads(line), ensure_ascii=False)
            for line in content.split(b"\n")
            if line
        ]
        return raw(filename, purpose, content if purpose == "batch" else "\n".join(lines).encode())

    openai.file_store.add = unescaped
    replies = asker.chat().complete([ask(f"{n} {LINE_ENDS}") for n in range(3)])
    assert texts(replies) == [f"{n} {LINE_ENDS} five" for n in range(3)]
    assert [openai.count("batch"), openai.count("chat")] == [3, 0]


def refused_rows(openai: OpenAIServer) -> None:
    openai.max_batch_requests = 3


def refused_file(openai: OpenAIServer) -> None:
    openai.max_file_bytes = 100


@pytest.mark.parametrize(
    ("refuse", "words"),
    [(refused_rows, "5 requests, more than the limit of 3"), (refused_file, "File is too large")],
)
def test_a_refused_batch(
    openai: OpenAIServer, asker: Asker, refuse: Callable[[OpenAIServer], None], words: str
):
    most_rows, most_bytes = openai.max_batch_requests, openai.max_file_bytes
    refuse(openai)
    with pytest.raises(ModelError, match=words):
        asker.chat().complete(questions(5))
    assert openai.batches == []
    assert asker.nothing_left
    openai.max_batch_requests, openai.max_file_bytes = most_rows, most_bytes
    assert all(texts(asker.chat().complete(questions(5))))
    assert len(openai.batches) == 1


def test_a_batch_that_fails_its_validation(openai: OpenAIServer, asker: Asker):
    chat = asker.chat()
    add = openai.file_store.add
    openai.file_store.add = lambda filename, purpose, content: add(
        filename, purpose, content + b"no request\n"
    )
    with pytest.raises(
        ModelError,
        match=r"batch_000001 was refused \(This line is not the JSON of a request.*run again",
    ):
        chat.complete(questions(5))
    assert asker.nothing_left
    openai.file_store.add = add
    assert all(texts(asker.chat().complete(questions(5))))
    assert [openai.count("batch"), openai.count("chat")] == [5, 0]
    assert asker.nothing_left


def test_a_refused_key(openai: OpenAIServer, asker: Asker):
    asker.key = "another-key"
    with pytest.raises(AuthError, match=r"models\.chat\.default: the endpoint refused the key"):
        asker.chat().complete(questions(5))
    asker.key = ""
    assert all(texts(asker.chat().complete(questions(5))))
    assert asker.nothing_left


def test_a_key_that_is_refused_while_a_batch_is_under_way(openai: OpenAIServer, asker: Asker):
    openai.script("batches", [200, 401])
    with pytest.raises(AuthError):
        asker.chat().complete(questions(5))
    assert all(texts(asker.chat().complete(questions(5))))
    assert [len(openai.batches), openai.count("batch")] == [1, 5]


def metered(**limits: float) -> Meter:
    return Meter("extract_graph", lambda done, expected: None, Budget(**limits))  # pyright: ignore[reportArgumentType]


def test_a_batch_above_the_budget_is_not_made(openai: OpenAIServer, asker: Asker):
    chat = asker.chat()
    asked = sum(map(chat.count, questions(5)))
    with pytest.raises(BudgetError, match="is more than --max-tokens"):
        chat.complete(questions(5), metered(max_tokens=asked))
    with pytest.raises(BudgetError, match="is more than --max-cost"):
        chat.complete(questions(5), metered(max_cost=asked / 2 / 1e6))
    assert [openai.batches, openai.files, asker.intents] == [[], [], 0]
    assert all(texts(chat.complete(questions(5), metered(max_cost=2 * asked / 1e6))))
    assert len(openai.batches) == 1


def test_batches_that_are_together_above_the_budget_are_not_all_made(
    openai: OpenAIServer, asker: Asker
):
    two = replace(AT_ONCE, max_requests=3)
    chat = asker.chat(two)
    asked = sum(map(chat.count, questions(6)))
    with pytest.raises(BudgetError):
        chat.complete(questions(6), metered(max_tokens=asked))
    assert len(openai.batches) == 1
    assert all(texts(asker.chat(two).complete(questions(6), metered(max_tokens=2 * asked))))
    assert [len(openai.batches), openai.count("batch"), openai.count("chat")] == [2, 6, 0]


def test_without_a_cache_batches_are_refused(asker: Asker):
    with pytest.raises(SettingsError, match="execution: batch needs a cache"):
        asker.chat(cache=NO_CACHE).complete(questions(5))
    asker.chat(cache=NO_CACHE).abandon(None)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_run_that_ends_between_the_download_and_the_end_counts_nothing_twice(
    openai: OpenAIServer, asker: Asker, deleted: bool
):
    hearer = Hearer()
    openai.script("files", [200, 200, Reply(drop=deleted, status=200 if deleted else 500), 401])
    with pytest.raises(AuthError):
        asker.chat().complete(questions(5), hearer)
    assert asker.intents == 1
    assert all(texts(asker.chat().complete(questions(5), hearer)))
    assert sorted(usage.row_id for usage in hearer.usages if usage.calls) == [
        request.row_id for request in questions(5)
    ]
    assert [openai.count("batch"), openai.count("chat")] == [5, 0]
    assert asker.nothing_left


def test_an_abandoned_batch_is_cancelled_and_its_files_are_deleted(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(replace(NO_WAIT, max_requests=3)).complete(questions(5))
    assert len(openai.batches) == 2
    asker.chat().abandon(None)
    assert [batch.status for batch in openai.batches] == ["cancelled"] * 2
    assert asker.nothing_left
    asker.chat().abandon(None)
    openai.batch_hold = False
    assert all(texts(asker.chat().complete(questions(5))))
    assert openai.count("batch") == 5


def test_what_a_cancelled_batch_had_answered_is_kept_and_its_late_files_are_deleted(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_hold, openai.batch_cancel_polls, openai.batch_cancelled_after = True, 2, 3
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).abandon(None)
    assert asker.intents == 1
    hearer = Hearer()
    asker.chat().abandon(hearer)
    assert [len(openai.files), len(hearer.usages)] == [2, 3]
    assert asker.nothing_left
    openai.batch_hold = False
    assert all(texts(asker.chat().chat.complete(questions(5))))
    assert [openai.count("batch"), openai.count("chat")] == [3, 2]


def test_batches_of_other_owners_are_left_alone(openai: OpenAIServer, asker: Asker):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    stranger = ReplyCache(f"sqlite:///{asker.folder / 'cache.sqlite'}", "another")
    other = asker.chat(cache=stranger)
    assert not other.settle(None)
    other.abandon(None)
    assert [batch.status for batch in openai.batches] == ["in_progress"]
    assert asker.intents == 1
    stranger.close()


def test_a_budget_covers_the_batches_of_earlier_runs(openai: OpenAIServer, asker: Asker):
    chat = asker.chat(NO_WAIT)
    one = sum(map(chat.count, questions(5))) + sum(map(chat.chat.length_of_a_reply, questions(5)))
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        chat.complete(questions(5), Meter("s", lambda done, expected: None, Budget(max_tokens=one)))
    for budget in (
        Budget(max_tokens=int(1.7 * one)),
        Budget(max_cost=1.2 * (chat.cost(Tokens(one, 0)) or 0)),
    ):
        with pytest.raises(BudgetError, match="a batch of about"):
            asker.chat(NO_WAIT).complete(
                questions(9), Meter("s", lambda done, expected: None, budget)
            )
    assert len(openai.batches) == 1
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(
            questions(9), Meter("s", lambda done, expected: None, Budget(max_tokens=2 * one))
        )
    assert [batch.total for batch in openai.batches] == [5, 4]


def test_a_batch_is_abandoned_even_if_its_id_was_not_recorded(openai: OpenAIServer, asker: Asker):
    openai.script("batches", [Reply(drop=True), 401])
    with pytest.raises(AuthError):
        asker.chat().complete(questions(5))
    assert len(openai.batches) == 1
    asker.chat().abandon(None)
    assert openai.batches[0].status == "cancelled"
    assert asker.nothing_left


def test_an_ended_batch_that_is_abandoned_has_its_replies_stored(
    openai: OpenAIServer, asker: Asker
):
    openai.batch_hold = True
    with pytest.raises(WaitingError):
        asker.chat(NO_WAIT).complete(questions(5))
    openai.batch_hold = False
    openai.batch_store.poll(openai.batches[0].id)
    asker.chat().abandon(None)
    assert asker.nothing_left
