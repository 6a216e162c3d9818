"""Documents over HTTP: add, replace, list and delete those that the project itself keeps."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pipeline.documents.owned import LONGEST_ID, OwnDocument, OwnFolder, refuse_twice
from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.runs.posted import own_folder, states_of
from pipeline.serve.access import Access
from pipeline.serve.failures import invalid, respond
from pipeline.serve.once import IdempotencyKey, once
from pipeline.serve.posted_bodies import (
    DocumentsAccepted,
    DocumentsSent,
    DocumentState,
    DocumentStates,
    TextSent,
)
from pipeline.serve.queries import Queries
from pipeline.serve.responses import answered, json_bytes
from pipeline.serve.ui.view import access_of, note_edit, writer
from pipeline.text.ids import digest

MEGABYTE = 2**20
ACCEPTED = 202
MOST_LISTED = 1000
MOST_READ = 4
"""Bodies that are read at a time, each of ``max_request_mb`` at most."""
MOST_NAMED = 20
"""Ids of documents that a line of the audit log names."""
JSON_TYPE, FORM_TYPE = "application/json", "multipart/form-data"
After = Annotated[str, Query(max_length=LONGEST_ID, description="The id after which to begin.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


@dataclass(frozen=True)
class Sent:
    """The body of a request: JSON, or the files of a form with their names."""

    json: bytes = b""
    files: Sequence[tuple[str, bytes]] = ()


def add_documents(
    app: FastAPI, queries: Queries, responses: dict[int | str, Any], keys: Sequence[Any]
) -> None:
    """Add the routes of documents; ``responses`` and ``keys`` are as for the routes of queries."""
    routes = APIRouter(
        tags=["documents"], dependencies=[*keys, Depends(writer)], responses=responses
    )

    _route_looks(routes, queries)
    readers = asyncio.Semaphore(MOST_READ)
    _route_additions(routes, queries, readers)
    _route_single_writes(routes, queries, readers)
    app.include_router(routes)


async def _within_turn(
    queries: Queries, http: Request, look: Callable[[Access], Response]
) -> Response:
    access = access_of(http)
    return await answered(http, queries.run(lambda: look(access), access.claim(chat=False)))


def _route_looks(routes: APIRouter, queries: Queries) -> None:
    @routes.get("/v1/documents", summary="List documents", response_model=DocumentStates)
    async def listed(http: Request, after: After = "", limit: Limit = 100) -> Response:
        """Return the documents that were added here, sorted by id, each with its state."""

        def look(access: Access) -> Response:
            folder = own_folder(access.served)
            kept = [one for one in folder.kept() if one.id > after]
            states = [one.to_json() for one in states_of(access.project, folder, kept[:limit])]
            more = kept[limit - 1].id if len(kept) > limit else None
            return _json({"documents": states, "next": more})

        return await _within_turn(queries, http, look)

    @routes.get("/v1/documents/{id}", summary="Look at a document", response_model=DocumentState)
    async def one(http: Request, id: str) -> Response:
        """Return the state of a document: waiting, in since, or left out and why."""

        def look(access: Access) -> Response:
            folder = own_folder(access.served)
            kept = folder.find(id)
            if kept is None:
                raise _no_such()
            return _json(states_of(access.project, folder, [kept])[0].to_json())

        return await _within_turn(queries, http, look)


def _route_additions(routes: APIRouter, queries: Queries, readers: asyncio.Semaphore) -> None:
    @routes.post(
        "/v1/documents",
        summary="Add documents",
        status_code=ACCEPTED,
        response_model=DocumentsAccepted,
        openapi_extra=_body_shown(DocumentsSent),
    )
    async def add(http: Request, idempotency_key: IdempotencyKey = "") -> Response:
        """Add texts or files, or replace those of the same id. The next run reads them; request it
        by `POST /v1/runs`."""
        sent = await _read(http, writer(http).project, readers)

        def look(access: Access) -> Response:
            folder = own_folder(access.served)
            try:
                documents = _documents_of(sent, folder, access.served)
            except ValidationError as error:
                return _refused(error, DocumentsSent)
            note_edit(http, f"add {_named(documents)}")

            def write() -> dict[str, Any]:
                _refuse_too_much(documents, folder, access.served)
                return {"documents": [_write(folder, one) for one in documents]}

            said = [f"{one.id} {len(one.content)} {digest(one.content.hex())}" for one in documents]
            return _accepted(once(access, "documents", idempotency_key, said, write))

        return await _within_turn(queries, http, look)


def _route_single_writes(routes: APIRouter, queries: Queries, readers: asyncio.Semaphore) -> None:
    @routes.put(
        "/v1/documents/{id}",
        summary="Write a document",
        status_code=ACCEPTED,
        response_model=DocumentsAccepted,
        openapi_extra=_body_shown(TextSent),
    )
    async def put(http: Request, id: str) -> Response:
        """Write the document of this id, whether there is one or not: a text, or one file."""
        sent = await _read(http, writer(http).project, readers)

        def look(access: Access) -> Response:
            folder = own_folder(access.served)
            try:
                document = _document_of(sent, id, folder)
            except ValidationError as error:
                return _refused(error, TextSent)
            note_edit(http, f"put {document.id}")
            _refuse_too_much([document], folder, access.served)
            return _accepted({"documents": [_write(folder, document)]})

        return await _within_turn(queries, http, look)

    @routes.delete(
        "/v1/documents/{id}",
        summary="Delete a document",
        status_code=ACCEPTED,
        response_model=DocumentsAccepted,
    )
    async def delete(http: Request, id: str) -> Response:
        """Delete a document. It is found until the next run; `graphmill purge` removes every
        trace."""

        def look(access: Access) -> Response:
            folder = own_folder(access.served)
            note_edit(http, f"delete {folder.id_of(id)}")
            if not folder.remove(id):
                raise _no_such()
            return _accepted({"documents": [{"id": folder.id_of(id), "changed": True}]})

        return await _within_turn(queries, http, look)


async def _read(http: Request, project: Project, readers: asyncio.Semaphore) -> Sent:
    """Return the body of a request. Raises HTTPException for a form that cannot be read, and for a
    client that has disconnected."""
    try:
        # A body is in memory whole until it is written.
        async with readers:
            return await _read_whole(http, project)
    except ClientDisconnect:
        raise HTTPException(400, "the client disconnected before the end of the body") from None


async def _read_whole(http: Request, project: Project) -> Sent:
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON_TYPE:
        return Sent(json=await http.body())
    if kind != FORM_TYPE:
        raise HTTPException(415, f"content-type: neither {JSON_TYPE} nor {FORM_TYPE}; send one")
    most = project.settings.serve.documents.max_documents
    async with http.form(max_files=most, max_fields=0) as form:
        files = []
        for _, given in form.multi_items():
            if isinstance(given, UploadFile):
                files.append((given.filename or "", await given.read()))
        return Sent(files=files)


def _documents_of(sent: Sent, folder: OwnFolder, project: Project) -> list[OwnDocument]:
    """Return the documents of a body, each with another id. Raises UsageError, and
    ValidationError for JSON of another form."""
    if sent.json:
        given = DocumentsSent.model_validate(_parsed(sent.json)).documents
        documents = [folder.text(one.text, one.id, one.title, one.metadata) for one in given]
    else:
        documents = [folder.file(name, content) for name, content in sent.files]
    most = project.settings.serve.documents.max_documents
    if not 1 <= len(documents) <= most:
        raise UsageError(
            f"documents: {len(documents)}; send 1 to {most} at a time"
            " (serve.documents.max_documents)"
        )
    refuse_twice(documents)
    return documents


def _document_of(sent: Sent, id: str, folder: OwnFolder) -> OwnDocument:
    """Return the one document of a body. Raises as ``_documents_of``."""
    if sent.json or not sent.files:
        text = TextSent.model_validate(_parsed(sent.json))
        return folder.text(text.text, id, text.title, text.metadata)
    if len(sent.files) > 1:
        raise UsageError("documents: several files for one id; send one")
    return folder.file(id, sent.files[0][1])


def _parsed(body: bytes) -> Any:
    """Return the value of a body in JSON. Raises UsageError if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("body: not JSON; send an object in UTF-8") from None


def _refuse_too_much(documents: Sequence[OwnDocument], folder: OwnFolder, project: Project) -> None:
    """Raise HTTPException if the folder would hold more than settings allow."""
    most = project.settings.serve.documents.max_total_mb
    most_files = project.settings.serve.documents.max_files
    sizes = {one.id: one.size for one in folder.kept()}
    sizes |= {one.id: len(one.content) for one in documents}
    if len(sizes) > most_files:
        raise HTTPException(
            413,
            f"documents: more than {most_files} together (serve.documents.max_files); delete some",
        )
    if sum(sizes.values()) > most * MEGABYTE:
        raise HTTPException(
            413,
            f"documents: more than {most} MB together (serve.documents.max_total_mb); delete some",
        )


def _write(folder: OwnFolder, document: OwnDocument) -> dict[str, Any]:
    return {"id": document.id, "changed": folder.write(document)}


def _named(documents: Sequence[OwnDocument]) -> str:
    """Return the ids of the first documents, and how many others there are."""
    named = ", ".join(one.id for one in documents[:MOST_NAMED])
    others = len(documents) - MOST_NAMED
    return f"{named} and {others} others" if others > 0 else named


def _no_such() -> HTTPException:
    return HTTPException(404, "there is no such document here; GET /v1/documents lists them")


def _refused(error: ValidationError, model: type[BaseModel]) -> Response:
    """Return the answer to JSON of another form, in the form of all errors."""
    faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
    return respond(invalid(faults, model.model_fields.keys()))


def _json(content: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json_bytes(content), status, media_type=JSON_TYPE)


def _accepted(content: Mapping[str, Any]) -> Response:
    return _json(content, ACCEPTED)


def _body_shown(model: type[BaseModel]) -> dict[str, Any]:
    """Return the body of a route for the OpenAPI document: JSON of the model, or files."""
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    form = {"type": "object", "properties": {"files": files}, "required": ["files"]}
    content = {JSON_TYPE: {"schema": _schema_of(model)}, FORM_TYPE: {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model as one piece, for it is not among the components."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inlined(definitions[value["$ref"].rpartition("/")[2]])
            return {name: inlined(entry) for name, entry in value.items()}
        return [inlined(entry) for entry in value] if isinstance(value, list) else value

    return inlined(schema)
