"""Chat models behind any address that supports the OpenAI protocol."""

import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pipeline.current_request import breakable, check_request, left_when_over
from pipeline.errors import ModelError, RequestEndedError, SettingsError
from pipeline.models.base import (
    NO_TOKENS,
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
from pipeline.models.cache.reserve import BYTES_OF_A_REPLY, Reserve
from pipeline.models.conversations import (
    Exchange,
    KeyedReply,
    KeyedRequest,
    StoppedError,
    Workers,
    converse,
    in_parallel,
    made_once,
)
from pipeline.models.endpoint.attempts import Attempts, Call, Sent
from pipeline.models.endpoint.client import Failure, UselessAnswerError, sendable
from pipeline.models.endpoint.pictures import message_with_picture, tokens_of_picture
from pipeline.models.endpoint.remote_model import PROBE_SECONDS, PROBE_TEXT, RemoteModel
from pipeline.models.endpoint.reply_limits import Limit, ReplyLimits, outcome_of, reports_thinking
from pipeline.models.endpoint.schema_limits import SchemaLimits
from pipeline.models.endpoint.streams import Chunk, lines_in_time, read_events, usage_of
from pipeline.models.endpoint.token_counts import (
    plain_text,
    reported_tokens,
    with_estimates,
    written_in,
)
from pipeline.models.no_answer import LOWER_THE_BUDGET, no_answer
from pipeline.text.ids import clean
from pipeline.text.tokens import tokenizer

if TYPE_CHECKING:
    from openai import OpenAI, Stream


REPLY_OPTIONS = (
    "extra_body",
    "frequency_penalty",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning_effort",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
)
"""Options that may be sent with the messages. Each of them can change a reply, so all of them are
part of the identity."""


TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY = 4, 3
"""Tokens that chat models add to each message, and to the start of the reply."""
CHARACTERS_PER_TOKEN_AT_FIRST = 16
"""First estimate of a reply's length: a quarter of the prompt's tokens, which have about 4
characters each."""
CUT = "cut"
"""Outcome of a stream that broke off or was not read to its end."""


@dataclass(frozen=True)
class OpenAIChat(RemoteModel, ChatModel):
    """ChatModel behind an address. ``options``: see REPLY_OPTIONS.

    Raises SettingsError for an unknown option.
    """

    where: str = "models.chat.default"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.options) - set(REPLY_OPTIONS))
        if unknown:
            known = ", ".join(REPLY_OPTIONS)
            raise SettingsError(
                f"{self.where}: unknown options {', '.join(unknown)}; known: {known}"
            )
        super().__post_init__()

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.model, **self.origin, **self.options}

    @property
    def window(self) -> int | None:
        """Number of tokens that the model reads, its reply included, or None if no setting states
        it."""
        return None

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        """Run all conversations as ChatModel says.

        If a request's check objects to a reply, ``message`` is the objection and there is no
        reason: the caller uses what can be read.
        """
        memory = self.memory(repeats)
        exchange = Exchange(talks, memory, partial(self.record_cached_reply, listener))
        with self.reserve(BYTES_OF_A_REPLY) as room:
            return converse(exchange, self._workers(memory, listener, room))

    def ask(
        self,
        requests: Mapping[str, ChatRequest],
        memory: RememberedReplies,
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        """Make calls for all requests, known or not. Return the replies by the keys of the
        requests.

        ``memory`` stores the replies. The caller runs the conversations.
        """
        with self.reserve(BYTES_OF_A_REPLY) as room:
            return dict(in_parallel(requests.items(), self._workers(memory, listener, room)))

    def _workers(
        self, memory: RememberedReplies, listener: Listener | None, room: Reserve
    ) -> Workers[KeyedRequest, KeyedReply]:
        """Return worker threads that make calls, and store each reply before it is used."""
        attempts = self.attempts(listener)

        def ask(item: KeyedRequest) -> KeyedReply:
            """Make the call of one request, and repeat it if a limit was refused."""
            key, request = item
            room.begin()
            request = memory.with_larger_limit(key, request)
            # Whether the last answer reported hidden thinking; send() sets it.
            thinking = False

            def send(
                asked: ChatRequest, limit: Limit | None, client: "OpenAI"
            ) -> tuple[Completion, Tokens]:
                """Send the request once, and store the reply."""
                nonlocal thinking
                completion, tokens, thinking = self._fetch(asked, client, limit)
                # The reply is stored before anybody counts or reads it.
                with room.storing():
                    memory.store(key, completion, request)
                return completion, tokens

            def ask_within(limit: Limit | None) -> Completion | Failure:
                """Make the call with this limit of the reply, and with limits in its schema."""
                bounded = self._schema_limits.applied_to(request)
                call = self._call(request)
                answer = attempts.ask(call, partial(send, bounded, limit), _outcome)
                if bounded is request or not isinstance(answer, Failure):
                    return answer
                refusal = answer
                if not self._schema_limits.may_be_refused_by(refusal):
                    return refusal
                # Repeat the call without limits in the schema, to see whether they were refused.
                call = self._call(request)
                answer = attempts.ask(call, partial(send, request, limit), _outcome)
                is_answered = not isinstance(answer, Failure)
                self._schema_limits.learn(refusal, answered_without=is_answered)
                return answer

            answer = self.reply_limits.ask(request, ask_within, lambda: thinking)
            if isinstance(answer, Failure):
                failed = ChatReply("", "error", answer.reason, answer.message)
                return key, memory.choose_better(key, request, failed)
            self._length_of_a_reply.learn(answer.output_tokens)
            return key, memory.choose_better(key, request, memory.read(answer, request))

        return self.workers(ask, attempts)

    def send_smallest_call(self, client: "OpenAI") -> Tokens:
        """Request one token: the server may list its models before it can use them. Return the
        call's tokens."""
        soon = client.with_options(timeout=PROBE_SECONDS)
        messages: Any = [{"role": "user", "content": PROBE_TEXT}]
        # Any answer is read with the same care: a server or a proxy may send something else.
        create = soon.chat.completions.with_streaming_response.create
        body = self.endpoint.fetch(create(model=self.model, messages=messages, max_tokens=1))
        request = ChatRequest("", tuple(messages))
        _, tokens = self.read_counted(body, lambda: self.count(request))
        return tokens

    def _fetch(
        self, request: ChatRequest, client: "OpenAI", limit: Limit | None
    ) -> tuple[Completion, Tokens, bool]:
        """Send the request. Return the reply, its tokens, and whether the answer reports hidden
        thinking."""
        create = client.chat.completions.with_streaming_response.create
        body = self.endpoint.fetch(create(**self._arguments(request, limit)))
        completion, tokens = self.read_counted(body, lambda: self.count(request))
        return completion, tokens, reports_thinking(body)

    def memory(self, repeats: Repeats | None = None) -> RememberedReplies:
        """Return the memory of this model's replies."""
        return RememberedReplies(self.model, self.identity, self.cache, repeats)

    def record_cached_reply(
        self, listener: Listener | None, request: ChatRequest, reply: ChatReply
    ) -> None:
        """Record the usage of a request that was answered without a call."""
        if listener:
            usage = Usage(
                request.row_id,
                self.model,
                reply.input_tokens,
                reply.output_tokens,
                cached=True,
                seconds=0,
                outcome=reply.reason or "ok",
                calls=0,
                cost=0,
            )
            listener.ended(usage)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        """Yield the text of the reply in chunks, as ChatModel says. Closing the generator ends the
        call.

        A known reply is a single chunk.
        """
        memory = self.memory()
        key = memory.key(request)
        known = memory.recall({key: request}).get(key)
        if known and known.good:
            self.record_cached_reply(listener, request, known)
            yield known.text
            return known
        with self.reserve(BYTES_OF_A_REPLY, calls=1) as room:
            room.begin()
            completion = yield from self._stream(request, listener)
            with room.storing():
                memory.store(key, completion, request)
        reply = memory.read(completion, request)
        if not reply.good:
            self.cache.flag({key: False})
        return reply

    @made_once
    def _schema_limits(self) -> SchemaLimits:
        return SchemaLimits()

    @made_once
    def _length_of_a_reply(self) -> "_Mean":
        return _Mean()

    def _call(self, request: ChatRequest) -> Call:
        """Return the facts about the call. Tokens are counted only if a limit of tokens needs
        them."""
        characters = _characters(request)
        if not self.rate.tokens_per_minute:
            return Call(request.row_id, characters)
        expected_tokens = self.count(request) + self.length_of_a_reply(request)
        return Call(request.row_id, characters, expected_tokens)

    def count(self, request: ChatRequest) -> int:
        """Return the input tokens of a request as the endpoint will count them.

        Chat models add a few tokens to each message. The tokens of a picture are an estimate.
        """
        texts = [message["content"] for message in request.messages]
        tokens = sum(map(tokenizer(self.model).count, texts))
        if request.picture:
            tokens += tokens_of_picture(self.model, request.picture)
        return tokens + TOKENS_OF_A_MESSAGE * len(texts) + TOKENS_OF_A_REPLY

    def read_counted(
        self, body: Mapping[str, Any], prompt: Callable[[], int]
    ) -> tuple[Completion, Tokens]:
        """Return the reply in the JSON of an answer, and its tokens.

        Tokens that the answer does not report are counted; ``prompt`` counts those of the request.
        Raises UselessAnswerError when the answer contains no reply.
        """
        return self.with_counts(*read_answer(body), prompt, written_in(body))

    def with_counts(
        self, completion: Completion, reported: Tokens, prompt: Callable[[], int], written: str
    ) -> tuple[Completion, Tokens]:
        """Return the reply and its tokens, and count those that were not reported.

        ``prompt`` counts the tokens of the request. ``written`` is all that the model wrote, its
        reasoning included.
        """
        tokens = with_estimates(reported, prompt, lambda: tokenizer(self.model).count(written))
        return replace(completion, input_tokens=tokens.input, output_tokens=tokens.output), tokens

    def length_of_a_reply(self, request: ChatRequest) -> int:
        """Return the expected tokens of the reply, estimated from earlier replies."""
        return self._length_of_a_reply.guess(_characters(request))

    def _stream(
        self, request: ChatRequest, listener: Listener | None
    ) -> Generator[str, None, Completion]:
        """Make the call as a stream. Yield the chunks of the reply, and return the whole reply.

        Raises RequestEndedError if the current request has ended, and AuthError or ModelError if
        the call fails.
        """
        shown: list[str] = []
        written: list[str] = []
        tokens = NO_TOKENS
        finish_reason, usage, failure, outcome = None, None, None, CUT
        call = self._call(request)
        attempts = self.attempts(listener)
        limit = self.reply_limits.of(request)
        sent = self._begin_stream(attempts, call, request, limit)
        if limit and isinstance(sent, Failure) and self.reply_limits.may_be_refused_by(sent):
            sent = self._begin_stream(attempts, call, request, None)
        if isinstance(sent, Failure):
            raise self._no_answer(request, sent)
        try:
            with sent.answer as events, breakable(partial(_hang_up, events)):
                for chunk in self._read_chunks(events):
                    usage = chunk.usage or usage
                    finish_reason = chunk.finish_reason or finish_reason
                    written.append(chunk.written)
                    if chunk.text:
                        text = clean(chunk.text)
                        shown.append(text)
                        yield text
            self.refuse_unread(request, reported_tokens(usage))
            outcome = outcome_of(finish_reason) if finish_reason else CUT
        except Exception as error:
            failure = self.endpoint.failure(error)
            outcome = failure.outcome
        finally:
            # A stream that was cut has not reported its tokens. What has arrived is paid for.
            count_reply = partial(tokenizer(self.model).count, "".join(written))
            tokens = with_estimates(
                reported_tokens(usage), partial(self.count, request), count_reply
            )
            sent.end(tokens, outcome)
        if failure:
            # If the current request has ended, the failure is not the endpoint's fault.
            check_request()
            raise failure.fatal or self._no_answer(request, failure, begun=bool(shown))
        if finish_reason is None:
            raise ModelError(f"{self.where}: the answer broke off; ask again")
        return Completion("".join(shown), finish_reason, tokens.input, tokens.output)

    def refuse_unread(self, request: ChatRequest, billed: Tokens) -> None:
        """Raise an error if the server has read only a part of the prompt.

        ``billed``: the tokens that the answer reports. Only Ollama cuts prompts silently but
        reveals it by its counts, so only its subclass does anything here.
        """

    def _begin_stream(
        self, attempts: Attempts, call: Call, request: ChatRequest, limit: Limit | None
    ) -> Sent[Any] | Failure:
        """Return a stream that has begun, or the failure.

        Raises RequestEndedError when the current request ends first. A stream that begins after
        that is closed. The tokens of its prompt are recorded, because they are paid for.
        """

        def discard(late: Sent[Any] | Failure) -> None:
            if not isinstance(late, Failure):
                late.answer.close()
                late.end(with_estimates(NO_TOKENS, partial(self.count, request), lambda: 0), CUT)

        with breakable(attempts.stop.set):
            try:
                return left_when_over(
                    partial(attempts.open, call, partial(self._open, request, limit)), discard
                )
            except StoppedError:
                raise RequestEndedError(
                    f"{self.where}: the request ended before its call began; ask again"
                ) from None

    def _no_answer(self, request: ChatRequest, failure: Failure, begun: bool = False) -> ModelError:
        """Return the error of a query without an answer. ``begun``: a part of the answer has been
        shown."""
        fact = f"{self.where}: {failure.message}"
        if begun and failure.reason == "too_long":
            return ModelError(
                f"{fact}, so the answer rests on a part of what was found; {LOWER_THE_BUDGET}"
            )
        if begun:
            return ModelError(f"{fact}; the answer is cut off there: ask again")
        return no_answer(fact, failure.reason, self.count(request))

    def _open(
        self, request: ChatRequest, limit: Limit | None, client: "OpenAI"
    ) -> tuple[Any, Tokens]:
        """Open a stream before its first chunk. Its tokens are known only at its end."""
        create = cast(Any, client.chat.completions.create)
        stream = create(
            **self._arguments(request, limit), stream=True, stream_options={"include_usage": True}
        )
        return stream, NO_TOKENS

    def _read_chunks(self, stream: "Stream[Any]") -> Iterator[Chunk]:
        """Yield the chunks of a stream.

        Its bytes are read here, because the client hides the end mark and an answer in plain JSON.
        """
        return read_events(lines_in_time(stream.response.iter_bytes(), self.timeout), _whole_chunk)

    @made_once
    def reply_limits(self) -> ReplyLimits:
        return ReplyLimits.of_model(self.model, self.options)

    def body(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """Return the JSON body of the request, with the names of the protocol."""
        body = {name: value for name, value in self.options.items() if name != "extra_body"}
        body |= self.options.get("extra_body", {})
        if request.response_format:
            body["response_format"] = request.response_format
        messages: list[dict[str, Any]] = [
            {**message, "content": sendable(message["content"])} for message in request.messages
        ]
        if request.picture:
            messages[-1] = message_with_picture(messages[-1], request.picture)
        limits = {limit.name: limit.tokens} if limit else {}
        # An option of the same name in the settings replaces the limit.
        return {"model": self.model, "messages": messages, **limits, **body}

    def _arguments(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """Return the request as arguments of the client."""
        body = self.body(request, limit)
        return {"model": body.pop("model"), "messages": body.pop("messages"), "extra_body": body}


def _hang_up(stream: "Stream[Any]") -> None:
    """Shut down the connection of a stream, which wakes the thread that reads it.

    Closing the stream would leave that thread waiting.
    """
    network = stream.response.extensions.get("network_stream")
    connection = network.get_extra_info("socket") if network else None
    if connection is None:
        # A model in this process has no connection, and ends by itself.
        return
    # The connection may already be closed.
    with suppress(OSError):
        # SSLSocket.shutdown would remove the encryption under the thread that reads.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _outcome(completion: Completion) -> str:
    """Return the outcome of a reply for the usage records."""
    return outcome_of(completion.finish_reason)


def _characters(request: ChatRequest) -> int:
    return sum(len(message["content"]) for message in request.messages)


@dataclass
class _Mean:
    """Mean length of the replies that have arrived."""

    total: int = 0
    replies: int = 0

    def learn(self, tokens: int) -> None:
        self.total, self.replies = self.total + tokens, self.replies + 1

    def guess(self, characters: int) -> int:
        """Return the expected tokens of a reply to a prompt with this number of characters."""
        if self.replies:
            return self.total // self.replies
        return characters // CHARACTERS_PER_TOKEN_AT_FIRST


def read_answer(body: Mapping[str, Any]) -> tuple[Completion, Tokens]:
    """Return the reply in the JSON of an answer, and its reported tokens.

    A refusal is returned as a reply with finish reason "refusal". Raises UselessAnswerError when
    the answer contains no reply.
    """
    from openai.types.chat import ChatCompletion

    answer = ChatCompletion.construct(**body)
    choices = getattr(answer, "choices", None)
    tokens = reported_tokens(getattr(answer, "usage", None))
    if not choices or choices[0].message is None:
        raise UselessAnswerError("the endpoint's answer contains no reply", tokens)
    choice = choices[0]
    if choice.message.refusal:
        text, finish_reason = choice.message.refusal, "refusal"
    else:
        text = plain_text(choice.message.content)
        finish_reason = choice.finish_reason or "stop"
    return Completion(clean(text), finish_reason, tokens.input, tokens.output), tokens


def _whole_chunk(body: Mapping[str, Any]) -> Chunk:
    """Return the only chunk of an answer that was requested as a stream but came as a whole."""
    completion, _ = read_answer(body)
    return Chunk(completion.text, completion.finish_reason, usage_of(body), written_in(body))
