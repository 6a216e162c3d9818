"""Read the rows that a query of a database gives. Each becomes a document elsewhere.

The query is the owner's own, and nothing is ever written: each connection ends without a commit. An
address may hold a password, so no message quotes one.
"""

import os
import re
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
_KEYS_PER_QUERY = 500
"""The largest number of keys in one query. Some databases refuse a list of more than 999."""
_SHARE_TO_READ_ALL = 0.25
"""If at least this share of the rows is wanted, one query reads all rows. Each query for some keys
makes the database work out the rows of the whole query, unless an index helps."""
_SQLITE = "sqlite"
_LONGEST_MESSAGE = 200
_LEAST_SECRET = 4
"""The least number of characters of an option's value that is hidden wherever it occurs. A shorter
one, such as a number of seconds, also occurs within other words, where it tells nothing."""
_FORM = "write a SQLAlchemy URL, such as postgresql+psycopg://user@host/database"


class RowsError(Exception):
    """An error for rows that could not be read, in words that hold no secret."""


@dataclass(frozen=True)
class Row:
    """A row of the query.

    ``key``: its key as a text, "" if it has none. ``content_hash``: changes when the row changes.
    ``cells``: its cells, or its key alone where they are to be read later.
    """

    key: str
    content_hash: str
    cells: Mapping[str, Any]


@dataclass(frozen=True)
class RowList:
    """All rows of a query, sorted by key and hash, and the columns that it gives."""

    rows: Sequence[Row]
    columns: Collection[str]


def list_rows(source: Input, before: Collection[str] = ()) -> RowList:
    """Return the rows of the query.

    ``before``: the columns in ``metadata`` that the query gave in the last run. Raises RowsError if
    the rows could not be read to the end, or a column is gone.
    """
    with _connection(source) as connection:
        if source.changed:
            columns = _read_column_names(connection, source, before)
            kept_columns = _select_kept(source, columns)
            rows = _list_rows_by_stamp(connection, source, kept_columns)
        else:
            found = _execute_query(connection, source, before)
            columns = list(found.keys())
            rows = [
                Row(
                    _as_key(raw_row[source.id]),
                    _hash_row(source, raw_row),
                    _clean_cells(source, raw_row),
                )
                for raw_row in found.mappings()
            ]
    return RowList(sorted(rows, key=lambda row: (row.key, row.content_hash)), columns)


def lacking(source: Input, columns: Collection[str]) -> list[str]:
    """Return the columns in ``metadata`` that are not among those that the query gives."""
    return [name for name in source.metadata if name not in columns]


def count_rows(source: Input) -> tuple[int, list[str]]:
    """Return the number of rows of the query, which are not read, and the columns that it gives.

    Raises RowsError if the query cannot be carried out, or lacks a column that it must have.
    """
    from sqlalchemy import func, select

    with _connection(source) as connection:
        columns = _read_column_names(connection, source, ())
        rows = _statement(source, ["*"]).subquery()
        number = connection.execute(select(func.count()).select_from(rows)).scalar_one()
        return number, columns


def _list_rows_by_stamp(connection: Any, source: Input, columns: Sequence[str]) -> list[Row]:
    """Return rows with their key alone. Their hash is that of the stamp: the cell of ``changed``.

    Of a row without a stamp all cells are read, since nothing else tells of a change.
    ``columns``: those that a document is made of.
    """
    stamps = _read(connection, _statement(source, [source.id, source.changed]))
    by_stamp: list[Mapping[str, Any]] = []
    keys_without_stamp: dict[str, Any] = {}
    for raw_row in stamps:
        key = raw_row[source.id]
        # A row without a key cannot be read again. It becomes a reject.
        if raw_row[source.changed] is not None or key is None:
            by_stamp.append(raw_row)
        else:
            # Rows with one key are read together: that key is asked for once. Keys may be values
            # that cannot be hashed, so their texts stand for them.
            keys_without_stamp[repr(key)] = key
    keys = list(keys_without_stamp.values())
    whole_rows = _read_rows_with_keys(connection, source, keys, len(stamps), columns)
    # Another row with the same key may have a stamp.
    without_stamp = [raw_row for raw_row in whole_rows if raw_row[source.changed] is None]
    return [
        Row(
            _as_key(raw_row[source.id]),
            _hash_row(source, raw_row, columns),
            {source.id: raw_row[source.id]},
        )
        for raw_row in [*by_stamp, *without_stamp]
    ]


def _read_column_names(connection: Any, source: Input, before: Collection[str]) -> list[str]:
    """Return the columns that the query gives, without reading a row.

    ``before`` is as for ``list_rows``. Raises RowsError if the query lacks a column. SQLite
    would take the name of a column that is not there for a text, and give this text as the cell of
    every row.
    """
    from sqlalchemy import false

    given = connection.execute(_statement(source, ["*"]).where(false()))
    columns = list(given.keys())
    _refuse_missing_columns(source, columns, before)
    return columns


def rows_of_keys(
    source: Input, keys: Sequence[Any], number_of_rows: int, listed: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the cells of the rows with these keys, by the key as a text.

    If several rows have one key, that is the row which `list_rows` sorts first.
    ``number_of_rows``: that of all rows. ``listed``: the columns in ``metadata`` that the query
    gave when the rows were listed. Raises RowsError.
    """
    with _connection(source) as connection:
        found = _read_rows_with_keys(connection, source, keys, number_of_rows, listed)
    # The last row of a key stays in the dict, so the first one comes last.
    found.sort(key=partial(_make_sort_key, source), reverse=True)
    return {_as_key(raw_row[source.id]): _clean_cells(source, raw_row) for raw_row in found}


def _read_rows_with_keys(
    connection: Any,
    source: Input,
    keys: Sequence[Any],
    number_of_rows: int,
    before: Collection[str],
) -> list[dict[str, Any]]:
    """Return all cells of the rows with these keys, of ``number_of_rows`` in all.

    Raises RowsError as ``_execute_query``.
    """
    from sqlalchemy import column

    # A single query for some keys is never worse than one for all rows.
    needs_several_queries = len(keys) > _KEYS_PER_QUERY
    if needs_several_queries and len(keys) >= number_of_rows * _SHARE_TO_READ_ALL:
        wanted = {_as_key(key) for key in keys}
        rows = _read_whole_rows(connection, source, before)
        return [raw_row for raw_row in rows if _as_key(raw_row[source.id]) in wanted]
    found: list[dict[str, Any]] = []
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        some_keys = keys[start : start + _KEYS_PER_QUERY]
        has_key = column(source.id).in_(some_keys)
        found.extend(_read_whole_rows(connection, source, before, has_key))
    return found


def _read_whole_rows(
    connection: Any, source: Input, before: Collection[str], condition: Any = None
) -> Iterator[dict[str, Any]]:
    """Yield all cells of the rows, or of those that fulfil the condition.

    Raises RowsError as ``_execute_query``.
    """
    for row in _execute_query(connection, source, before, condition).mappings():
        yield dict(row)


def _execute_query(
    connection: Any, source: Input, before: Collection[str], condition: Any = None
) -> Any:
    """Return the result with all cells of the rows, or of those that fulfil the condition.

    ``before`` is as for ``list_rows``. Raises RowsError if the query lacks a column.
    """
    statement = _statement(source, ["*"])
    if condition is not None:
        statement = statement.where(condition)
    found = connection.execute(statement)
    _refuse_missing_columns(source, list(found.keys()), before)
    return found


def _make_sort_key(source: Input, raw_row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a value that sorts a row among those with its key, as `list_rows` sorts them."""
    content_hash = _hash_row(source, raw_row, _select_kept(source, raw_row))
    return content_hash, as_json(_clean_cells(source, raw_row))


def _clean_cells(source: Input, raw_row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that a document is made of, as values of JSON."""
    return {
        name: cleaned(value)
        for name, value in raw_row.items()
        if value is not None and _is_kept(source, name)
    }


def _select_kept(source: Input, names: Iterable[str]) -> list[str]:
    """Return those of the columns that a document is made of, sorted."""
    return [name for name in sorted(names) if _is_kept(source, name)]


def _is_kept(source: Input, name: str) -> bool:
    """Return whether a document is made of this column, among others."""
    if not source.metadata:
        return True
    return name in {source.id, source.title, source.text, *source.metadata}


def _hash_row(source: Input, raw_row: Mapping[str, Any], columns: Sequence[str] = ()) -> str:
    """Return a hash of the row's cells, or of its stamp if it has one.

    The hash of a stamp includes the query and the columns. Either may change the document while the
    stamp stays. All rows without a key and a stamp have one hash: none becomes a document.
    """
    stamp = raw_row[source.changed] if source.changed else None
    if stamp is None and raw_row[source.id] is not None:
        return digest("row", as_json(_clean_cells(source, raw_row)))
    return digest("changed", source.query, as_json({"columns": list(columns)}), str(stamp))


def _as_key(value: object) -> str:
    """Return the key of a row as a text, "" for none."""
    return "" if value is None else str(value).strip()


def _refuse_missing_columns(
    source: Input, columns: Collection[str], before: Collection[str]
) -> None:
    """Raise RowsError if the columns of the query lack one that it must have.

    The default title need not be among the columns. A column in ``metadata`` must be there if it
    was ``before``: without it, the values of all documents would be gone.
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


def resolve_url(url: str, folder: Path) -> str:
    """Return the URL of a database. A relative path of SQLite is resolved below the folder."""
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


def _hide_secrets(message: str, url: Any) -> str:
    """Return the message without the password of the URL and without the values of its options."""
    secrets = [str(url.password or "")]
    for values in url.query.values():
        # An option that is given twice has a tuple.
        secrets += [values] if isinstance(values, str) else values
    # The longest comes first, since one may be a part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        is_password = secret == url.password
        pattern = re.escape(secret)
        if len(secret) < _LEAST_SECRET and not is_password:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(pattern, "***", message)
    return message


@contextmanager
def _connection(source: Input) -> Iterator[Any]:
    """Provide a connection. Raises RowsError for whatever the database or its driver raises."""
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    try:
        written = source.url.get_secret_value()
        url = make_url(written)
        engine = create_engine(url, poolclass=NullPool)
    except (ArgumentError, ValueError):
        raise RowsError(f"its url is not that of a database; {_FORM}") from None
    except ImportError:
        raise RowsError("the driver that its url names is not installed; install it") from None
    is_sqlite = url.drivername.startswith(_SQLITE)
    # The end of a password with an unquoted @ is taken for the host, which messages show. A name
    # of a user may have one: it stands before the first colon.
    user = written.partition("://")[2].partition(":")[0]
    if not is_sqlite and written.count("@") - user.count("@") > 1:
        raise RowsError("its url has an @ too many; write %40 for each but that before the host")
    is_file = is_sqlite and _is_file(url)
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
        message = _hide_secrets(in_words(getattr(error, "orig", None) or error), url)
        one_line = " ".join(message.split())
        raise RowsError(f"{one_line[:_LONGEST_MESSAGE]}; mend its url or query") from None
