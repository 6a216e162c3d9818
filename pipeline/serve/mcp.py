"""A project's queries as tools of the Model Context Protocol, over stdio or HTTP."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from types import FrameType
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.errors import INTERRUPTED
from pipeline.project import Project
from pipeline.query.answer import Answer
from pipeline.query.answer_json import reference_json
from pipeline.query.context import Reference
from pipeline.query.marks import inert
from pipeline.runs.services import DEFAULT
from pipeline.serve.audit import audit_of
from pipeline.serve.doors import Door, asker_of, doors_of
from pipeline.serve.failures import failure_of, invalid
from pipeline.serve.guard import Guard, RequestLog
from pipeline.serve.named import with_peer
from pipeline.serve.queries import Api, HungUpError, Queries, unless_gone
from pipeline.serve.server import make_ready, serve_as
from pipeline.serve.tool_parameters import OF_QUERY, OF_QUERY_DATA, with_parameters
from pipeline.settings.keys import STDIO
from pipeline.settings.query_fields import TOOL_TOKENS

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
INSTRUCTIONS = """
Documents of one collection, as a knowledge graph with passages. Use query_data to find passages and facts to answer
from, and name their sources. Ask in whole sentences, one question at a time; names as the documents may write them.
"""  # noqa: E501
ABOUT_QUERY_DATA = """
Find passages, entities and relationships for a question, with their sources. The text is a context to answer from; the
structured result says which passage [ref:n] is, by its document and offsets. No model writes an answer.
"""  # noqa: E501
ABOUT_QUERY = """
An answer by the project's own model, from the documents alone, that cites its sources as [1]. The structured result has
these citations as annotations; one that is not supported names something that its passage does not hold. Slower than
query_data and billed: use that to read the evidence yourself.
"""  # noqa: E501
NO_EVIDENCE: Mapping[str, str] = {
    "nothing_found": "Nothing was found in the documents.",
    "below_min_score": (
        "Nothing in the documents is similar enough to the question (query.min_score in"
        " settings.yaml); the structured result has what comes nearest."
    ),
    "no_room": (
        "Something was found in the documents, but none of it fits into max_total_tokens; ask again"
        " with more."
    ),
}
"""Reason -> what the assistant reads instead of evidence."""
ONE_WINDOW = 2
"""Calls, the answer's among them: the reports that one is shown are as much as an assistant wants
to read."""
OF_EVIDENCE = frozenset(
    {
        "mode",
        "keywords",
        "abstained",
        "reason",
        "tokens",
        "most_calls",
        "dropped",
        "cost",
        "question_id",
        "notes",
    }
)
OF_AN_ANSWER = frozenset(
    {
        "mode",
        "answer",
        "abstained",
        "reason",
        "annotations",
        "cited",
        "reports",
        "removed_citations",
    }
    | {"unsupported_citations", "cites_nothing", "usage", "cost", "question_id", "notes"}
)


class Tools(MCPServer):
    """Arguments that no tool has are refused, and wrong ones told, as by the other doors; the SDK
    passes over the first and shows the values of the second."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> Any:
        if tool := self._tool_manager.get_tool(name):
            given = tool.fn_metadata.pre_parse_json(arguments)
            refuse_wrong(tool.fn_metadata.arg_model, given)
        return await super().call_tool(name, arguments, context)


def refuse_wrong(known: type[BaseModel], arguments: Mapping[str, Any]) -> None:
    """Raises ToolError."""
    try:
        known.model_validate(arguments, extra="forbid")
    except ValidationError as error:
        faults = [
            {**fault, "loc": ("arguments", *fault["loc"])}
            for fault in error.errors(include_input=False)
        ]
        raise ToolError(invalid(faults, known.model_fields).message) from None


def mcp_of(project: Project, queries: Queries) -> MCPServer:
    """``query_data``, and ``query`` where a chat model is configured."""
    audit = audit_of(project)
    by_stdin = Door(asker_of(STDIO, project.settings), project, project)

    def door_of(context: Context) -> Door:
        http: Request | None = context.request_context.request
        return http.scope["door"] if http else by_stdin

    async def told(question: str, options: dict[str, Any], context: Context) -> Answer:
        """Raises ToolError, which the assistant reads."""
        door = door_of(context)
        find = partial(door.project.query, question, door.asker, **options)
        claim = door.claim(door.project.may_ask_chat(options))
        work = queries.run(lambda: audit.answered(door, question, find), claim)
        try:
            return await unless_gone(work, _hung_up(context))
        except HungUpError:
            raise ToolError("the connection was closed before the answer") from None
        except Exception as error:
            raise ToolError(failure_of(error, door.asker.all_told).message) from error

    usual = min(TOOL_TOKENS, project.settings.query.max_total_tokens)
    about = f"Questions over the documents of workspace '{project.settings.workspace}'."
    server = Tools(
        "graphmill",
        "graphmill",
        about,
        INSTRUCTIONS,
        version=version("graphmill"),
        log_level="WARNING",
    )

    @with_parameters(OF_QUERY_DATA)
    async def query_data(context: Context, query: str, **options: Any) -> CallToolResult:
        if options["max_total_tokens"] is None:
            most = door_of(context).asker.max_prompt_tokens or usual
            options["max_total_tokens"] = min(usual, most)
        options["only_need_context"] = True
        options["max_calls"] = ONE_WINDOW
        found = await told(query, options, context)
        structured = {"references": _places(found.references)} | {
            name: value
            for name, value in found.to_json(evidence=False).items()
            if name in OF_EVIDENCE
        }
        return _result(NO_EVIDENCE.get(found.abstention, found.text), structured)

    @with_parameters(OF_QUERY)
    async def query(context: Context, query: str, **options: Any) -> CallToolResult:
        found = await told(query, options, context)
        sources = [f"[{reference.id}] {_named(reference)}" for reference in found.cited]
        sources += [
            f"Report {report['number']}: {_on_one_line(report['title'])}"
            for report in found.cited_reports
        ]
        structured = {"references": _places(found.cited)} | {
            name: value
            for name, value in found.to_json(evidence=False).items()
            if name in OF_AN_ANSWER
        }
        return _result("\n".join([found.text, "", *sources]).strip(), structured)

    add_tool = partial(server.add_tool, annotations=READS, structured_output=False)
    add_tool(query_data, title="Find evidence in the documents", description=ABOUT_QUERY_DATA)
    chat = project.settings.models.chat.get(DEFAULT)
    if chat is not None and chat.configured:
        add_tool(query, title="Ask the documents", description=ABOUT_QUERY)
    return server


async def _hung_up(context: Context) -> None:
    """Return when who asks over HTTP has closed the connection. Over stdin the SDK cancels the call
    itself."""
    http: Request | None = context.request_context.request
    if http is None:
        await asyncio.Event().wait()
    else:
        await http.scope["hung_up"].wait()


@dataclass(frozen=True)
class HangUps:
    """An ASGI application around another, to which ``scope["hung_up"]``, an event, says that the
    client has gone.

    The SDK answers a request from another task than the one that reads it, and does not look for
    the client meanwhile.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hung_up = asyncio.Event()
        watching: asyncio.Task[None] | None = None

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            hung_up.set()

        async def received() -> Message:
            nonlocal watching
            if watching is not None:
                await hung_up.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if scope["type"] == "http" and not message.get("more_body", False):
                watching = asyncio.create_task(watch())
            return message

        try:
            await self.app({**scope, "hung_up": hung_up}, received, send)
        finally:
            if watching is not None:
                watching.cancel()


def _places(references: Sequence[Reference]) -> list[dict[str, Any]]:
    """Which passage each is, without what else its document says of itself."""
    shown = [reference_json(entry, with_content=False) for entry in references]
    return [{name: value for name, value in entry.items() if name != "metadata"} for entry in shown]


def _named(reference: Reference) -> str:
    return f"{_on_one_line(reference.title)} ({_on_one_line(reference.source)})"


def _on_one_line(text: str) -> str:
    """Without line breaks and citations of its own: a title must not look like another entry of the
    list."""
    return inert(" ".join(text.split()))


def _result(text: str, structured: dict[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured
    )


STDIN = 0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - for the SDK's own check of hosts, which Guard does here


def serve_stdio(project: Project) -> int:
    """Until stdin ends, or a signal; the exit code: 0, 130 after Ctrl-C."""
    make_ready(project)
    code, end_stdin = 0, _stdin_that_can_be_ended()

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal code
        code = INTERRUPTED if number == signal.SIGINT else 0
        end_stdin()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    queries = Queries(project.settings.serve)
    try:
        asyncio.run(mcp_of(project, queries).run_stdio_async())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _stdin_that_can_be_ended() -> Callable[[], None]:
    """What reads stdin cannot be interrupted: it gets a pipe in its place, which the returned
    function ends."""
    source = os.dup(STDIN)
    readable, writable = os.pipe()
    os.dup2(readable, STDIN)
    os.close(readable)

    def end() -> None:
        with suppress(OSError):  # it has ended already
            os.close(writable)

    def copy() -> None:
        with suppress(OSError):
            while data := os.read(source, 65_536):
                os.write(writable, data)
        end()

    threading.Thread(target=copy, daemon=True, name="stdin").start()
    return end


def serve_http(
    project: Project,
    host: str | None = None,
    port: int | None = None,
    no_key: bool = False,
    workers: int = 1,
) -> int:
    """At /mcp, with the key and the limits of ``serve``; raises and returns as that does."""
    return serve_as(
        http_api, project, "tools for assistants, /mcp, of ", host, port, no_key, workers
    )


def http_api(project: Project, any_host: bool) -> Api:
    queries = Queries(project.settings.serve)
    return Api(http_app(project, queries, any_host), queries)


def http_app(project: Project, queries: Queries, any_host: bool) -> ASGIApp:
    """``any_host``: see Guard. No session is kept, so that any worker answers any request."""
    settings = project.settings.serve
    app = mcp_of(project, queries).streamable_http_app(
        stateless_http=True, json_response=True, host=EVERYWHERE
    )
    guarded = Guard(
        HangUps(app), doors_of(project), 1024 * settings.max_body_kb, settings.request_timeout,
        any_host=any_host,
        origins=settings.cors_origins, users=settings.users,
    )  # fmt: skip
    return RequestLog(with_peer(guarded, settings))
