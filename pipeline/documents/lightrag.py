"""Read the working folder of LightRAG 1.5.7: documents, passages and the replies of its model."""

import hashlib
import html
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import DataError, SettingsError
from pipeline.files import write_text
from pipeline.text.ids import clean, clean_name, digest

Row = dict[str, Any]

VERSION = "1.5.7"
"""The version whose index the tests read."""
DOCUMENTS = "kv_store_full_docs.json"
STATUS = "kv_store_doc_status.json"
CHUNKS = "kv_store_text_chunks.json"
REPLIES = "kv_store_llm_response_cache.json"
GRAPH = "graph_chunk_entity_relation.graphml"
NEEDED = (DOCUMENTS, STATUS, CHUNKS, REPLIES)
GRAPH_ELSEWHERE = "the graph, which is in another store"
"""The entry for the graph among the files that are not read, if an index has none."""
LEFT_OUT = "left_out.json"
"""The names of the files that a copy does not have."""
READ = frozenset({*NEEDED, GRAPH, LEFT_OUT})
FIELDS_OF: Mapping[str, frozenset[str]] = {
    DOCUMENTS: frozenset({"content", "file_path", "parse_format"}),
    STATUS: frozenset({"status"}),
    CHUNKS: frozenset({"content", "full_doc_id", "chunk_order_index", "llm_cache_list"}),
    REPLIES: frozenset({"return", "cache_type"}),
}
"""The fields of each file that the import needs. Earlier versions lack some of them."""
OPTIONAL: Mapping[str, frozenset[str]] = {STATUS: frozenset({"chunks_list"})}
"""The fields of each file that an import reads where they are there."""
_TEXT = ("text", (str,))
KINDS: Mapping[str, Mapping[str, tuple[str, tuple[type, ...]]]] = {
    DOCUMENTS: {"content": _TEXT},
    CHUNKS: {
        "content": _TEXT,
        "full_doc_id": _TEXT,
        "llm_cache_list": ("list", (list, type(None))),
    },
}
"""The kinds of fields, in words and as types. A text made of any other value would be false."""
BETWEEN_FIELDS = "<|#|>"
END = "<|COMPLETE|>"
ENTITY_FIELDS, RELATION_FIELDS = 4, 5


def lightrag_digest(folder: Path) -> str:
    """Return a hash of the content of all files that are read, and of the names of the others.

    Raises SettingsError if a file is missing and DataError if one cannot be read.
    """
    _check_folder(folder)
    parts: list[str] = []
    try:
        for path in sorted(folder.iterdir()):
            parts.append(path.name)
            if path.name in READ:
                with path.open("rb") as stream:
                    parts.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise _unreadable(folder, error) from error
    return digest(*parts)


def copy_index(source: Path, target: Path, check: Callable[[Path], object]) -> None:
    """Make ``target`` a copy of the index: the fields that an import needs, and the graph.

    An equal copy stays as it is. ``check`` is called with the new copy; if it raises an error,
    ``target`` stays as it is. Raises as ``read_files``.
    """
    files = read_files(source)
    with new_copy(target) as copy:
        for name, rows in files.items():
            write_rows(copy / name, rows)
        if (source / GRAPH).is_file():
            shutil.copyfile(source / GRAPH, copy / GRAPH)
        write_text(copy / LEFT_OUT, json.dumps(other_files(source)))
        check(copy)


def write_rows(path: Path, rows: Mapping[str, Row]) -> None:
    """Write a file of an index with the fields that an import needs.

    Raises DataError for a row that lacks a field, or has one of another kind.
    """
    refuse_other_rows(path.name, path.name, rows)
    fields = FIELDS_OF[path.name] | OPTIONAL.get(path.name, frozenset())
    kept = {id: {key: row[key] for key in fields if key in row} for id, row in rows.items()}
    try:
        text = json.dumps(kept, sort_keys=True)
    except TypeError as error:
        raise DataError(
            f"{path.name}: {error}; only indexes of LightRAG {VERSION} can be read"
        ) from error
    write_text(path, text)


@contextmanager
def new_copy(target: Path) -> Iterator[Path]:
    """Give a folder for a copy of an index, which takes the place of ``target`` at the end.

    It does not if they are equal, or if the block raises an error. What a killed import has left
    is removed first.
    """
    beside = target.with_name(f"{target.name}.partial")
    copy, before = beside / "new", beside / "before"
    _remove_copies(beside, target)
    try:
        copy.mkdir(parents=True)
        yield copy
        if not _is_index(target) or lightrag_digest(copy) != lightrag_digest(target):
            if target.exists():
                target.rename(before)
            copy.rename(target)
    finally:
        _remove_copies(beside, target)


def _remove_copies(beside: Path, target: Path) -> None:
    """Remove the folder of an unfinished copy; a copy that has no other name gets its own back."""
    before = beside / "before"
    if before.is_dir() and not target.exists():
        # The import ended between the two renames: this is the only copy.
        before.rename(target)
    shutil.rmtree(beside, ignore_errors=True)


def _is_index(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


def other_files(folder: Path) -> list[str]:
    """Return the names of the files of an index that are not read, sorted.

    GRAPH_ELSEWHERE is the last one if there is no graph.
    """
    listed = folder / LEFT_OUT
    if listed.is_file():
        try:
            return [str(name) for name in json.loads(listed.read_text(encoding="utf-8"))]
        except (ValueError, TypeError) as error:
            raise DataError(f"{listed}: damaged ({error}); import the index again") from error
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    unread = sorted(name for name in names if name not in READ)
    return unread if GRAPH in names else [*unread, GRAPH_ELSEWHERE]


def read_files(folder: Path) -> dict[str, dict[str, Row]]:
    """Return the rows of the four needed files, by file and by LightRAG's id.

    Raises SettingsError if a file is missing, and DataError if one is damaged or was written by
    another version.
    """
    _check_folder(folder)
    return {name: _read_json_rows(folder / name) for name in NEEDED}


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise SettingsError(
            f"{folder}: no such folder; name LightRAG's working folder, by"
            " 'graphmill import lightrag DIR' or lightrag.path"
        )
    for name in NEEDED:
        if not (folder / name).is_file():
            raise SettingsError(
                f"{folder}: no {name}; name the working folder of LightRAG {VERSION}, or the folder"
                " of its workspace below it"
            )


def _read_json_rows(path: Path) -> dict[str, Row]:
    """Return the rows of a file, without the texts that no store accepts."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: no readable JSON; take the file from a backup, or let LightRAG write it again"
        ) from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: no object of rows; name the working folder of LightRAG {VERSION}")
    refuse_other_rows(str(path), path.name, found)
    return found


def refuse_other_rows(where: str, name: str, rows: Mapping[str, Any]) -> None:
    """Raise DataError for a row that lacks a field, or has one of another kind.

    ``name`` is that of the file of the rows, ``where`` how messages name it.
    """
    for id, row in rows.items():
        missing = FIELDS_OF[name] - set(row if isinstance(row, dict) else ())
        if missing:
            names = ", ".join(sorted(missing))
            raise DataError(
                f"{where}: row '{clean(id)[:80]}' has no {names}; only indexes of LightRAG"
                f" {VERSION} can be read: let LightRAG {VERSION} index the documents"
            )
        for field, (kind, types) in KINDS.get(name, {}).items():
            if not isinstance(row[field], types):
                raise DataError(
                    f"{where}: row '{clean(id)[:80]}' has no {kind} in {field}; take the row from"
                    f" a backup, or let LightRAG {VERSION} write it again"
                )


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {error.strerror or error}; allow reading it, or write it again")


def records_of(reply: str) -> Iterator[Row | str]:
    """Yield the records of a reply: what EXTRACTIONS needs of each, or a line that is no record.

    LightRAG asks for lines of fields, or for JSON if ``entity_extraction_use_json`` is set.
    """
    text = clean(reply).strip()
    if text.startswith(("{", "```")):
        yield from _json_records(text)
    else:
        yield from _line_records(text)


def _line_records(text: str) -> Iterator[Row | str]:
    for line in text.replace(END, "\n").split("\n"):
        if not line.strip():
            continue
        kind, *fields = [field.strip() for field in line.strip().split(BETWEEN_FIELDS)]
        kind = kind.lower().strip("(\"'")
        if kind == "entity" and len(fields) == ENTITY_FIELDS - 1:
            name, type, description = fields
            record = _entity(name, type, description)
        elif kind in ("relation", "relationship", "entity") and len(fields) == RELATION_FIELDS - 1:
            # LightRAG, too, reads five fields that begin with "entity" as a relation.
            source, target, keywords, description = fields
            record = _relationship(source, target, keywords, description)
        else:
            record = None
        yield line if record is None else record


def _json_records(text: str) -> Iterator[Row | str]:
    bare = text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        found = json.loads(bare)
    except (ValueError, RecursionError):
        yield text
        return
    if not isinstance(found, dict):
        yield text
        return
    for key in ("entities", "relationships"):
        rows = found.get(key) or []
        for row in rows if isinstance(rows, list) else [rows]:
            record = _json_record(key, row) if isinstance(row, dict) else None
            yield json.dumps(row, ensure_ascii=False) if record is None else record


def _json_record(key: str, row: Row) -> Row | None:
    def text(name: str) -> str:
        return str(row.get(name) or "")

    if key == "entities":
        return _entity(text("name"), text("type"), text("description"))
    keywords = row.get("keywords") or ""
    if isinstance(keywords, list):
        keywords = ",".join(map(str, keywords))
    return _relationship(text("source"), text("target"), str(keywords), text("description"))


def _entity(name: str, type: str, description: str) -> Row | None:
    """Return an entity; None if it has no name. A type is upper case, as those of this package."""
    name = clean_name(html.unescape(name))
    if not name:
        return None
    return {
        "kind": "entity",
        "name": name,
        "type": clean_name(type).upper(),
        "description": " ".join(description.split()),
    }


def _relationship(source: str, target: str, keywords: str, description: str) -> Row | None:
    """Return a relationship; None if an end has no name."""
    source, target = clean_name(html.unescape(source)), clean_name(html.unescape(target))
    if not source or not target:
        return None
    words = (clean_name(word) for word in keywords.replace("，", ",").split(","))
    return {
        "kind": "relationship",
        "source": source,
        "target": target,
        "keywords": list(dict.fromkeys(word for word in words if word)),
        "description": " ".join(description.split()),
    }
