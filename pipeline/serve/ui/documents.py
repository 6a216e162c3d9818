"""The view Documents: a list, and one of them with its text units, what is said there and what was
left out."""

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
from pipeline.query.reading import (
    DOCUMENTS,
    UNITS,
    DocumentRead,
    list_documents,
    metadata_shown,
    read_document,
    search_passages,
)
from pipeline.query.request import read_conditions, read_where
from pipeline.serve.doors import Door
from pipeline.serve.ui.nights import tells_why
from pipeline.serve.ui.view import CLEANED, Ui
from pipeline.stores.reads import Listing

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500), CLEANED]
Lines = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000), CLEANED]
Page = Annotated[int, Query(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class LeftOut:
    """``why``: what the reason means, or, to those who may be told, what the run said."""

    step: str
    reason: str
    why: str


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/documents")
    async def documents(
        http: Request, q: Text = "", within: Annotated[Literal["names", "texts"],
            Query(alias="in")] = "names",
        where: Lines = "", page: Page = 1,
    ) -> Response:  # fmt: skip
        """``where``: a condition a line."""
        asked = {"q": q, "within": within, "where": where, "page": page}
        return await ui.page(
            http, "documents.html.j2", lambda door: {**asked, **_listed(door, **asked)}
        )

    @routes.get("/documents/{id}")
    async def document(http: Request, id: Text, page: Page = 1, at: Text = "") -> Response:
        """``at``: a text unit; the page that has it is shown."""
        return await ui.page(
            http, "document.html.j2", lambda door: _opened(door, id, UNITS * (page - 1), at)
        )

    return routes


def _listed(door: Door, q: str, within: str, where: str, page: int) -> dict[str, Any]:
    conditions = _conditions(where)
    if within == "texts" and q:
        return {
            "passages": door.project.read(partial(search_passages, q, conditions), door.asker),
            "metadata": None,
        }
    first = DOCUMENTS * (page - 1)
    listing = Listing(q, first=first, limit=DOCUMENTS)
    try:
        found, all = door.project.read(partial(list_documents, listing, conditions), door.asker)
    except NothingLoadedError:  # the frame says so, and what to run
        found, all = [], 0
    return {
        "passages": None, "found": found, "all": all, "metadata": metadata_shown,
        "first": first + 1, "last": first + len(found),
        "before": page - 1 or None, "after": page + 1 if first + len(found) < all else None,
    }  # fmt: skip


def _conditions(lines: str) -> Conditions:
    try:
        return read_where(
            read_conditions([line.strip() for line in lines.splitlines() if line.strip()])
        )
    except ValueError as error:
        raise UsageError(f"documents: {error}") from None


def _opened(door: Door, id: str, first: int, at: str) -> dict[str, Any]:
    read = door.project.read(partial(read_document, id, first, at), door.asker)
    if read is None:
        raise HTTPException(404, texts()["documents"]["no_such"])
    page, all = read.first // UNITS + 1, read.document.text_units
    return {
        "read": read, "at": at, "fields": metadata_shown(read.document.metadata),
        "left_out": _left_out(door, read),
        "draws": not door.asker.where, "last": read.first + len(read.units),
        "before": page - 1 or None,
        "after": page + 1 if read.first + len(read.units) < all else None,
    }  # fmt: skip


def _left_out(door: Door, read: DocumentRead) -> Mapping[str, Sequence[LeftOut]] | None:
    """Document or text unit -> what the last run left out of it; None where that is not known.

    A run tells of files, which may hold hidden documents too: it is not known to who sees some
    documents only.
    """
    if not door.at_home or door.asker.where:
        return None
    document = read.document
    of = {document.source: document.id, document.id: document.id} | {
        unit.unit.id: unit.unit.id for unit in read.units
    }
    try:
        rejects = door.project.left_out_of(of.keys())
    except GraphmillError:
        return None
    found: dict[str, list[LeftOut]] = {}
    for row in rejects.to_dict("records"):
        reason = str(row["reason"])
        why = (
            row["message"]
            if tells_why(door)
            else REASONS[reason].meaning
            if reason in REASONS
            else ""
        )
        found.setdefault(of[row["row_id"]], []).append(LeftOut(row["step"], reason, why))
    return found
