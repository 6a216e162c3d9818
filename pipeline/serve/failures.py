"""Errors as the API tells them: a status, a type that stays the same, a message; never a traceback
or a value."""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from pipeline.engine.usage.questions import seconds_left
from pipeline.errors import (
    AuthError,
    BudgetError,
    DiskFullError,
    GraphmillError,
    ModelError,
    NoSuchModelError,
    NotAllowedError,
    NothingLoadedError,
    OtherOwnerError,
    RequestEndedError,
    SettingsError,
    StoreError,
    UsageError,
)
from pipeline.pages.environment import texts
from pipeline.serve.queries import BusyError, ClosingError, OverdueError
from pipeline.settings.validation import did_you_mean

LOG = logging.getLogger("graphmill.serve")
RETRY = {"Retry-After": "5"}
LONGEST_NAME = 60
BY_KIND: tuple[tuple[type[Exception], int, str], ...] = (
    (AuthError, 502, "model_key_refused"),
    (ModelError, 502, "model_failed"),
    (NoSuchModelError, 502, "model_failed"),
    (SettingsError, 500, "settings"),
    (NotAllowedError, 403, "not_allowed"),
    (BudgetError, 429, "spent"),
    (NothingLoadedError, 503, "nothing_loaded"),
    (OtherOwnerError, 503, "other_owner"),
    (UsageError, 422, "invalid_request"),
    (StoreError, 503, "store_unavailable"),
    (DiskFullError, 507, "disk_full"),
    (GraphmillError, 500, "failed"),
)
OWN: dict[type[Exception], tuple[int, str]] = {
    BusyError: (503, "busy"),
    OverdueError: (504, "timeout"),
    RequestEndedError: (504, "timeout"),
    ClosingError: (503, "shutting_down"),
}
OF_THE_REQUEST = frozenset({"not_allowed", "spent", "nothing_loaded", "invalid_request"})
"""Types whose messages speak of what was asked for."""
BY_STATUS = {
    400: "invalid_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "slow_request",
    409: "conflict",
    413: "too_large",
    421: "wrong_host",
    429: "too_many_wrong_keys",
}


@dataclass(frozen=True)
class Failure:
    status: int
    type: str
    message: str
    fields: tuple[Mapping[str, str], ...] = ()

    @property
    def error(self) -> dict[str, Any]:
        return {"type": self.type, "message": self.message, "fields": list(self.fields)}

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 429:
            return {"Retry-After": str(seconds_left())}
        return RETRY if self.status == 503 else {}


def failure_of(error: Exception, all_told: bool) -> Failure:
    """What to tell of any exception. An unexpected one is written to the log, its text nowhere: it
    may hold data. ``all_told``: also of hosts and folders; others are told of what they ask for
    alone."""
    if type(error) in OWN:
        status, name = OWN[type(error)]
        return Failure(status, name, texts()["failures"][name])
    if isinstance(error, HTTPException):
        return refused(error.status_code, str(error.detail))
    for kind, status, name in BY_KIND:
        if isinstance(error, kind):
            if all_told or name in OF_THE_REQUEST:
                return Failure(status, name, str(error))
            LOG.error(
                "a question of a key of its own failed: %s; 'graphmill doctor' looks for the cause",
                name,
            )
            return Failure(status, name, texts()["failures"]["not_told"])
    where = "".join(traceback.format_tb(error.__traceback__))
    LOG.error("unexpected %s at\n%s", type(error).__name__, where.rstrip())
    return Failure(
        500, "internal", texts()["failures"]["internal"].format(kind=type(error).__name__)
    )


def invalid(faults: Sequence[Mapping[str, Any]], known: Collection[str]) -> Failure:
    """What pydantic found wrong with a request's body, whose fields are ``known``; the values are
    not told."""
    fields = tuple({"field": _place(fault), "message": _said(fault, known)} for fault in faults)
    told = "; ".join(entry["message"] if _is_unknown(fault) else f"{entry['field']}: {entry['message']}"  # noqa: E501
                     for entry, fault in zip(fields, faults, strict=True))  # fmt: skip
    return Failure(422, "invalid_request", told, fields)


def _place(fault: Mapping[str, Any]) -> str:
    place = fault["loc"][1:] if fault["type"] != "json_invalid" else ()
    return ".".join(str(part) for part in place)[:LONGEST_NAME] or "body"


def _said(fault: Mapping[str, Any], known: Collection[str]) -> str:
    if fault["type"] == "json_invalid":
        return texts()["failures"]["no_json"].format(place=fault["loc"][-1])
    if not _is_unknown(fault):
        return fault["msg"]
    meant = did_you_mean(_place(fault), known, "known fields")
    return texts()["failures"]["unknown_field"].format(field=_place(fault), meant=meant)


def _is_unknown(fault: Mapping[str, Any]) -> bool:
    return fault["type"] == "extra_forbidden"


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """What was not even looked at, in the form of all errors."""
    return respond(refused(status, message), headers)


def refused(status: int, message: str) -> Failure:
    return Failure(status, BY_STATUS.get(status, "failed"), message)


def respond(failure: Failure, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        {"error": failure.error}, failure.status, {**failure.headers, **(headers or {})}
    )
