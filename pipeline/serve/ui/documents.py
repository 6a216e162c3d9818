"""The view Documents: the list, and one document with its text units, their entities, and what was
left out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import StringConstraints
from starlette.exceptions import HTTPException

from pipeline.contract.conditions import Conditions
from pipeline.contract.reasons import REASONS
from pipeline.errors import GraphmillError, NothingLoadedError, UsageError
from pipeline.pages.environment import texts
from pipeline.query.condition_lines import read_conditions
from pipeline.query.reading import (
    DOCUMENTS,
    UNITS,
    DocumentRead,
    list_documents,
    metadata_shown,
    read_document,
    search_passages,
)
from pipeline.query.request import read_where
from pipeline.serve.access import Access
from pipeline.serve.ui.runs import tells_why
from pipeline.serve.ui.view import CLEANED, Ui
from pipeline.stores.reads import Listing

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500), CLEANED]
Lines = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000), CLEANED]
Page = Annotated[int, Query(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class LeftOut:
    """A row that was left out of a document or a text unit.

    ``why`` is the run's message for callers who may read it, else the meaning of the reason.
    """

    step: str
    reason: str
    why: str


def route_documents(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/documents")
    async def documents(
        http: Request, q: Text = "", within: Annotated[Literal["names", "texts"],
            Query(alias="in")] = "names",
        where: Lines = "", page: Page = 1,
    ) -> Response:  # fmt: skip
        """Show the list of documents; each line of ``where`` is a condition."""
        asked = {"q": q, "within": within, "where": where, "page": page}

        def look(access: Access) -> dict[str, Any]:
            return {**asked, **_list(access, **asked)}

        return await ui.page(http, "documents.html.j2", look)

    @routes.get("/documents/{id}")
    async def document(http: Request, id: Text, page: Page = 1, at: Text = "") -> Response:
        """Show a page of a document's text units: the one that has the unit ``at``, if given."""

        def look(access: Access) -> dict[str, Any]:
            return _show_document(access, id, UNITS * (page - 1), at)

        return await ui.page(http, "document.html.j2", look)

    return routes


def _list(access: Access, q: str, within: str, where: str, page: int) -> dict[str, Any]:
    """Return the values of the template for a list of documents, or of passages with a text."""
    conditions = _read_lines(where)
    if within == "texts" and q:
        passages = access.project.read(partial(search_passages, q, conditions), access.caller)
        return {"passages": passages, "metadata": None}
    first = DOCUMENTS * (page - 1)
    listing = Listing(q, first=first, limit=DOCUMENTS)
    try:
        found, all = access.project.read(
            partial(list_documents, listing, conditions), access.caller
        )
    except NothingLoadedError:
        # The frame of the page says so, and what to run.
        found, all = [], 0
    last = first + len(found)
    return {
        "passages": None,
        "found": found,
        "all": all,
        "metadata": metadata_shown,
        "first": first + 1,
        "last": last,
        "before": page - 1 or None,
        "after": page + 1 if last < all else None,
    }


def _read_lines(lines: str) -> Conditions:
    """Return the conditions of a text with one on each line. Raises UsageError."""
    stripped = [line.strip() for line in lines.splitlines()]
    try:
        return read_where(read_conditions([line for line in stripped if line]))
    except ValueError as error:
        raise UsageError(f"documents: {error}") from None


def _show_document(access: Access, id: str, first: int, at: str) -> dict[str, Any]:
    """Return the values of the template for a document, with its text units from ``first`` on.

    If ``at`` names a text unit, the page that has it is shown instead. Raises HTTPException if
    there is no such document.
    """
    read = access.project.read(partial(read_document, id, first, at), access.caller)
    if read is None:
        raise HTTPException(404, texts()["documents"]["no_such"])
    page = read.first // UNITS + 1
    last = read.first + len(read.units)
    return {
        "read": read,
        "at": at,
        "fields": metadata_shown(read.document.metadata),
        "left_out": _left_out(access, read),
        "draws": not access.caller.where,
        "last": last,
        "before": page - 1 or None,
        "after": page + 1 if last < read.document.text_units else None,
    }


def _left_out(access: Access, read: DocumentRead) -> Mapping[str, Sequence[LeftOut]] | None:
    """Map the ids of a document and its text units to what the last run left out of each.

    None if that is not known. A run's messages are about files, which may hold hidden documents
    too: they are not shown to a caller who sees some documents only.
    """
    if not access.at_home or access.caller.where:
        return None
    document = read.document
    # A row of the rejects names the document's source, or the id of the document or text unit.
    id_of = {document.source: document.id, document.id: document.id}
    id_of |= {unit.unit.id: unit.unit.id for unit in read.units}
    try:
        rejects = access.project.left_out_of(id_of.keys())
    except GraphmillError:
        return None
    found: dict[str, list[LeftOut]] = {}
    for row in rejects.to_dict("records"):
        reason = str(row["reason"])
        if tells_why(access):
            why = row["message"]
        else:
            why = REASONS[reason].meaning if reason in REASONS else ""
        found.setdefault(id_of[row["row_id"]], []).append(LeftOut(row["step"], reason, why))
    return found
