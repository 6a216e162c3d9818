"""Read documents from the rows that a query of a database gives.

The query is the owner's own, and nothing is ever written: each connection ends without a commit. An
address may hold a password, so no message quotes one.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.documents.metadata import as_json, cleaned
from pipeline.errors import in_words
from pipeline.settings.inputs import Input
from pipeline.text.ids import digest

NO_COLUMN = "no_column"
"""The reason of a reject that is a mere remark on a column: the documents are there without it."""
_KEYS_A_QUERY = 500
_MOST_ROWS = 0.25
"""The share of all rows from which on one query reads all of them. Each query for some keys makes
the database work out the rows of the whole query, unless an index helps."""
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


@dataclass(frozen=True)
class RowList:
    """All rows of a query, sorted by key and content, and the columns that it gives."""

    rows: Sequence[Row]
    columns: Collection[str]


def list_rows(source: Input, before: Collection[str] = ()) -> RowList:
    """Return the rows of the query.

    ``before``: the columns in ``metadata`` that the query gave in the last run. Raises RowsError if
    the rows could not be read to the end, or a column is gone.
    """
    with _connection(source) as connection:
        if source.changed:
            columns = _columns_given(connection, source, before)
            rows = _stamped_rows(connection, source, _columns_kept(source, columns))
        else:
            found = _execute_whole(connection, source, before)
            columns = list(found.keys())
            rows = [
                Row(
                    _as_key(fields[source.id]),
                    _content_of(source, fields),
                    cells_of(source, fields),
                )
                for fields in found.mappings()
            ]
    return RowList(sorted(rows, key=lambda row: (row.key, row.content)), columns)


def lacking(source: Input, columns: Collection[str]) -> list[str]:
    """Return the columns in ``metadata`` that are not among those that the query gives."""
    return [name for name in source.metadata if name not in columns]


def count_rows(source: Input) -> tuple[int, list[str]]:
    """Return the number of rows of the query, which are not read, and the columns that it gives.

    Raises RowsError if the query cannot be carried out, or lacks a column that it must have.
    """
    from sqlalchemy import func, select

    with _connection(source) as connection:
        columns = _columns_given(connection, source, ())
        rows = _statement(source, ["*"]).subquery()
        number = connection.execute(select(func.count()).select_from(rows)).scalar_one()
        return number, columns


def _stamped_rows(connection: Any, source: Input, columns: Sequence[str]) -> list[Row]:
    """Return the rows with their keys alone, and the value that changes with the row.

    Of a row without such a value all cells are read, since nothing else tells of a change.
    ``columns``: those that a document is made of.
    """
    stamps = _read(connection, _statement(source, [source.id, source.changed]))
    unstamped = [
        fields[source.id]
        for fields in stamps
        if fields[source.changed] is None and fields[source.id] is not None
    ]
    whole = [
        fields
        for fields in _read_keys(connection, source, unstamped, columns)
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
            _content_of(source, fields, columns),
            {source.id: fields[source.id]},
        )
        for fields in [*others, *whole]
    ]


def _columns_given(connection: Any, source: Input, before: Collection[str]) -> list[str]:
    """Return the columns that the query gives, without reading a row.

    ``before`` is as for ``list_rows``. Raises RowsError if the query lacks a column. SQLite
    would take the name of a column that is not there for a text, and give this text as the cell of
    every row.
    """
    from sqlalchemy import false

    given = connection.execute(_statement(source, ["*"]).where(false()))
    return _checked(source, list(given.keys()), before)


def rows_of_keys(
    source: Input, keys: Sequence[Any], number_of_rows: int, listed: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the cells of the rows with these keys, by the key as a text.

    Of rows with one key it is the row that `list_rows` has first. ``number_of_rows``: that of all
    rows. ``listed``: the columns in ``metadata`` that the query gave when the rows were listed.
    Raises RowsError.
    """
    with _connection(source) as connection:
        if len(keys) > _KEYS_A_QUERY and len(keys) >= number_of_rows * _MOST_ROWS:
            wanted = {_as_key(key) for key in keys}
            rows = _read_whole(connection, source, listed)
            found = [fields for fields in rows if _as_key(fields[source.id]) in wanted]
        else:
            found = list(_read_keys(connection, source, keys, listed))
    # The last row of a key stays in the dict, so the first one comes last.
    found.sort(key=partial(_place_among_rows, source), reverse=True)
    return {_as_key(fields[source.id]): cells_of(source, fields) for fields in found}


def _read_keys(
    connection: Any, source: Input, keys: Sequence[Any], before: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows with these keys, of a few keys at a time."""
    from sqlalchemy import column

    for start in range(0, len(keys), _KEYS_A_QUERY):
        some = keys[start : start + _KEYS_A_QUERY]
        yield from _read_whole(connection, source, before, column(source.id).in_(some))


def _read_whole(
    connection: Any, source: Input, before: Collection[str], condition: Any = None
) -> Iterator[dict[str, Any]]:
    """Yield all cells of the rows, or of those that fulfil the condition.

    Raises RowsError as ``_execute_whole``.
    """
    for row in _execute_whole(connection, source, before, condition).mappings():
        yield dict(row)


def _execute_whole(
    connection: Any, source: Input, before: Collection[str], condition: Any = None
) -> Any:
    """Return the result with all cells of the rows, or of those that fulfil the condition.

    ``before`` is as for ``list_rows``. Raises RowsError if the query lacks a column.
    """
    statement = _statement(source, ["*"])
    if condition is not None:
        statement = statement.where(condition)
    found = connection.execute(statement)
    _checked(source, list(found.keys()), before)
    return found


def _place_among_rows(source: Input, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the place of a row among those with its key, as `list_rows` sorts them."""
    content = _content_of(source, fields, _columns_kept(source, fields))
    return content, as_json(cells_of(source, fields))


def cells_of(source: Input, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that a document is made of, as values of JSON."""
    return {
        name: cleaned(value)
        for name, value in fields.items()
        if value is not None and _is_kept(source, name)
    }


def _columns_kept(source: Input, names: Iterable[str]) -> list[str]:
    """Return those of the columns that a document is made of, sorted."""
    return [name for name in sorted(names) if _is_kept(source, name)]


def _is_kept(source: Input, name: str) -> bool:
    """Return whether a document is made of this column too."""
    if not source.metadata:
        return True
    return name in {source.id, source.title, source.text, *source.metadata}


def _content_of(source: Input, fields: Mapping[str, Any], columns: Sequence[str] = ()) -> str:
    """Return a hash that changes with a row: of its value that does so, or else of its cells.

    The query is part of the first, since another query may give other cells of the same row. So are
    the ``columns``, since a column may come or go while the query and the value stay.
    """
    stamp = fields[source.changed] if source.changed else None
    if stamp is None and fields[source.id] is not None:
        return digest("row", as_json(cells_of(source, fields)))
    return digest("changed", source.query, as_json({"columns": list(columns)}), str(stamp))


def _as_key(value: object) -> str:
    """Return the key of a row as a text, "" for none."""
    return "" if value is None else str(value).strip()


def _checked(source: Input, columns: list[str], before: Collection[str]) -> list[str]:
    """Return the columns of the query; raises RowsError if they lack one that it must have.

    Without a title of its own in the settings, a query need not give one. A column in ``metadata``
    must be there if it was ``before``: without it, the values of all documents would be gone.
    """
    needed = [source.id, source.text, *(name for name in source.metadata if name in before)]
    if source.title != Input.model_fields["title"].default:
        needed.append(source.title)
    if source.changed:
        needed.append(source.changed)
    for name in needed:
        if name not in columns:
            known = ", ".join(columns)
            raise RowsError(
                f"its query gives no column '{name}' but {known}; set id, title, text, metadata and"
                " changed to columns that it gives, or correct the query"
            )
    return columns


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


def _secrets_of(url: Any) -> list[str]:
    """Return what a message may not quote of a URL: its password and the values of its options.

    The longest comes first, since one may be a part of another.
    """
    found = [str(url.password or "")]
    for values in url.query.values():
        # An option that is given twice has a tuple.
        found += [values] if isinstance(values, str) else values
    return sorted(filter(None, found), key=len, reverse=True)


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
    # SQLite would make an empty database. Unlike a method of Path, this raises no error for a
    # folder that may not be read, or a share that is away.
    if is_file and not os.path.isfile(str(url.database)):
        raise RowsError("the file that its url names is not there; correct its url")
    try:
        with engine.connect() as connection:
            yield connection
    except RowsError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise errors of their own
        said = in_words(getattr(error, "orig", None) or error)
        for secret in _secrets_of(url):
            said = said.replace(secret, "***")
        raise RowsError(f"{' '.join(said.split())[:_MOST_SAID]}; mend its url or query") from None
