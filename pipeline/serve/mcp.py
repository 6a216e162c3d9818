"""Offer a project's queries as tools of the Model Context Protocol, over stdio or HTTP."""

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
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.query.answer import Answer
from pipeline.query.answer_json import reference_json, statements_json
from pipeline.query.context import Reference
from pipeline.query.marks import on_one_line
from pipeline.runs.services import DEFAULT
from pipeline.serve.access import Access, access_list_of, caller_of
from pipeline.serve.audit import audit_of
from pipeline.serve.failures import failure_of, invalid, refusal
from pipeline.serve.guard import Guard
from pipeline.serve.hang_ups import DelayAfterHangUps
from pipeline.serve.queries import Api, HungUpError, Queries, unless_gone
from pipeline.serve.request_log import RequestLog
from pipeline.serve.server import make_ready
from pipeline.serve.start import serve_as
from pipeline.serve.tool_parameters import OF_QUERY, OF_QUERY_DATA, with_parameters
from pipeline.serve.usage import Counted
from pipeline.serve.user_headers import with_peer
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
structured result says which passage [ref:n] is, by its document and offsets, and lists statements with their dates. No
model writes an answer.
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
MOST_CALLS = 2
"""The most model calls of `query_data`: one over a window of community reports, and one that is
counted for an answer. More reports are more than an assistant wants to read."""
MOST_STATEMENTS, LONGEST_DESCRIPTION = 20, 300
"""Most statements of a result, and most characters of the description of each. They come on top of
``max_total_tokens``, and are about 2,000 tokens at most."""
EVIDENCE_FIELDS = frozenset(
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
ANSWER_FIELDS = frozenset(
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
    """A server that refuses unknown and wrong arguments in the form of the HTTP API.

    The SDK itself would ignore unknown arguments, and show the values of wrong ones.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> Any:
        tool = self._tool_manager.get_tool(name)
        if tool is not None:
            given = tool.fn_metadata.pre_parse_json(arguments)
            refuse_wrong(tool.fn_metadata.arg_model, given)
        return await super().call_tool(name, arguments, context)


def refuse_wrong(known: type[BaseModel], arguments: Mapping[str, Any]) -> None:
    """Raise ToolError for arguments that a tool does not have, or that do not fit."""
    try:
        known.model_validate(arguments, extra="forbid")
    except ValidationError as error:
        faults = [
            {**fault, "loc": ("arguments", *fault["loc"])}
            for fault in error.errors(include_input=False)
        ]
        raise ToolError(invalid(faults, known.model_fields).message) from None


def mcp_of(project: Project, queries: Queries) -> MCPServer:
    """Return a server with the tool ``query_data``, and ``query`` if a chat model is configured."""
    audit = audit_of(project)
    by_stdin = Access(caller_of(STDIO, project.settings), project, project)

    def access_of(context: Context) -> Access:
        http: Request | None = context.request_context.request
        return http.scope["access"] if http else by_stdin

    async def ask(question: str, options: dict[str, Any], context: Context) -> Answer:
        """Return the answer to a question. Raises ToolError, which the assistant reads."""
        access = access_of(context)
        find = partial(access.project.query, question, access.caller, **options)
        claim = access.claim(access.project.may_ask_chat(options))
        work = queries.run(lambda: audit.answered(access, question, find), claim)
        try:
            return await unless_gone(work, _hung_up(context))
        except HungUpError:
            raise ToolError("the connection was closed before the answer") from None
        except Exception as error:
            raise ToolError(failure_of(error, access.caller.sees_internals).message) from error

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
            most = access_of(context).caller.max_prompt_tokens or usual
            options["max_total_tokens"] = min(usual, most)
        options["only_need_context"] = True
        options["max_calls"] = MOST_CALLS
        found = await ask(query, options, context)
        content = found.to_json(evidence=False)
        structured = {name: value for name, value in content.items() if name in EVIDENCE_FIELDS}
        statements = statements_json(found.context, MOST_STATEMENTS, LONGEST_DESCRIPTION)
        places = _places(found.references)
        structured = {"references": places, "statements": statements, **structured}
        return _result(NO_EVIDENCE.get(found.abstention, found.text), structured)

    @with_parameters(OF_QUERY)
    async def query(context: Context, query: str, **options: Any) -> CallToolResult:
        found = await ask(query, options, context)
        lines = [found.text, ""]
        for reference in found.cited:
            title, source = on_one_line(reference.title), on_one_line(reference.source)
            lines.append(f"[{reference.id}] {title} ({source})")
        lines += [
            f"Report {report['number']}: {on_one_line(report['title'])}"
            for report in found.cited_reports
        ]
        content = found.to_json(evidence=False)
        structured = {name: value for name, value in content.items() if name in ANSWER_FIELDS}
        structured = {"references": _places(found.cited), **structured}
        return _result("\n".join(lines).strip(), structured)

    add_tool = partial(server.add_tool, annotations=READS, structured_output=False)
    add_tool(query_data, title="Find evidence in the documents", description=ABOUT_QUERY_DATA)
    chat = project.settings.models.chat.get(DEFAULT)
    if chat is not None and chat.configured:
        add_tool(query, title="Ask the documents", description=ABOUT_QUERY)
    return server


async def _hung_up(context: Context) -> None:
    """Return when a client over HTTP has disconnected; over stdin, never.

    Over stdin the SDK itself cancels the call.
    """
    http: Request | None = context.request_context.request
    if http is None:
        await asyncio.Event().wait()
    else:
        await http.scope["hung_up"].wait()


@dataclass(frozen=True)
class HangUps:
    """An ASGI application around another that sets the event ``scope["hung_up"]`` when the client
    disconnects.

    The SDK answers a request in another task than the one that reads it, and does not notice a
    client that leaves meanwhile.
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


@dataclass(frozen=True)
class NoStandingStreams:
    """An ASGI application around another that refuses GET at /mcp.

    Without sessions of the protocol nothing can come over the stream that it asks for, and each
    would stay open until its client leaves.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/mcp":
            answer = refusal(405, texts()["failures"]["posts_only"], {"Allow": "POST"})
            return await answer(scope, receive, send)
        await self.app(scope, receive, send)


def _places(references: Sequence[Reference]) -> list[dict[str, Any]]:
    """Return the references as JSON, without the content and the metadata of their documents."""
    places = []
    for reference in references:
        place = reference_json(reference, with_content=False)
        place.pop("metadata", None)
        places.append(place)
    return places


def _result(text: str, structured: dict[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured
    )


STDIN = 0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - switches off the SDK's check of hosts, as Guard has its own


def serve_stdio(project: Project) -> int:
    """Serve over stdin and stdout until stdin ends, or a signal.

    Returns the exit code: 130 after Ctrl-C, else 0.
    """
    make_ready(project)
    code, end_stdin = 0, _replace_stdin()

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


def _replace_stdin() -> Callable[[], None]:
    """Put a pipe in place of stdin, and return a function that ends the pipe.

    A blocked read of stdin cannot be interrupted. So a thread copies stdin into a pipe, and closing
    the end of the pipe that is written to gives its reader an end of file.
    """
    source = os.dup(STDIN)
    readable, writable = os.pipe()
    os.dup2(readable, STDIN)
    os.close(readable)

    ending = threading.Lock()

    def end() -> None:
        # Closed once: its number may since be that of another file.
        if ending.acquire(blocking=False):
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
    """Serve the tools at /mcp, with the key and the limits of ``serve``.

    Raises the errors of ``serve`` and returns its exit codes.
    """
    return serve_as(
        http_api, project, "tools for assistants, /mcp, of ", host, port, no_key, workers
    )


def http_api(project: Project, any_host: bool) -> Api:
    queries = Queries(project.settings.serve)
    return Api(http_app(project, queries, any_host), queries)


def http_app(project: Project, queries: Queries, any_host: bool) -> ASGIApp:
    """Return the tools as an application; ``any_host`` is as for ``Guard``.

    It keeps no session of the protocol, so that any worker can answer any request.
    """
    settings = project.settings.serve
    app = mcp_of(project, queries).streamable_http_app(
        stateless_http=True, json_response=True, host=EVERYWHERE
    )
    delayed = DelayAfterHangUps(HangUps(NoStandingStreams(app)), queries.others_wait)
    guarded = Guard(
        Counted(delayed, queries.count_loop),
        access_list_of(project),
        1024 * settings.max_body_kb,
        settings.request_timeout,
        any_host=any_host,
        origins=settings.cors_origins,
        users=settings.users,
    )
    return RequestLog(with_peer(guarded, settings))
