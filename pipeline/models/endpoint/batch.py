"""Chat model at half the price: its calls go as files to the endpoint's Batch API.

The replies arrive within a day. Conversations run in rounds: the requests of all of them form one
batch, and their next requests form the next one.
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
    ChatModel,
    ChatReply,
    ChatRequest,
    Listener,
    Repeats,
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
"""Final states of a batch."""
EXPIRED = "expired"
LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that are allowed in JSON but end a line for some readers, and their JSON escapes."""


@dataclass(frozen=True)
class BatchOptions:
    """Options of batches.

    ``poll_seconds``: the pause between two checks. ``wait_seconds``: how long a run waits before it
    ends with exit code 4. ``failed``: "direct" repeats requests that failed in a batch as direct
    calls; "reject" rejects their rows. ``least``: fewer requests than this are made directly.
    ``max_requests`` and ``max_bytes`` limit one batch. ``discount``: the fraction of the price that
    a batch saves.
    """

    poll_seconds: float = 30
    wait_seconds: float = 3600
    failed: str = "direct"
    least: int = 10
    max_requests: int = 50_000
    max_bytes: int = 190_000_000
    discount: float = 0.5


class BatchReply(NamedTuple):
    """A reply from a batch, and its tokens."""

    completion: Completion
    tokens: Tokens


@dataclass(frozen=True)
class BatchChat(ChatModel):
    """ChatModel whose calls go through the Batch API.

    ``chat`` is the same model with direct calls: replies, identity and cache are the same.
    """

    chat: OpenAIChat
    options: BatchOptions = field(default_factory=BatchOptions)

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.chat.identity

    def memory(self, repeats: Repeats | None = None) -> RememberedReplies:
        return self.chat.memory(repeats)

    def count(self, request: ChatRequest) -> int:
        return self.chat.count(request)

    def cost(self, tokens: Tokens) -> float | None:
        full = self.chat.cost(tokens)
        return None if full is None else full * (1 - self.options.discount)

    @property
    def least(self) -> int:
        """Number of requests below which they are made directly, at the full price."""
        return self.options.least

    def full_cost(self, tokens: Tokens) -> float | None:
        """Return the cost of a direct call."""
        return self.chat.cost(tokens)

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        """Run all conversations as ChatModel says, in batches.

        Raises WaitingError when a batch is not ready in time; the next run continues with it.
        Raises BudgetError, by the listener, when a batch exceeds the rest of the budget. Raises
        SettingsError without a cache.
        """
        self._require_batches()
        if not self.chat.cache.database.there:
            raise SettingsError(
                f"{self.chat.where}: execution: batch needs a cache; set 'cache' in settings.yaml"
            )
        memory = self.memory(repeats)
        exchange = Exchange(talks, memory, partial(self.chat.record_cached_reply, listener))
        results = in_rounds(exchange, lambda requests: self._ask(requests, memory, listener))
        # A killed run may have left batches although the cache answers all requests of this one.
        self._collect(self._batches_under_way(), {}, listener)
        return results

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        return self.chat.stream(request, listener)

    def preflight(self) -> None:
        self._require_batches()
        self.chat.preflight()

    def begin_run(self, say: Callable[[str], None]) -> None:
        self._require_batches()
        self.chat.begin_run(say)

    def note(self) -> str:
        return self.chat.note()

    def _require_batches(self) -> None:
        """Raise SettingsError if the provider has no Batch API."""
        if not self.chat.endpoint.has_batches:
            fact = f"execution: batch is not available with provider: {self.chat.endpoint.provider}"
            raise SettingsError(
                f"{self.chat.where}: {fact}; remove execution from the steps that use this model"
            )

    def settle(self, listener: Listener | None) -> bool:
        """Store the replies of ended batches of earlier runs. Return whether any batch is still
        under way."""
        self._collect(self._batches_under_way(), {}, listener)
        return bool(self._intents.all())

    def cancel(self) -> None:
        """Cancel all batches under way. Replies that exist by then are stored as those of any
        batch."""
        for intent in self._batches_under_way():
            self._api.cancel(intent)

    def abandon(self, listener: Listener | None) -> None:
        """Cancel all batches under way, store their replies, and delete their files at the
        endpoint.

        Raises WaitingError while the endpoint is still cancelling, which may take 10 minutes: until
        then it may write files.
        """

        def store(intent: BatchIntent, batch: Any | None) -> None:
            self._store(intent, batch, {}, listener)

        self.cancel()
        self._drain(self._batches_under_way(), store, lambda intent: True)

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
        """Get the replies to the requests, by key: from batches, and from direct calls if needed.

        Direct calls are made for requests that are too few for a batch, and for those that failed
        in one.
        """
        under_way = self._batches_under_way()
        # A batch of an earlier version has the keys of the earlier forms of a request.
        keys_of_forms = {key: memory.keys(request) for key, request in requests.items()}
        already_sent = {key for intent in under_way for key in intent.keys}
        fresh = {
            key: memory.with_larger_limit(key, request)
            for key, request in requests.items()
            if already_sent.isdisjoint(keys_of_forms[key])
        }
        if len(fresh) >= self.options.least:
            under_way += self._submit(fresh, under_way, listener)

        wanted: dict[str, ChatRequest] = {}
        for key, request in requests.items():
            wanted.update(dict.fromkeys(keys_of_forms[key], request))
        failed = self._collect(under_way, wanted, listener)
        lost: dict[str, ChatReply] = {}
        for key in requests:
            for form_key in keys_of_forms[key]:
                if form_key in failed:
                    lost[key] = failed[form_key]

        replies = memory.recall(requests)
        to_repeat = self._spoiled_by_limit(fresh, replies, lost)
        if to_repeat:
            others = {key: request for key, request in requests.items() if key not in to_repeat}
            # Too few for a batch are made directly. If they were treated as requests of a batch,
            # their empty replies would be served.
            if len(to_repeat) >= self.options.least:
                repeated = self._ask(to_repeat, memory, listener)
            else:
                repeated = self.chat.ask(to_repeat, memory, listener)
            return {**self._ask(others, memory, listener), **repeated}

        missing = {key: request for key, request in requests.items() if key not in replies}
        rejected: dict[str, ChatReply] = {}
        if self.options.failed == "reject":
            rejected = {key: lost[key] for key in missing if key in lost}
        direct = {key: request for key, request in missing.items() if key not in rejected}
        answered = {
            key: memory.choose_better(key, requests[key], reply)
            for key, reply in {**replies, **rejected}.items()
        }
        return {**answered, **self.chat.ask(direct, memory, listener)}

    def _spoiled_by_limit(
        self,
        sent: Mapping[str, ChatRequest],
        replies: Mapping[str, ChatReply],
        lost: Mapping[str, ChatReply],
    ) -> dict[str, ChatRequest]:
        """Return the requests that failed because of their limit, to be repeated with another limit
        or none.

        The endpoint has refused the limit, or hidden thinking has used it up. If the limit only
        exceeded the window beside its prompt, that request is returned without a limit.
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
        to_repeat = {key: replace(sent[key], max_tokens=None) for key in outside}
        for key in (*refused, *empty):
            to_repeat[key] = sent[key]
        return to_repeat

    def _batches_under_way(self) -> list[BatchIntent]:
        located = [self._locate(intent) for intent in self._intents.all()]
        return [intent for intent in located if intent]

    def _locate(self, intent: BatchIntent) -> BatchIntent | None:
        """Return the intent with the id of its batch.

        If the batch was never created, delete the intent and its file, and return None.
        """
        if intent.batch_id:
            return intent
        batch = self._api.find(intent)
        if batch is not None:
            file_id = intent.file_id or batch.input_file_id
            return self._intents.note(replace(intent, file_id=file_id, batch_id=batch.id))
        self._api.clean_up(intent, None)
        self._intents.end(intent)
        return None

    def _submit(
        self,
        requests: Mapping[str, ChatRequest],
        under_way: Sequence[BatchIntent],
        listener: Listener | None,
    ) -> list[BatchIntent]:
        """Submit the requests as batches, each of which must fit the budget. Return the intents.

        The tokens of batches under way count as well. Their share of input and output tokens is
        unknown, so the share of the new requests is assumed. Raises what ``listener`` raises.
        """
        submitted = []
        input_tokens = output_tokens = 0
        tokens_under_way = sum(intent.tokens for intent in under_way)
        for lines in self._split_into_batches(requests):
            batch_input = sum(self.count(requests[key]) for key in lines)
            batch_output = sum(self.chat.length_of_a_reply(requests[key]) for key in lines)
            input_tokens += batch_input
            output_tokens += batch_output
            if listener:
                tokens = input_tokens + output_tokens
                scale = 1 + tokens_under_way / max(tokens, 1)
                cost = self.cost(Tokens(round(input_tokens * scale), round(output_tokens * scale)))
                listener.reserve(tokens + tokens_under_way, cost)
            submitted.append(self._create(lines, batch_input + batch_output))
        return submitted

    def _create(self, lines: Mapping[str, str], tokens: int) -> BatchIntent:
        """Create one batch from its lines by key. ``tokens``: about what it needs."""
        intent = self._intents.begin(lines, tokens)
        content = "\n".join([*lines.values(), ""])
        try:
            intent = self._intents.note(self._api.upload(intent, content.encode()))
            return self._intents.note(self._api.create(intent))
        except RefusedError:
            self._api.clean_up(intent, None)
            self._intents.end(intent)
            raise

    def _split_into_batches(self, requests: Mapping[str, ChatRequest]) -> Iterator[dict[str, str]]:
        """Yield the lines of each batch by key, as many as the limits of one batch allow."""
        lines: dict[str, str] = {}
        size = 0
        for key, request in requests.items():
            body = self.chat.body(request, self.chat.reply_limits.of(request))
            line = {"custom_id": key, "method": "POST", "url": COMPLETIONS, "body": body}
            text = json.dumps(line, ensure_ascii=False).translate(LINE_ENDS)
            length = len(text.encode()) + 1
            is_full = (
                len(lines) >= self.options.max_requests or size + length > self.options.max_bytes
            )
            if lines and is_full:
                yield lines
                lines, size = {}, 0
            lines[key] = text
            size += length
        if lines:
            yield lines

    def _collect(
        self,
        intents: Sequence[BatchIntent],
        requests: Mapping[str, ChatRequest],
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        """Store replies that have arrived, and wait for the batches that contain any of
        ``requests``.

        Returns the failures of requests without a reply, by key.
        """
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
        """Call ``finish`` for each ended batch, and wait for those that ``wanted`` selects.

        Raises WaitingError if one of them is not ready in time.
        """
        deadline = time.monotonic() + self.options.wait_seconds
        waiting = list(intents)
        while waiting:
            still_waiting = []
            for intent in waiting:
                batch = self._api.fetch(intent)
                if batch is None or batch.status in ENDED:
                    finish(intent, batch)
                elif wanted(intent):
                    still_waiting.append(intent)
            waiting = still_waiting
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
        """Store the replies of a batch. Return the failures of requests without a reply, by key.

        Raises the error of an answer that no other call can avoid, and ModelError for a refused
        batch.
        """
        answers = self._store(intent, batch, requests, listener)
        for answer in answers.values():
            if isinstance(answer, Failure) and answer.fatal:
                raise answer.fatal
        status = batch.status if batch else "gone"
        if batch and status == "failed":
            raise ModelError(
                f"{self.chat.where}: batch {batch.id} was refused ({_errors_of(batch)}); run again"
            )
        no_answer = Failure(EXPIRED, f"the batch is {status} and has no answer")
        failed: dict[str, ChatReply] = {}
        for key in intent.keys:
            answer = answers.get(key, no_answer)
            if isinstance(answer, Failure):
                failed[key] = ChatReply("", "error", answer.reason, answer.message)
        return failed

    def _store(
        self,
        intent: BatchIntent,
        batch: Any | None,
        requests: Mapping[str, ChatRequest],
        listener: Listener | None,
    ) -> dict[str, BatchReply | Failure]:
        """Store the replies of a batch, and delete its files at the endpoint. Return the answers by
        key.

        ``batch`` is None if the endpoint has forgotten it.
        """
        answers: dict[str, BatchReply | Failure] = {}
        if batch and intent.keys:
            for line in _parse_lines(self._api.lines(batch)):
                key = str(line.get("custom_id"))
                count_prompt = partial(self._prompt_tokens, intent, requests.get(key))
                answers[key] = self._read_answer(line, count_prompt)
        replies = {key: answer for key, answer in answers.items() if isinstance(answer, BatchReply)}
        completions = {key: reply.completion for key, reply in replies.items()}
        self.chat.cache.store_completions(self.chat.model, completions)
        if listener:
            for key, reply in replies.items():
                row_id = requests[key].row_id if key in requests else ""
                outcome = outcome_of(reply.completion.finish_reason)
                listener.ended(self._usage_of_reply(row_id, reply.tokens, outcome))
        # If the run is killed after this line, the next run only deletes the files.
        self._intents.note(replace(intent, keys=()))
        self._api.clean_up(intent, batch)
        self._intents.end(intent)
        return answers

    def _prompt_tokens(self, intent: BatchIntent, request: ChatRequest | None) -> int:
        """Return the tokens of the prompt of a request.

        The content of a request of an earlier run is not known here. It gets the average of its
        batch, which is rather too high because it includes the expected reply.
        """
        if request:
            return self.chat.count(request)
        return intent.tokens // max(len(intent.keys), 1)

    def _read_answer(
        self, line: Mapping[str, Any], prompt: Callable[[], int]
    ) -> "BatchReply | Failure":
        """Return the reply in one line of a batch's output, or the failure.

        ``prompt`` counts the tokens of the request if the line does not report them.
        """
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

    def _usage_of_reply(self, row_id: str, tokens: Tokens, outcome: str) -> Usage:
        return Usage(
            row_id,
            self.chat.model,
            tokens.input,
            tokens.output,
            cached=False,
            seconds=0.0,
            outcome=outcome,
            cost=self.cost(tokens),
            cached_tokens=tokens.cached,
            estimated=tokens.estimated,
        )


def _is_used_up(reply: ChatReply) -> bool:
    """Return whether hidden thinking has used up the limit of the reply."""
    return reply.finish_reason == "length" and is_only_thinking(reply.text)


def _errors_of(batch: Any) -> str:
    errors = getattr(batch.errors, "data", None) or []
    return "; ".join(str(error.message) for error in errors) or "no reason given"


def _parse_lines(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of the lines. Lines that are not JSON are left out."""
    for line in lines:
        with suppress(ValueError):
            yield _mapping(json.loads(line))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
