"""Read documents from the rows that a query of a database gives.

The query is the owner's own, and nothing is ever written: each connection ends without a commit. An
address may hold a password, so no message quotes one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline.documents.metadata import as_json, cleaned
from pipeline.errors import in_words
from pipeline.settings.inputs import Input
from pipeline.text.ids import digest

_KEYS_A_QUERY = 500
_MOST_SAID = 200
_FORM = "write a SQLAlchemy URL, such as postgresql+psycopg://user@host/database"


class RowsError(Exception):
    """An error for rows that could not be read, in words that hold no secret."""


@dataclass(frozen=True)
class Row:
    """A row: its ``key`` as a text, "" if it has none, and a hash that changes with the row.

    ``fields`` are its cells, or its key alone where they are to be read later.
    """

    key: str
    content: str
    fields: Mapping[str, Any]


def list_rows(source: Input) -> list[Row]:
    """Return all rows of the query. Raises RowsError if they could not be read to the end."""
    with _connection(source) as connection:
        if not source.changed:
            found = _read(connection, _statement(source, ["*"]))
            return [_row_of(source, fields) for fields in _checked(source, found)]
        stamps = _read(connection, _statement(source, [source.id, source.changed]))
    return [
        Row(
            _as_key(fields[source.id]),
            digest("changed", str(fields[source.changed])),
            {source.id: fields[source.id]},
        )
        for fields in stamps
    ]


def rows_of_keys(source: Input, keys: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the cells of the rows with these keys, by the key as a text. Raises RowsError."""
    from sqlalchemy import column

    found: list[dict[str, Any]] = []
    with _connection(source) as connection:
        for start in range(0, len(keys), _KEYS_A_QUERY):
            some = keys[start : start + _KEYS_A_QUERY]
            wanted = _statement(source, ["*"]).where(column(source.id).in_(some))
            found += _read(connection, wanted)
    return {_as_key(fields[source.id]): cells_of(source, fields) for fields in found}


def cells_of(source: Input, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that a document is made of, as values of JSON."""
    kept = {source.id, source.title, source.text, *source.metadata}
    return {
        name: cleaned(value)
        for name, value in fields.items()
        if value is not None and (name in kept or not source.metadata)
    }


def _row_of(source: Input, fields: Mapping[str, Any]) -> Row:
    cells = cells_of(source, fields)
    return Row(_as_key(fields[source.id]), digest("row", as_json(cells)), cells)


def _as_key(value: object) -> str:
    """Return the key of a row as a text, "" for none."""
    return "" if value is None else str(value).strip()


def _checked(source: Input, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; raises RowsError if they lack the column of ids or of texts."""
    for name in (source.id, source.text):
        if rows and name not in rows[0]:
            known = ", ".join(rows[0])
            raise RowsError(f"its query gives no column '{name}' but {known}; set id and text")
    return rows


def _statement(source: Input, columns: Sequence[str]) -> Any:
    """Return a select of columns ("*" for all) from the rows of the query."""
    from sqlalchemy import column, literal_column, select, text

    # A colon would begin the name of a parameter, and the query has none.
    query = source.query.strip().rstrip(";").replace(":", r"\:")
    chosen = [literal_column("*") if name == "*" else column(name) for name in columns]
    return select(*chosen).select_from(text(f"({query}) AS rows_of_input"))


def _read(connection: Any, statement: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(statement).mappings()]


@contextmanager
def _connection(source: Input) -> Iterator[Any]:
    """Provide a connection. Raises RowsError for whatever the database or its driver raises."""
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        url = make_url(source.url.get_secret_value())
        engine = create_engine(url, poolclass=NullPool)
    except (ArgumentError, ValueError):
        raise RowsError(f"its url is none of a database; {_FORM}") from None
    except ImportError:
        raise RowsError("the driver that its url names is not installed; install it") from None
    try:
        with engine.connect() as connection:
            yield connection
    except RowsError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
        said = in_words(getattr(error, "orig", None) or error)
        for secret in filter(None, (url.password, *url.query.values())):
            said = said.replace(str(secret), "***")
        raise RowsError(f"{' '.join(said.split())[:_MOST_SAID]}; mend its url or query") from None
