"""Chat models behind any address that speaks the OpenAI protocol."""

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
from pipeline.models.endpoint.attempts import (
    SECONDS_OF_A_LOOK,
    WORD_OF_A_LOOK,
    Attempts,
    Call,
    RemoteModel,
    Sent,
)
from pipeline.models.endpoint.client import Failure, UselessAnswerError, sendable
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
    "extra_body", "frequency_penalty", "max_completion_tokens", "max_tokens", "presence_penalty",
    "reasoning_effort", "seed", "stop", "temperature", "top_p", "verbosity",
)  # fmt: skip
"""What may be sent beside the messages. All of it can change a reply, so all of it is in the
identity."""


TOKENS_OF_A_MESSAGE, TOKENS_OF_A_REPLY = 4, 3
CHARACTERS_PER_TOKEN_AT_FIRST = 16
"""A first guess at a reply's length: a quarter of the prompt's tokens."""
CUT = "cut"
"""The outcome of a stream that nobody read to its end, or that broke off."""


@dataclass(frozen=True)
class OpenAIChat(RemoteModel, ChatModel):
    """A ChatModel. ``options``: see REPLY_OPTIONS. Raises SettingsError for an option that is not
    one of them."""

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
        """Return the tokens that the model reads, its reply included, where settings say so."""
        return None

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        anew: Anew | None = None,
    ) -> list[Result]:
        """See ChatModel. A reply that a request's check objects to comes back without a reason, its
        ``message`` the objection: the caller reads what can be read."""
        memory = self.memory(anew)
        exchange = Exchange(talks, memory, partial(self.tell_known, listener))
        with self.reserve(BYTES_OF_A_REPLY) as room:
            return converse(exchange, self._workers(memory, listener, room))

    def ask(
        self,
        requests: Mapping[str, ChatRequest],
        memory: RememberedReplies,
        listener: Listener | None,
    ) -> dict[str, ChatReply]:
        """Send these, by their keys, known or not; ``memory`` keeps what comes. For who holds the
        conversations."""
        with self.reserve(BYTES_OF_A_REPLY) as room:
            return dict(in_parallel(requests.items(), self._workers(memory, listener, room)))

    def _workers(
        self, memory: RememberedReplies, listener: Listener | None, room: Reserve
    ) -> Workers[KeyedRequest, KeyedReply]:
        attempts = self.attempts(listener)

        def ask(item: KeyedRequest) -> KeyedReply:
            key, request = item
            room.begin()
            request = memory.with_room(key, request)
            thinking = False

            def send(
                asked: ChatRequest, limit: Limit | None, client: "OpenAI"
            ) -> tuple[Completion, Tokens]:
                nonlocal thinking
                completion, tokens, thinking = self._fetch(asked, client, limit)
                with room.storing():
                    memory.store(key, completion, request)  # before anybody counts or reads it
                return completion, tokens

            def ask_within(limit: Limit | None) -> Completion | Failure:
                limited = self._schema_limits.applied_to(request)
                answer = attempts.ask(self._call(request), partial(send, limited, limit), _outcome)
                refusal = answer if isinstance(answer, Failure) and limited is not request else None
                if refusal and self._schema_limits.may_be_refused_by(refusal):
                    answer = attempts.ask(
                        self._call(request), partial(send, request, limit), _outcome
                    )
                    self._schema_limits.learn(
                        refusal, answered_without=not isinstance(answer, Failure)
                    )
                return answer

            answer = self.reply_limits.ask(request, ask_within, lambda: thinking)
            if isinstance(answer, Failure):
                failed = ChatReply("", "error", answer.reason, answer.message)
                return key, memory.better(key, request, failed)
            self._length_of_a_reply.learn(answer.output_tokens)
            return key, memory.better(key, request, memory.read(answer, request))

        return self.workers(ask, attempts)

    def look(self, client: "OpenAI") -> Tokens:
        """Ask for one token: the list of models may be there before the model is."""
        soon = client.with_options(timeout=SECONDS_OF_A_LOOK)
        messages: Any = [{"role": "user", "content": WORD_OF_A_LOOK}]
        # Read as every other answer is: a server or a proxy may send something else than a reply.
        create = soon.chat.completions.with_streaming_response.create
        body = self.endpoint.fetch(create(model=self.model, messages=messages, max_tokens=1))
        look = ChatRequest("", tuple(messages))
        _, tokens = self.read_counted(body, lambda: self.count(look))
        return tokens

    def _fetch(
        self, request: ChatRequest, client: "OpenAI", limit: Limit | None
    ) -> tuple[Completion, Tokens, bool]:
        """Send the request; return the whole reply, what it took, and whether hidden thinking is
        reported."""
        create = client.chat.completions.with_streaming_response.create
        body = self.endpoint.fetch(create(**self._arguments(request, limit)))
        return *self.read_counted(body, lambda: self.count(request)), reports_thinking(body)

    def memory(self, anew: Anew | None = None) -> RememberedReplies:
        return RememberedReplies(self.model, self.identity, self.cache, anew)

    def tell_known(self, listener: Listener | None, request: ChatRequest, reply: ChatReply) -> None:
        """Tells the listener of a request that needed no call."""
        if listener:
            usage = Usage(
                request.row_id, self.model, reply.input_tokens, reply.output_tokens, cached=True,
                seconds=0,
                outcome=reply.reason or "ok", calls=0, cost=0,
            )  # fmt: skip
            listener.ended(usage)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        """See ChatModel. A known reply is one piece. Who closes the generator ends the call."""
        memory = self.memory()
        key = memory.key(request)
        known = memory.recall({key: request}).get(key)
        if known and known.good:
            self.tell_known(listener, request, known)
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
        characters = _characters(request)
        if not self.rate.tokens_per_minute:
            return Call(request.row_id, characters)
        return Call(
            request.row_id, characters, self.count(request) + self.length_of_a_reply(request)
        )

    def count(self, request: ChatRequest) -> int:
        """Input tokens of a request, as the endpoint will count them (chat models add a few to each
        message)."""
        texts = [message["content"] for message in request.messages]
        return (
            sum(map(tokenizer(self.model).count, texts))
            + TOKENS_OF_A_MESSAGE * len(texts)
            + TOKENS_OF_A_REPLY
        )

    def read_counted(
        self, body: Mapping[str, Any], prompt: Callable[[], int]
    ) -> tuple[Completion, Tokens]:
        """Read the reply in an answer's JSON, and count the tokens that the answer does not report.

        ``prompt`` counts those of the request. Raises UselessAnswerError when the answer holds no
        reply.
        """
        return self.with_counts(*read_answer(body), prompt, written_in(body))

    def with_counts(
        self, completion: Completion, reported: Tokens, prompt: Callable[[], int], written: str
    ) -> tuple[Completion, Tokens]:
        """Count the tokens that were not reported; ``written``: all that the model wrote, its
        reasoning too."""
        tokens = with_estimates(reported, prompt, lambda: tokenizer(self.model).count(written))
        return replace(completion, input_tokens=tokens.input, output_tokens=tokens.output), tokens

    def length_of_a_reply(self, request: ChatRequest) -> int:
        """A guess, in tokens, by what came so far."""
        return self._length_of_a_reply.guess(_characters(request))

    def _stream(
        self, request: ChatRequest, listener: Listener | None
    ) -> Generator[str, None, Completion]:
        pieces: list[str] = []
        written: list[str] = []
        tokens = NO_TOKENS
        finish_reason, usage, failure, outcome = None, None, None, CUT
        call = self._call(request)
        attempts = self.attempts(listener)
        limit = self.reply_limits.of(request)
        sent = self._opened(attempts, call, request, limit)
        if limit and isinstance(sent, Failure) and self.reply_limits.may_be_refused_by(sent):
            sent = self._opened(attempts, call, request, None)
        if isinstance(sent, Failure):
            raise self._no_answer(request, sent)
        try:
            with sent.answer as events, breakable(partial(_hang_up, events)):
                for chunk in self._chunks(events):
                    usage = chunk.usage or usage
                    finish_reason = chunk.finish_reason or finish_reason
                    written.append(chunk.written)
                    if chunk.text:
                        pieces.append(clean(chunk.text))
                        yield pieces[-1]
            self.refuse_unread(request, reported_tokens(usage))
            outcome = outcome_of(finish_reason) if finish_reason else CUT
        except Exception as error:
            failure = self.endpoint.failure(error)
            outcome = failure.outcome
        finally:
            # A stream that was cut has reported nothing yet: it is paid for as far as it came.
            count_reply = partial(tokenizer(self.model).count, "".join(written))
            tokens = with_estimates(
                reported_tokens(usage), partial(self.count, request), count_reply
            )
            sent.end(tokens, outcome)
        if failure:
            check_request()  # where it was broken off, that is no failure of the endpoint
            raise failure.fatal or self._no_answer(request, failure, begun=bool(pieces))
        if finish_reason is None:
            raise ModelError(f"{self.where}: the answer broke off; ask again")
        return Completion("".join(pieces), finish_reason, tokens.input, tokens.output)

    def refuse_unread(self, request: ChatRequest, billed: Tokens) -> None:
        """Raise an error if the server has read only a part of the prompt. ``billed``: what the
        answer reports.

        Only Ollama cuts prompts without a word and says by its counts that it did.
        """

    def _opened(
        self, attempts: Attempts, call: Call, request: ChatRequest, limit: Limit | None
    ) -> Sent[Any] | Failure:
        """Return a stream that has begun, or why none has.

        Raises RequestEndedError when the request ends that it is opened for. A stream that begins
        after that is hung up, and its prompt is counted, for it is paid for.
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
        """Return the error of a question that brought no answer; ``begun``: a part of it has been
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
        """Open a stream, before its first piece; its tokens are known at its end."""
        create = cast(Any, client.chat.completions.create)
        stream = create(
            **self._arguments(request, limit), stream=True, stream_options={"include_usage": True}
        )
        return stream, NO_TOKENS

    def _chunks(self, stream: "Stream[Any]") -> Iterator[Chunk]:
        """Yield what comes of a stream. Its bytes are read here: the client hides its end mark and
        its plain JSON."""
        return read_events(lines_in_time(stream.response.iter_bytes(), self.timeout), _whole_chunk)

    @made_once
    def reply_limits(self) -> ReplyLimits:
        return ReplyLimits.of_model(self.model, self.options)

    def body(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """What is sent, by the protocol's names."""
        body = {name: value for name, value in self.options.items() if name != "extra_body"}
        body |= self.options.get("extra_body", {})
        if request.response_format:
            body["response_format"] = request.response_format
        messages = [
            {**message, "content": sendable(message["content"])} for message in request.messages
        ]
        limits = {limit.name: limit.tokens} if limit else {}
        return {"model": self.model, "messages": messages, **limits, **body}

    def _arguments(self, request: ChatRequest, limit: Limit | None = None) -> dict[str, Any]:
        """What is sent, as the client takes it."""
        body = self.body(request, limit)
        return {"model": body.pop("model"), "messages": body.pop("messages"), "extra_body": body}


def _hang_up(stream: "Stream[Any]") -> None:
    """Wake whoever waits for the next piece of a stream: to close it would leave them waiting."""
    network = stream.response.extensions.get("network_stream")
    line = network.get_extra_info("socket") if network else None
    if line is None:
        return  # a model in this process, which ends by itself
    with suppress(OSError):  # it has been closed
        # Not SSLSocket.shutdown, which takes the encryption from the thread that reads.
        socket.socket.shutdown(line, socket.SHUT_RDWR)


def _outcome(completion: Completion) -> str:
    """Return the outcome of a reply in the usage."""
    return outcome_of(completion.finish_reason)


def _characters(request: ChatRequest) -> int:
    return sum(len(message["content"]) for message in request.messages)


@dataclass
class _Mean:
    """How long replies are, as learnt from those that came."""

    total: int = 0
    replies: int = 0

    def learn(self, tokens: int) -> None:
        self.total, self.replies = self.total + tokens, self.replies + 1

    def guess(self, characters: int) -> int:
        return (
            self.total // self.replies
            if self.replies
            else characters // CHARACTERS_PER_TOKEN_AT_FIRST
        )


def read_answer(body: Mapping[str, Any]) -> tuple[Completion, Tokens]:
    """The reply in an answer's JSON. Raises UselessAnswerError when it has none."""
    from openai.types.chat import ChatCompletion

    answer = ChatCompletion.construct(**body)
    choices, tokens = (
        getattr(answer, "choices", None),
        reported_tokens(getattr(answer, "usage", None)),
    )
    if not choices or choices[0].message is None:
        raise UselessAnswerError("the endpoint's answer holds no reply", tokens)
    choice = choices[0]
    if choice.message.refusal:
        return (
            Completion(clean(choice.message.refusal), "refusal", tokens.input, tokens.output),
            tokens,
        )
    text = clean(plain_text(choice.message.content))
    return Completion(text, choice.finish_reason or "stop", tokens.input, tokens.output), tokens


def _whole_chunk(body: Mapping[str, Any]) -> Chunk:
    """Return the only chunk of an answer that was asked for as a stream, and came at once."""
    completion, _ = read_answer(body)
    return Chunk(completion.text, completion.finish_reason, usage_of(body), written_in(body))
