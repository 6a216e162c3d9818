"""The routes of chat clients: the list of models, and answers whole or in chunks."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from pipeline.query.answer import ENDS, Answer
from pipeline.query.stream import Done, Event, Failed, Sources, Token
from pipeline.serve.access import Access
from pipeline.serve.audit import Audit
from pipeline.serve.chat.bodies import (
    ChatAnswer,
    ChatAsked,
    ChatFailed,
    ModelShown,
    ModelsShown,
)
from pipeline.serve.chat.conversation import Conversation, read_conversation, reply_to_task
from pipeline.serve.chat.rendering import Permalinks, Rendering
from pipeline.serve.failures import Failure, respond
from pipeline.serve.metrics import note_mode
from pipeline.serve.queries import Queries
from pipeline.serve.responses import EventStream, answered, json_bytes
from pipeline.serve.ui.view import access_of
from pipeline.settings.query_fields import MODES
from pipeline.settings.schema import ServeSettings

DONE = b"data: [DONE]\n\n"
NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
ABOUT = """
The protocol of OpenAI's chat completions, for chat front ends and the `openai` package. The last turn is the question, and
`model` names a workspace and perhaps a mode. Temperature and other fields are ignored. With `stream`, server-sent events:
chunks of the answer with its citations, the list of its sources, and `[DONE]`. Requests of front ends for titles, tags and
follow-up questions search nothing and cost nothing.
"""  # noqa: E501
EXAMPLE_STREAM = (
    'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content":'
    ' "Idra Senn"}, "finish_reason": null}]}\n\ndata: [DONE]\n\n'
)


def add_chat(
    app: FastAPI,
    queries: Queries,
    audit: Audit,
    settings: ServeSettings,
    responses: dict[int | str, Any],
    keys: Sequence[Any],
) -> None:
    """Add the routes of chat clients; ``responses`` and ``keys`` are as for the routes of
    queries."""
    failures = {status: {**about, "model": ChatFailed} for status, about in responses.items()}
    routes = APIRouter(tags=["chat clients"], dependencies=[*keys], responses=failures)
    _route_models(routes)
    _route_completions(routes, queries, audit, settings)
    app.include_router(routes)


def _route_models(routes: APIRouter) -> None:
    @routes.get("/v1/models", summary="List what can be asked", response_model=ModelsShown)
    async def models(http: Request, modes: bool = False) -> Response:
        """Return the workspaces that may be asked; with `modes=true` also each with each mode."""
        access = access_of(http)
        names: list[str] = []
        for workspace in access.workspaces:
            names.append(workspace)
            if modes:
                names += [f"{workspace}:{mode}" for mode in MODES if access.caller.may_ask(mode)]
        shown = ModelsShown(data=[ModelShown(id=name) for name in names])
        return _json(shown.model_dump())


def _route_completions(
    routes: APIRouter, queries: Queries, audit: Audit, settings: ServeSettings
) -> None:
    @routes.post(
        "/v1/chat/completions",
        summary="Answer a conversation",
        description=ABOUT,
        response_model=ChatAnswer,
        responses={
            200: {
                "description": "The answer, or its chunks.",
                "content": {"text/event-stream": {"example": EXAMPLE_STREAM}},
            },
            404: {"model": ChatFailed, "description": "There is no such model for this key."},
        },
    )
    async def complete(body: ChatAsked, http: Request) -> Response:
        workspace, _, mode = body.model.partition(":")
        access = access_of(http).at(workspace) if workspace else access_of(http)
        if access is None or (mode and mode not in MODES):
            return respond(_no_such_model(body.model))
        conversation = read_conversation(body.messages)
        completion = Completion(
            body.model or access.workspace,
            conversation,
            Rendering(_permalinks(access, settings)),
            bool(body.stream_options and body.stream_options.include_usage),
        )
        reply = reply_to_task(conversation)
        if reply is not None:
            return _fixed(completion, reply, bool(body.stream))
        options: dict[str, Any] = {"conversation_history": conversation.history}
        if mode:
            options["mode"] = mode
        note_mode(http, access.project, options)
        claim = access.claim(access.project.may_ask_chat(options))
        question = conversation.question

        def work() -> Response:
            find = partial(access.project.query, question, access.caller, **options)
            return _json(completion.whole(audit.answered(access, question, find)))

        def frames() -> Iterator[bytes]:
            with audit.refusals(access, question):
                found = access.project.query_stream(question, access.caller, **options)
            # Closed at once, because the audit log's line is written when the events end.
            with closing(audit.streamed(access, question, found)) as events:
                yield from completion.chunks(events)

        async def streamed() -> Response:
            stream = await queries.stream(frames, claim)
            return EventStream(stream, access.caller.sees_internals, _error_chunk)

        return await answered(http, streamed() if body.stream else queries.run(work, claim))


def _no_such_model(name: str) -> Failure:
    message = f"model: there is no '{name}' here; GET /v1/models lists what can be asked"
    return Failure(404, "model_not_found", message, ({"field": "model", "message": message},))


def _permalinks(access: Access, settings: ServeSettings) -> Permalinks:
    address = settings.public_url or settings.users.oidc.public_url.rstrip("/")
    has_pages = settings.page and bool(address)
    return Permalinks(f"{address}/w/{access.workspace}" if has_pages else "")


@dataclass(frozen=True)
class Completion:
    """Writes an answer in the protocol of chat clients.

    ``model`` is the name that the client has asked; ``with_usage`` adds a last chunk with the
    tokens.
    """

    model: str
    conversation: Conversation
    rendering: Rendering
    with_usage: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the answer in one piece."""
        self.rendering.show(answer.references)
        text, citations = self.rendering.write(answer.text, answer.annotations)
        content = text + self._sources(answer)
        return self.object(content, _finish(answer), citations, _usage(answer), self._about(answer))

    def object(
        self,
        content: str,
        finish: str,
        citations: Sequence[Any] = (),
        usage: dict[str, int] = NO_TOKENS,
        about: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of an answer in one piece."""
        message = {"role": "assistant", "content": content, "annotations": list(citations)}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": usage,
            "graphmill": about or {},
        }

    def chunks(self, events: Iterator[Event]) -> Iterator[bytes]:
        """Yield the frames of a query's events. Raises the error of a failed event."""
        has_begun = False
        for event in events:
            match event:
                case Sources():
                    # They come again if the prompt has to be made shorter.
                    self.rendering.show(event.references)
                    if not has_begun:
                        yield self.chunk({"role": "assistant", "content": ""})
                    has_begun = True
                case Token():
                    text, citations = self.rendering.write(event.text, event.annotations)
                    delta: dict[str, Any] = {"content": text}
                    if citations:
                        delta["annotations"] = citations
                    yield self.chunk(delta)
                case Done():
                    yield from self._end(event.answer)
                case Failed():
                    raise event.error

    def _end(self, answer: Answer) -> Iterator[bytes]:
        """Yield the frames behind the text of the answer."""
        sources = self._sources(answer)
        if sources:
            yield self.chunk({"content": sources})
        yield self.chunk({}, _finish(answer), graphmill=self._about(answer))
        yield from self.closing(_usage(answer))

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        """Return the frame of one chunk."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        usage = {"usage": None} if self.with_usage else {}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice], **usage, **more}
        return _data(chunk)

    def closing(self, usage: dict[str, int]) -> Iterator[bytes]:
        """Yield the chunk with the tokens, if the client wants it, and the mark of the end."""
        if self.with_usage:
            yield _data({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})
        yield DONE

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _sources(self, answer: Answer) -> str:
        cited = answer.cited if answer.request.include_references else ()
        return self.rendering.list_sources(cited)

    def _about(self, answer: Answer) -> dict[str, Any]:
        """Return what the protocol has no field for."""
        return {
            "mode": answer.request.mode,
            "reason": answer.abstention,
            "notes": [*self.conversation.notes, *answer.notes],
            "question_id": answer.question_id,
            "cost": answer.cost,
        }


def _fixed(completion: Completion, reply: str, stream: bool) -> Response:
    """Return a reply that no model has written."""
    if not stream:
        return _json(completion.object(reply, "stop"))
    frames = [
        completion.chunk({"role": "assistant", "content": reply}),
        completion.chunk({}, "stop"),
        *completion.closing(NO_TOKENS),
    ]
    return Response(b"".join(frames), media_type="text/event-stream")


def _finish(answer: Answer) -> str:
    return "length" if ENDS["length"] in answer.notes else "stop"


def _usage(answer: Answer) -> dict[str, int]:
    asked, said = answer.usage["input_tokens"], answer.usage["output_tokens"]
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _error_chunk(failure: Failure) -> bytes:
    return _data({"error": failure.chat_error})


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + json_bytes(content) + b"\n\n"


def _json(content: dict[str, Any]) -> Response:
    return Response(json_bytes(content), media_type="application/json")
