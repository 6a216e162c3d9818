"""Translates errors of PostgreSQL's driver into errors of this package."""

import psycopg
from sqlalchemy.exc import DBAPIError

from pipeline.errors import (
    GraphmillError,
    LostConnectionError,
    StoreAuthError,
    StoreError,
    UsageError,
)

CONNECTION, SERVER_GOES = "08", "57P"
"""The first characters of the codes of errors that end a connection (PostgreSQL's documentation,
appendix "Error Codes")."""
EMBEDDED = " (the embedded one starts with any command; repeat this one, or run 'graphmill doctor')"
INVALID_PATTERN = "2201B"
"""The code of a regular expression that PostgreSQL refuses: only a pattern of a request becomes
one."""
UNDONE = frozenset({"40001", "40P01"})
"""The codes of a serialization failure and a deadlock: nothing was done, and another try may
succeed."""
REFUSALS = (
    "password authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "invalid sslmode",
    "invalid connection option",
    "SSL was required",
)
"""Texts of errors in the address of the server, for which the driver gives no code."""
LACKING = "run 'graphmill load': it gives what an earlier version has made what it lacks"
ACTIONS = {
    "42703": LACKING,
    "42P01": LACKING,
    "57014": "was it statement_timeout, make it 0 or longer for this role",
    "55P03": "was it lock_timeout, make it 0 or longer for this role",
    "25P03": "make idle_in_transaction_session_timeout 0 or longer for this role",
    "25P04": "make transaction_timeout 0 or longer for this role",
    "53100": "make room on the server's disk",
    "53200": "give the server more memory, or lower stores.postgres.hnsw.build_mb",
    "42501": "give this role the right (docs/stores-postgresql.md, Roles and rights)",
}


def store_error(error: DBAPIError | psycopg.Error, address: str, was_there: bool) -> GraphmillError:
    """Return the error of ours that an error of the driver means.

    It is a LostConnectionError if another try may help, and a UsageError for a pattern that the
    server refuses. ``address`` names the setting and the server, without a password; ``was_there``
    says whether the server has answered before.
    """
    fact, code = first_line(error), _code(error)
    if code == INVALID_PATTERN:
        return UsageError(
            f"where: a pattern of 'matches' cannot be used ({fact}); write a simpler one"
        )
    if code in UNDONE:
        return LostConnectionError(f"{address} could not now ({fact}); try again")
    if not _ends_the_connection(error, code):
        return StoreError(f"{address}: {fact}; {ACTIONS.get(code, 'see the log of the server')}")
    if any(refusal in str(error) for refusal in REFUSALS):
        return StoreAuthError(
            f"{address} is refused ({fact}); correct user, password, database or options in it"
        )
    if was_there:
        return LostConnectionError(f"{address} went away ({fact}); start it again{EMBEDDED}")
    return StoreError(
        f"{address} does not answer ({fact}); start it{EMBEDDED}, or set url: embedded"
    )


def first_line(error: DBAPIError | psycopg.Error) -> str:
    """Return the first line of the driver's message."""
    return str(getattr(error, "orig", error)).strip().split("\n")[0]


def _code(error: DBAPIError | psycopg.Error) -> str:
    """Return the SQLSTATE, or "" if the error does not come from the server."""
    return getattr(getattr(error, "orig", error), "sqlstate", None) or ""


def _ends_the_connection(error: DBAPIError | psycopg.Error, code: str) -> bool:
    """Return whether the connection is lost after this error.

    An operational error without a code comes from the driver: it has no connection, or lost it.
    """
    if code:
        return code.startswith((CONNECTION, SERVER_GOES))
    return isinstance(
        getattr(error, "orig", error), psycopg.OperationalError | psycopg.InterfaceError
    )
