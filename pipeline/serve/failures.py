"""Answer errors with a status, a type that never changes, and a message; without tracebacks and
values."""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

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
from pipeline.serve.queries import BusyError, ClosingError, OverdueError, TooManyError
from pipeline.settings.validation import describe_fault, did_you_mean

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
    TooManyError: (429, "too_many_waiting"),
    OverdueError: (504, "timeout"),
    RequestEndedError: (504, "timeout"),
    ClosingError: (503, "shutting_down"),
}
OF_THE_REQUEST = frozenset({"not_allowed", "spent", "nothing_loaded", "invalid_request"})
"""Types whose messages are about the request alone, and reveal nothing of the server."""
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

OF_CHAT_CLIENTS = ("/v1/models", "/v1/chat/completions")
"""Addresses whose errors have the form that clients of OpenAI's protocol read."""
CHAT_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
"""Status -> type of an error in that form."""
WITHOUT_ACTION = {404: "no_path", 405: "no_method"}
"""Texts in place of a status's own phrase."""


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
    def chat_error(self) -> dict[str, Any]:
        """The error in the form of OpenAI's protocol."""
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "message": self.message,
            "type": CHAT_TYPES.get(self.status, usual),
            "param": self.fields[0]["field"] if self.fields else None,
            "code": self.type,
        }

    @property
    def headers(self) -> dict[str, str]:
        if self.type == "too_many_waiting":
            return RETRY
        if self.status == 429:
            return {"Retry-After": str(seconds_left())}
        return RETRY if self.status == 503 else {}


def failure_of(error: Exception, sees_internals: bool) -> Failure:
    """Return the failure that answers any exception.

    With ``sees_internals`` messages may name hosts and folders; other callers read messages about
    their request alone. An unexpected exception is logged by its place. Its text is written
    nowhere, because it may hold data.
    """
    if type(error) in OWN:
        status, name = OWN[type(error)]
        return Failure(status, name, texts()["failures"][name])
    if isinstance(error, HTTPException):
        return refused_by(error)
    for kind, status, name in BY_KIND:
        if isinstance(error, kind):
            if sees_internals or name in OF_THE_REQUEST:
                return Failure(status, name, str(error))
            LOG.error(
                "a question of a key of its own failed: %s; 'graphmill doctor' looks for the cause",
                name,
            )
            return Failure(status, name, texts()["failures"]["not_told"])
    kind = type(error).__name__
    where = "".join(traceback.format_tb(error.__traceback__))
    LOG.error("unexpected %s at\n%s", kind, where.rstrip())
    return Failure(500, "internal", texts()["failures"]["internal"].format(kind=kind))


def invalid(faults: Sequence[Mapping[str, Any]], known: Collection[str]) -> Failure:
    """Return the failure for a body in which pydantic found these faults.

    ``known`` are the fields that a body may have. The message does not show the values.
    """
    fields = []
    messages = []
    for fault in faults:
        place, message = _place(fault), _describe_fault(fault, known)
        fields.append({"field": place, "message": message})
        # The message about an unknown field names the field itself.
        messages.append(message if _is_unknown(fault) else f"{place}: {message}")
    return Failure(422, "invalid_request", "; ".join(messages), tuple(fields))


def _place(fault: Mapping[str, Any]) -> str:
    """Return the path of the faulty field in the body, or "body"."""
    place = fault["loc"][1:] if fault["type"] != "json_invalid" else ()
    return ".".join(str(part) for part in place)[:LONGEST_NAME] or "body"


def _describe_fault(fault: Mapping[str, Any], known: Collection[str]) -> str:
    if fault["type"] == "json_invalid":
        return texts()["failures"]["no_json"].format(place=fault["loc"][-1])
    if fault["type"] in ("model_type", "model_attributes_type") and _place(fault) == "body":
        # FastAPI reads a body without this header as a text.
        return texts()["failures"]["no_object"]
    if not _is_unknown(fault):
        return describe_fault(fault)
    meant = did_you_mean(_place(fault), known, "known fields")
    return texts()["failures"]["unknown_field"].format(field=_place(fault), meant=meant)


def _is_unknown(fault: Mapping[str, Any]) -> bool:
    return fault["type"] == "extra_forbidden"


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer to a request that is refused before it is read, in the form of all
    errors."""
    return respond(refused(status, message), headers)


def refused_by(error: HTTPException) -> Failure:
    """Return the failure for an exception of the web framework, which gives no next action of its
    own where there is no such address or method."""
    message = str(error.detail)
    if message == HTTPStatus(error.status_code).phrase and error.status_code in WITHOUT_ACTION:
        message = texts()["failures"][WITHOUT_ACTION[error.status_code]]
    return refused(error.status_code, message)


def refused(status: int, message: str) -> Failure:
    return Failure(status, BY_STATUS.get(status, "failed"), message)


class ErrorResponse(JSONResponse):
    """An error, in the form that clients of the requested address read."""

    def __init__(self, failure: Failure, headers: Mapping[str, str]):
        super().__init__({"error": failure.error}, failure.status, headers)
        self.failure = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The path may begin with /w/NAME, where the request is refused before it is looked at.
        if scope["path"].endswith(OF_CHAT_CLIENTS):
            self.body = self.render({"error": self.failure.chat_error})
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def respond(failure: Failure, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return ErrorResponse(failure, {**failure.headers, **(headers or {})})
