"""Read documents from the rows that a query of a database gives.

The query is the owner's own, and nothing is ever written: each connection ends without a commit. An
address may hold a password, so no message quotes one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.documents.metadata import as_json, cleaned
from pipeline.errors import in_words
from pipeline.settings.inputs import Input
from pipeline.text.ids import digest

_KEYS_A_QUERY = 500
_SQLITE = "sqlite"
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
    """Return all rows of the query, sorted by key and content.

    Raises RowsError if they could not be read to the end.
    """
    with _connection(source) as connection:
        if source.changed:
            rows = _stamped_rows(connection, source)
        else:
            found = _checked(source, _read(connection, _statement(source, ["*"])))
            rows = [
                Row(
                    _as_key(fields[source.id]),
                    _content_of(source, fields),
                    cells_of(source, fields),
                )
                for fields in found
            ]
    return sorted(rows, key=lambda row: (row.key, row.content))


def count_rows(source: Input) -> int:
    """Return the number of rows of the query, which are not read.

    Raises RowsError if the query cannot be carried out, or lacks a column that the settings name.
    """
    from sqlalchemy import func, select

    with _connection(source) as connection:
        _checked(source, _read(connection, _statement(source, ["*"]).limit(1)))
        if source.changed:
            connection.execute(_statement(source, [source.changed]).limit(1))
        rows = _statement(source, ["*"]).subquery()
        return connection.execute(select(func.count()).select_from(rows)).scalar_one()


def _stamped_rows(connection: Any, source: Input) -> list[Row]:
    """Return the rows with their keys alone, and the value that changes with the row.

    Of a row without such a value all cells are read, since nothing else tells of a change.
    """
    stamps = _read(connection, _statement(source, [source.id, source.changed]))
    unstamped = [
        fields[source.id]
        for fields in stamps
        if fields[source.changed] is None and fields[source.id] is not None
    ]
    whole = [
        fields
        for fields in _read_keys(connection, source, unstamped)
        if fields[source.changed] is None
    ]
    others = [
        fields
        for fields in stamps
        if fields[source.changed] is not None or fields[source.id] is None
    ]
    return [
        Row(
            _as_key(fields[source.id]),
            _content_of(source, fields),
            {source.id: fields[source.id]},
        )
        for fields in [*others, *whole]
    ]


def rows_of_keys(source: Input, keys: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return the cells of the rows with these keys, by the key as a text.

    Of rows with one key it is the row that `list_rows` has first. Raises RowsError.
    """
    with _connection(source) as connection:
        found = _read_keys(connection, source, keys)
    # The last row of a key stays in the dict, so the first one comes last.
    found.sort(key=partial(_place_among_rows, source), reverse=True)
    return {_as_key(fields[source.id]): cells_of(source, fields) for fields in found}


def _read_keys(connection: Any, source: Input, keys: Sequence[Any]) -> list[dict[str, Any]]:
    from sqlalchemy import column

    found: list[dict[str, Any]] = []
    for start in range(0, len(keys), _KEYS_A_QUERY):
        some = keys[start : start + _KEYS_A_QUERY]
        wanted = _statement(source, ["*"]).where(column(source.id).in_(some))
        found += _read(connection, wanted)
    return found


def _place_among_rows(source: Input, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the place of a row among those with its key."""
    return _content_of(source, fields), as_json(cells_of(source, fields))


def cells_of(source: Input, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that a document is made of, as values of JSON."""
    kept = {source.id, source.title, source.text, *source.metadata}
    return {
        name: cleaned(value)
        for name, value in fields.items()
        if value is not None and (name in kept or not source.metadata)
    }


def _content_of(source: Input, fields: Mapping[str, Any]) -> str:
    """Return a hash that changes with a row: of its value that does so, or else of its cells.

    The query is part of the first, since another query may give other cells of the same row.
    """
    stamp = fields[source.changed] if source.changed else None
    if stamp is None and fields[source.id] is not None:
        return digest("row", as_json(cells_of(source, fields)))
    return digest("changed", source.query, str(stamp))


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
    # A comment at the end of the query must not take the bracket with it.
    return select(*chosen).select_from(text(f"({query}\n) AS rows_of_input"))


def _read(connection: Any, statement: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(statement).mappings()]


def placed_url(url: str, folder: Path) -> str:
    """Return the URL of a database, a relative path of SQLite taken below the folder."""
    if not url.startswith(_SQLITE):
        return url
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        return url
    if not _is_file(found):
        return url
    placed = found.set(database=str(folder / str(found.database)))
    return placed.render_as_string(hide_password=False)


def _is_file(url: Any) -> bool:
    """Return whether a URL of SQLite names a file by its path."""
    database = url.database or ":memory:"
    return database != ":memory:" and not database.startswith("file:")


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
    is_file = url.drivername.startswith(_SQLITE) and _is_file(url)
    if is_file and not Path(str(url.database)).is_file():
        # SQLite would make an empty database.
        raise RowsError("the file that its url names is not there; correct its url")
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
