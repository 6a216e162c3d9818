"""The HTTP API of a project."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from pipeline.errors import GraphmillError, SettingsError, install_extra
from pipeline.project import Project
from pipeline.serve.access import Access, access_list_of
from pipeline.serve.audit import Audit, AuditedEdits, audit_of
from pipeline.serve.bodies import AnswerShown, Asked, Evidence, Failed, HealthShown, body_of
from pipeline.serve.chat.routes import add_chat
from pipeline.serve.failures import Failure, failure_of, invalid, refused_by, respond
from pipeline.serve.guard import Guard
from pipeline.serve.hang_ups import DelayAfterHangUps
from pipeline.serve.health import Health, health_json
from pipeline.serve.metrics import Counting, Counts, MetricsPage, WithMetrics, note_mode
from pipeline.serve.new_runs import Starter, add_runs
from pipeline.serve.posted import MEGABYTE, add_documents
from pipeline.serve.queries import Api, Queries
from pipeline.serve.request_log import RequestLog
from pipeline.serve.response_headers import BROWSER_HEADERS, WithHeaders
from pipeline.serve.responses import EventStream, answered, framed, json_bytes
from pipeline.serve.sessions import OneTimeToken, sessions_of
from pipeline.serve.tries import Tries
from pipeline.serve.turns import Claim
from pipeline.serve.ui.mount import OPEN_PATHS, mount
from pipeline.serve.usage import Counted
from pipeline.serve.user_headers import with_peer
from pipeline.settings.query_options import QuerySettings
from pipeline.settings.schema import OidcSettings, ServeSettings

if TYPE_CHECKING:
    from pipeline.serve.oidc import Provider

ABOUT = """
Questions over a project's loaded documents: an answer with its sources, the same as a stream, or what was found without
an answer. Every error is `{"error": {"type", "message", "fields"}}`; a message reads "where: fact; next action".
"""  # noqa: E501
STREAM_ABOUT = """
Server-sent events. `sources`: references to what was found, again if the prompt has to be made shorter; `token`:
`{"text", "annotations"}`, a piece of the answer and its citations, which no later event changes; `done`: all that
`POST /query` gives; `error`: `{"type", "message", "fields"}` where something fails after the first event. Comment lines
keep the connection open. Who hangs up ends the query.
"""  # noqa: E501
EXAMPLE_STREAM = (
    'event: sources\ndata: {"references": []}\n\nevent: token\ndata: {"text": "Idra Senn",'
    ' "annotations": []}\n\n'
)
Include = Annotated[
    Literal["evidence"] | None,
    Query(
        description=(
            "evidence: with all that the model was shown, as /query/data gives it; else references"
            " alone."
        )
    ),
]
KEYS = [
    Depends(HTTPBearer(auto_error=False)),
    Depends(APIKeyHeader(name="X-API-Key", auto_error=False)),
]
"""The ways to send a key, as the OpenAPI document shows them. Guard checks the key, before a
request is read."""
FAILURES: dict[int | str, dict[str, Any]] = {
    401: {"model": Failed, "description": "The key is missing or wrong."},
    403: {
        "model": Failed,
        "description": "Who asks may not ask for that (serve.allow, serve.keys).",
    },
    408: {"model": Failed, "description": "The body did not come (serve.request_timeout)."},
    413: {"model": Failed, "description": "The body is too large."},
    422: {"model": Failed, "description": "The request makes no sense; `fields` says where."},
    429: {
        "model": Failed,
        "description": (
            "What may be spent in a day is spent, too many of the key's queries wait, or too many"
            " keys were wrong."
        ),
    },
    502: {"model": Failed, "description": "The model failed, or refused the server's key."},
    503: {
        "model": Failed,
        "description": "A store is unavailable, nothing is loaded, or too many queries wait.",
    },
    504: {"model": Failed, "description": "The query took too long."},
}
STREAM = {
    200: {
        "description": "The events.",
        "content": {"text/event-stream": {"example": EXAMPLE_STREAM}},
    }
}


def api_of(
    project: Project,
    any_host: bool = False,
    token: OneTimeToken | None = None,
    counts: Counts | None = None,
) -> Api:
    """Return the HTTP API of a project.

    ``any_host`` is as for ``Guard``. With a ``token``, which signs in the person at this machine,
    nobody else has access without a key. ``counts`` are those of /metrics, if it is on.
    """
    limits = project.settings.serve
    if token is not None:
        # No proxy and no provider stands in front of the page for the person at this machine. If
        # this machine's address were a proxy's, every account could name itself as any user.
        alone = limits.users.model_copy(update={"proxies": (), "oidc": OidcSettings()})
        limits = limits.model_copy(update={"users": alone})
    queries, health, audit = Queries(limits), Health(project), audit_of(project)
    if counts is not None:
        # The journal has the calls of questions that fail or are broken off, too.
        project.question_journal.counted = counts.count_call
    starter = Starter(project)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # The person at this machine may change what others may not.
        if token is not None or not limits.read_only:
            starter.start()
        watching = asyncio.create_task(counts.watch(queries)) if counts else None
        yield
        if watching:
            watching.cancel()
        starter.stop()
        await queries.close()
        health.close()

    app = FastAPI(
        title="graphmill",
        version=version("graphmill"),
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_queries(app, project.settings.query, queries, audit)
    _add_health(app, project, queries, health)
    add_documents(app, queries, FAILURES, KEYS)
    add_runs(app, queries, starter, FAILURES, KEYS)
    add_chat(app, queries, audit, limits, FAILURES, KEYS)
    access_list, tries = access_list_of(project, for_person_here=token is not None), Tries()
    sessions = sessions_of(project, access_list, token) if limits.page else None
    ui = mount(app, queries, sessions, tries, _provider(limits), audit) if sessions else None
    _answer_errors(app, ui.failed if ui else answer_failure)
    delayed = DelayAfterHangUps(AuditedEdits(app, audit), queries.others_wait)
    counted = Counted(delayed, queries.count_loop)
    guarded: ASGIApp = Guard(
        counted, access_list, 1024 * limits.max_body_kb, limits.request_timeout,
        ("/health", *(OPEN_PATHS if ui else ())), any_host, sessions,
        limits.cors_origins, tries,
        limits.users,
        MEGABYTE * limits.documents.max_request_mb,
    )  # fmt: skip
    if limits.cors_origins:
        guarded = CORSMiddleware(
            guarded,
            limits.cors_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
    if counts is not None:
        guarded = Counting(guarded, counts)
        has_key = bool(limits.metrics_key.get_secret_value())
        if has_key and limits.metrics_port is None:
            guarded = WithMetrics(guarded, MetricsPage(project, counts), tries)
    return Api(WithHeaders(RequestLog(with_peer(guarded, limits)), BROWSER_HEADERS), queries)


def _provider(settings: ServeSettings) -> "Provider | None":
    """Return the OpenID Connect provider of the settings, if there is one.

    Raises SettingsError if its library is not installed.
    """
    if not settings.users.oidc.issuer:
        return None
    if not find_spec("authlib"):
        raise SettingsError(f"serve.users.oidc: authlib is not installed; {install_extra('oidc')}")
    from pipeline.serve.oidc import Provider

    return Provider(settings.users.oidc)


def _add_queries(app: FastAPI, defaults: QuerySettings, queries: Queries, audit: Audit) -> None:
    post = partial(app.post, responses=FAILURES, dependencies=KEYS, tags=["query"])
    stream = partial(app.post, responses={**FAILURES, **STREAM}, dependencies=KEYS, tags=["query"])
    body_type = body_of(defaults)

    async def query(body: Asked, http: Request, include: Include = None) -> Response:
        """Return the answer and its references."""
        access = _access_of(http)
        note_mode(http, access.project, body.options)

        def work() -> Response:
            find = partial(access.project.query, body.query, access.caller, **body.options)
            return _json(audit.answered(access, body.query, find).to_json(bool(include)))

        claim = access.claim(access.project.may_ask_chat(body.options))
        return await answered(http, queries.run(work, claim))

    async def query_data(body: Asked, http: Request) -> Response:
        """Return what `/query` would give the model: entities, relationships and passages. No model
        writes an answer."""
        access = _access_of(http)
        options = {**body.options, "only_need_context": True}
        note_mode(http, access.project, options)

        def work() -> Response:
            find = partial(access.project.query, body.query, access.caller, **options)
            return _json(audit.answered(access, body.query, find).data_json())

        claim = access.claim(access.project.may_ask_chat(options))
        return await answered(http, queries.run(work, claim))

    async def query_stream(body: Asked, http: Request, include: Include = None) -> Response:
        access = _access_of(http)
        note_mode(http, access.project, body.options)

        def frames() -> Iterator[bytes]:
            with audit.refusals(access, body.query):
                request = access.project.request(body.query, access.caller, **body.options)
            found = access.project.query_stream(body.query, access.caller, **body.options)
            # Closed at once, because the audit log's line is written when the events end.
            with closing(audit.streamed(access, body.query, found)) as events:
                yield from framed(events, request, bool(include))

        claim = access.claim(access.project.may_ask_chat(body.options))
        return await answered(http, _events(queries, frames, claim, access.caller.sees_internals))

    for endpoint in (query, query_data, query_stream):
        # FastAPI reads the body's type from here. It shows the defaults of this project.
        endpoint.__annotations__["body"] = body_type
    post("/query", summary="Answer a question", response_model=AnswerShown)(query)
    post("/query/data", summary="Find evidence", response_model=Evidence)(query_data)
    stream(
        "/query/stream",
        summary="Answer as a stream",
        description=STREAM_ABOUT,
        response_class=StreamingResponse,
    )(query_stream)


def _access_of(http: Request) -> Access:
    return http.scope["access"]


def _json(content: dict[str, Any]) -> Response:
    return Response(json_bytes(content), media_type="application/json")


async def _events(
    queries: Queries, frames: Callable[[], Iterator[bytes]], claim: Claim, sees_internals: bool
) -> Response:
    """Return the stream once its first event is ready, so that an earlier error has its status."""
    return EventStream(await queries.stream(frames, claim), sees_internals)


def _add_health(app: FastAPI, project: Project, queries: Queries, health: Health) -> None:
    unavailable: dict[int | str, dict[str, Any]] = {
        503: {"model": HealthShown, "description": "A store is unavailable, or nothing is loaded."}
    }

    @app.get(
        "/health", summary="Whether queries can be answered", responses=unavailable, tags=["health"]
    )
    async def look(request: Request) -> HealthShown:
        """Ask the stores whether they can answer now. This needs no key; problems are described
        only to callers with one."""
        state = await health.look()
        access: Access | None = request.scope["access"]
        body = health_json(state, project, access is not None and access.caller.sees_internals)
        body["queries"] = {"running": queries.running, "waiting": queries.waiting}
        return JSONResponse(body, 200 if state.well else 503)  # pyright: ignore[reportReturnType]


def answer_failure(
    request: Request, failure: Failure, headers: Mapping[str, str] | None = None
) -> Response:
    return respond(failure, headers)


def _fields_of_body(request: Request) -> Collection[str]:
    """Return the fields that the requested route takes in its body."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body else None
    return getattr(model, "model_fields", {}).keys()


def _answer_errors(app: FastAPI, tell: Callable[..., Response]) -> None:
    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        return tell(request, invalid(error.errors(), _fields_of_body(request)))

    @app.exception_handler(GraphmillError)
    async def _(request: Request, error: GraphmillError) -> Response:
        access: Access | None = request.scope["access"]
        return tell(request, failure_of(error, access is not None and access.caller.sees_internals))

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> Response:
        return tell(request, failure_of(error, sees_internals=False))

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        return tell(request, refused_by(error), error.headers)
