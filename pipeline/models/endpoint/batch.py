"""A chat model at half the price: its calls go as files to the endpoint's Batch API, and come back
within a day.

Conversations are held in rounds: what all of them ask is one batch, what they ask next is the next
one.
"""

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from pipeline.errors import ModelError, SettingsError, WaitingError
from pipeline.models.base import (
    Anew,
    ChatModel,
    ChatReply,
    ChatRequest,
    Listener,
    Result,
    Talk,
    Tokens,
    Usage,
)
from pipeline.models.cache.lookup import RememberedReplies
from pipeline.models.cache.replies import Completion
from pipeline.models.conversations import Exchange, in_rounds
from pipeline.models.endpoint.batch_api import (
    COMPLETIONS,
    BatchApi,
    BatchIntent,
    BatchIntents,
    RefusedError,
)
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.client import Failure
from pipeline.models.endpoint.reply_limits import (
    is_limit_outside_window,
    is_only_thinking,
    outcome_of,
)

ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
EXPIRED = "expired"
LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""What may stand in JSON, and ends a line for some readers, as JSON may also write it."""


@dataclass(frozen=True)
class BatchOptions:
    """``poll_seconds`` between looks; ``wait_seconds`` that a run waits before it ends with exit
    code 4; ``failed``: what becomes of rows that failed in a batch; ``least``: fewer requests go
    directly; ``discount``: of the price."""

    poll_seconds: float = 30
    wait_seconds: float = 3600
    failed: str = "direct"
    least: int = 10
    max_requests: int = 50_000
    max_bytes: int = 190_000_000
    discount: float = 0.5


class BatchReply(NamedTuple):
    """A reply that came in a batch, and its tokens."""

    completion: Completion
    tokens: Tokens


@dataclass(frozen=True)
class BatchChat(ChatModel):
    """A ChatModel; ``chat`` is the same model asked directly: replies, identity and cache are the
    same."""

    chat: OpenAIChat
    options: BatchOptions = field(default_factory=BatchOptions)

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.chat.identity

    def memory(self, anew: Anew | None = None) -> RememberedReplies:
        return self.chat.memory(anew)

    def count(self, request: ChatRequest) -> int:
        return self.chat.count(request)

    def cost(self, tokens: Tokens) -> float | None:
        full = self.chat.cost(tokens)
        return None if full is None else full * (1 - self.options.discount)

    @property
    def least(self) -> int:
        """Fewer requests than these go directly, at the full price."""
        return self.options.least

    def full_cost(self, tokens: Tokens) -> float | None:
        return self.chat.cost(tokens)

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        anew: Anew | None = None,
    ) -> list[Result]:
        """See ChatModel. Raises WaitingError when a batch is not ready in time: the next run goes
        on with it; BudgetError, by the listener, when a batch is more than what is left; and
        SettingsError without a cache."""
        self._require_batches()
        if not self.chat.cache.database.there:
            raise SettingsError(
                f"{self.chat.where}: execution: batch needs a cache; set 'cache' in settings.yaml"
            )
        memory = self.memory(anew)
        exchange = Exchange(talks, memory, partial(self.chat.tell_known, listener))
        results = in_rounds(exchange, lambda requests: self._ask(requests, memory, listener))
        self._collect(
            self._under_way(), {}, listener
        )  # what a killed run has left, though all was known
        return results

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        return self.chat.stream(request, listener)

    def preflight(self) -> None:
        self._require_batches()
        self.chat.preflight()

    def begin_run(self, say: Callable[[str], None]) -> None:
        """See ServedModel."""
        self._require_batches()
        self.chat.begin_run(say)

    def note(self) -> str:
        """See ServedModel."""
        return self.chat.note()

    def _require_batches(self) -> None:
        """Raises SettingsError for a provider without the Batch API."""
        if not self.chat.endpoint.has_batches:
            fact = f"execution: batch is not there with provider: {self.chat.endpoint.provider}"
            raise SettingsError(
                f"{self.chat.where}: {fact}; remove execution from the steps that use this model"
            )

    def settle(self, listener: Listener | None) -> bool:
        """Store what has come of batches of earlier runs. Returns whether any is still under
        way."""
        self._collect(self._under_way(), {}, listener)
        return bool(self._intents.all())

    def cancel(self) -> None:
        """What is under way; what it has answered by then comes as from any batch."""
        for intent in self._under_way():
            self._api.cancel(intent)

    def abandon(self, listener: Listener | None) -> None:
        """Cancel what is under way, store what it has answered, and leave nothing of it at the
        endpoint.

        Raises WaitingError while the endpoint is still cancelling, which may take 10 minutes: until
        it has, it may write files."""

        def store(intent: BatchIntent, batch: Any | None) -> None:
            self._store(intent, batch, {}, listener)

        self.cancel()
        self._drain(self._under_way(), store, lambda intent: True)

    @cached_property
    def _intents(self) -> BatchIntents:
        return BatchIntents(
            self.chat.cache.database, self.chat.cache.owner, self.chat.endpoint.digest
        )

    @cached_property
    def _api(self) -> BatchApi:
        return BatchApi(self.chat.endpoint, self.chat.max_retries)

    def _ask(
        self,
        requests: Mapping[str, ChatRequest],
        memory: RememberedReplies,
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        under_way = self._under_way()
        bound = {key for intent in under_way for key in intent.keys}
        keys = {key: memory.keys(request) for key, request in requests.items()}
        # A batch that an earlier version sent has the keys of the earlier forms.
        fresh = {
            key: memory.with_room(key, request)
            for key, request in requests.items()
            if bound.isdisjoint(keys[key])
        }
        if len(fresh) >= self.options.least:
            under_way += self._submit(fresh, under_way, listener)
        wanted = {known: request for key, request in requests.items() for known in keys[key]}
        came_to_nothing = self._collect(under_way, wanted, listener)
        lost = {
            key: came_to_nothing[known]
            for key in requests
            for known in keys[key]
            if known in came_to_nothing
        }
        replies = memory.recall(requests)
        if in_vain := self._limited_in_vain(fresh, replies, lost):
            others = {key: request for key, request in requests.items() if key not in in_vain}
            # Too few for a batch go directly: as requests of a batch, their empty replies would be
            # served.
            is_batch = len(in_vain) >= self.options.least
            again = (
                self._ask(in_vain, memory, listener)
                if is_batch
                else self.chat.ask(in_vain, memory, listener)
            )
            return {**self._ask(others, memory, listener), **again}
        missing = {key: request for key, request in requests.items() if key not in replies}
        rejected = {
            key: lost[key] for key in missing if key in lost and self.options.failed == "reject"
        }
        direct = {key: request for key, request in missing.items() if key not in rejected}
        came = {
            key: memory.better(key, requests[key], reply)
            for key, reply in {**replies, **rejected}.items()
        }
        return {**came, **self.chat.ask(direct, memory, listener)}

    def _limited_in_vain(
        self,
        sent: Mapping[str, ChatRequest],
        replies: Mapping[str, ChatReply],
        lost: Mapping[str, ChatReply],
    ) -> dict[str, ChatRequest]:
        """Return the requests whose limit was at fault, which are to be asked again with another
        one, or none.

        The endpoint has refused the limit, or hidden thinking has used it up. A limit that only did
        not fit the window beside its prompt is left out of that request.
        """
        limits = self.chat.reply_limits
        name = limits.name
        limited = {key for key, request in sent.items() if limits.of(request)}
        empty = {key for key in limited & replies.keys() if _is_used_up(replies[key])}
        failed = limited & lost.keys()
        outside = {key for key in failed if is_limit_outside_window(lost[key].message)}
        refused = {key for key in failed - outside if limits.learn(lost[key].message, name)}
        if empty:
            limits.drop()
        unlimited = {key: replace(sent[key], max_tokens=None) for key in outside}
        return unlimited | {key: sent[key] for key in (*refused, *empty)}

    def _under_way(self) -> list[BatchIntent]:
        return [found for intent in self._intents.all() if (found := self._found(intent))]

    def _found(self, intent: BatchIntent) -> BatchIntent | None:
        """The intent with its batch; None, and nothing is left of it, when it never came to be
        one."""
        if intent.batch_id:
            return intent
        batch = self._api.find(intent)
        if batch is not None:
            return self._intents.note(
                replace(intent, file_id=intent.file_id or batch.input_file_id, batch_id=batch.id)
            )
        self._api.clean_up(intent, None)
        self._intents.end(intent)
        return None

    def _submit(
        self,
        requests: Mapping[str, ChatRequest],
        under_way: Sequence[BatchIntent],
        listener: Listener | None,
    ) -> list[BatchIntent]:
        """Only as far as what is bound fits the budget; an earlier run's batches are bound too, at
        the present mix of tokens in and out."""
        submitted = []
        asked = said = 0
        bound = sum(intent.tokens for intent in under_way)
        for part in self._parts(requests):
            before = asked + said
            asked += sum(self.count(requests[key]) for key in part)
            said += sum(self.chat.length_of_a_reply(requests[key]) for key in part)
            if listener:
                share = 1 + bound / max(asked + said, 1)
                listener.reserve(
                    asked + said + bound,
                    self.cost(Tokens(round(asked * share), round(said * share))),
                )
            submitted.append(self._create(part, asked + said - before))
        return submitted

    def _create(self, part: Mapping[str, str], tokens: int) -> BatchIntent:
        """One batch, of key -> line."""
        intent = self._intents.begin(part, tokens)
        try:
            intent = self._intents.note(
                self._api.upload(intent, "\n".join([*part.values(), ""]).encode())
            )
            return self._intents.note(self._api.create(intent))
        except RefusedError:
            self._api.clean_up(intent, None)
            self._intents.end(intent)
            raise

    def _parts(self, requests: Mapping[str, ChatRequest]) -> Iterator[dict[str, str]]:
        """key -> line, as many to a part as one batch may have."""
        part: dict[str, str] = {}
        size = 0
        for key, request in requests.items():
            body = self.chat.body(request, self.chat.reply_limits.of(request))
            line = {"custom_id": key, "method": "POST", "url": COMPLETIONS, "body": body}
            text = json.dumps(line, ensure_ascii=False).translate(LINE_ENDS)
            length = len(text.encode()) + 1
            if part and (
                len(part) >= self.options.max_requests or size + length > self.options.max_bytes
            ):
                yield part
                part, size = {}, 0
            part[key] = text
            size += length
        if part:
            yield part

    def _collect(
        self,
        intents: Sequence[BatchIntent],
        requests: Mapping[str, ChatRequest],
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        """Store the replies that have come, and wait for the batches that hold any of ``requests``.

        Returns why requests have no reply, by key."""
        lost: dict[str, ChatReply] = {}

        def finish(intent: BatchIntent, batch: Any | None) -> None:
            lost.update(self._finish(intent, batch, requests, listener))

        self._drain(intents, finish, lambda intent: any(key in requests for key in intent.keys))
        return lost

    def _drain(
        self,
        intents: Sequence[BatchIntent],
        finish: Callable[[BatchIntent, Any | None], object],
        wanted: Callable[[BatchIntent], bool],
    ) -> None:
        """Finish the batches that have ended, and wait for those that are wanted."""
        deadline = time.monotonic() + self.options.wait_seconds
        waiting = list(intents)
        while waiting:
            still = []
            for intent in waiting:
                batch = self._api.look(intent)
                if batch is None or batch.status in ENDED:
                    finish(intent, batch)
                elif wanted(intent):
                    still.append(intent)
            waiting = still
            if waiting and time.monotonic() >= deadline:
                names = ", ".join(str(intent.batch_id) for intent in waiting)
                raise WaitingError(
                    f"batch {names}: not ready yet; run the same command later to go on with it"
                )
            if waiting:
                time.sleep(max(0.0, min(self.options.poll_seconds, deadline - time.monotonic())))

    def _finish(
        self,
        intent: BatchIntent,
        batch: Any | None,
        requests: Mapping[str, ChatRequest],
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        """Store a batch's replies. Returns why requests have none, by key; raises what ends the
        run."""
        answers = self._store(intent, batch, requests, listener)
        fatal = [
            answer.fatal
            for answer in answers.values()
            if isinstance(answer, Failure) and answer.fatal
        ]
        if fatal:
            raise fatal[0]
        status = batch.status if batch else "gone"
        if batch and status == "failed":
            raise ModelError(
                f"{self.chat.where}: batch {batch.id} was refused ({_complaints(batch)}); run again"
            )
        silent = Failure(EXPIRED, f"the batch is {status} and has no answer")
        lost = [(key, answers.get(key, silent)) for key in intent.keys]
        return {
            key: ChatReply("", "error", failure.reason, failure.message)
            for key, failure in lost
            if isinstance(failure, Failure)
        }

    def _store(
        self,
        intent: BatchIntent,
        batch: Any | None,
        requests: Mapping[str, ChatRequest],
        listener: Listener | None,
    ) -> dict[str, BatchReply | Failure]:
        """Keep a batch's replies and leave nothing of it at the endpoint, which may have forgotten
        it (None)."""
        answers: dict[str, BatchReply | Failure] = {}
        if batch and intent.keys:
            for line in _objects(self._api.lines(batch)):
                key = str(line.get("custom_id"))
                answers[key] = self._read(
                    line, partial(self._prompt_tokens, intent, requests.get(key))
                )
        came = {key: answer for key, answer in answers.items() if isinstance(answer, BatchReply)}
        completions = {key: reply.completion for key, reply in came.items()}
        self.chat.cache.store_completions(self.chat.model, completions)
        if listener:
            for key, reply in came.items():
                row_id = requests[key].row_id if key in requests else ""
                listener.ended(
                    self._usage(row_id, reply.tokens, outcome_of(reply.completion.finish_reason))
                )
        self._intents.note(
            replace(intent, keys=())
        )  # a run killed from here on has only files to delete
        self._api.clean_up(intent, batch)
        self._intents.end(intent)
        return answers

    def _prompt_tokens(self, intent: BatchIntent, request: ChatRequest | None) -> int:
        """Count the tokens of a request. One that an earlier run sent is not known here: it has the
        average of its batch, which includes the expected reply and so is rather too high."""
        return self.chat.count(request) if request else intent.tokens // max(len(intent.keys), 1)

    def _read(self, line: Mapping[str, Any], prompt: Callable[[], int]) -> "BatchReply | Failure":
        """Read one line of a batch's output: the reply, or why there is none. ``prompt`` counts the
        request's tokens, where the line does not report them."""
        response = _mapping(line.get("response"))
        body = _mapping(response.get("body"))
        error = _mapping(line.get("error")) or _mapping(body.get("error"))
        if response.get("status_code") == 200:
            try:
                return BatchReply(*self.chat.read_counted(body, prompt))
            except ValueError as unreadable:
                return Failure("server_error", str(unreadable))
        if error.get("code") == "batch_expired":
            return Failure(EXPIRED, str(error.get("message") or "the batch expired"))
        detail = str(error.get("message") or error or "no answer")
        return self.chat.endpoint.refusal(response.get("status_code") or 500, detail)

    def _usage(self, row_id: str, tokens: Tokens, outcome: str) -> Usage:
        return Usage(
            row_id, self.chat.model, tokens.input, tokens.output, cached=False, seconds=0.0,
            outcome=outcome,
            cost=self.cost(tokens), cached_tokens=tokens.cached, estimated=tokens.estimated,
        )  # fmt: skip


def _is_used_up(reply: ChatReply) -> bool:
    return reply.finish_reason == "length" and is_only_thinking(reply.text)


def _complaints(batch: Any) -> str:
    errors = getattr(batch.errors, "data", None) or []
    return "; ".join(str(error.message) for error in errors) or "no reason given"


def _objects(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """What of the lines can be read."""
    for line in lines:
        with suppress(ValueError):
            yield _mapping(json.loads(line))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
