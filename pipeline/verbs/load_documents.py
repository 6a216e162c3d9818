"""load_documents: a folder of files -> documents."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.documents.convert import CONVERTED, NoConverter, convert
from pipeline.documents.encoding import decode
from pipeline.documents.records import RECORD_FILES, Record, Unreadable
from pipeline.errors import SettingsError
from pipeline.registry import Params, verb
from pipeline.schemas import DOCUMENTS, REJECTS
from pipeline.text import clean, digest, document_id

TEXT_FILES = frozenset({".txt", ".md"})
READABLE = TEXT_FILES | CONVERTED | set(RECORD_FILES)
TITLE_LENGTH = 120
BLOCK = 1 << 20


class LoadParams(Params):
    """``path``: the folder; what of it is read is known by content, so that a project may move.
    ``encoding``: of all text files; empty: recognised. The columns name a record's parts."""

    path: str = Field(default="data/input", exclude=True)
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    encoding: str = ""


@dataclass
class Loaded:
    """Rows so far. ``keys`` tells documents of one key apart."""

    documents: list[dict[str, str]] = field(default_factory=list)
    rejects: list[dict[str, str]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def add(self, key: str, source: str, title: str, text: str, metadata: Mapping[str, Any]) -> None:
        if key in self.keys:
            return self.reject(source, "duplicate_id", "another record of this file has the same id")
        if not text.strip():
            return self.reject(source, "empty", "no text")
        self.keys.add(key)
        encoded = clean(json.dumps(metadata, ensure_ascii=False, sort_keys=True, default=str))
        self.documents.append(
            {
                "id": document_id(key),
                "title": title,
                "text": text,
                "source": source,
                "metadata": encoded,
                "content_hash": digest(title, text, encoded),
            }
        )

    def reject(self, row_id: str, reason: str, message: str) -> None:
        """Reasons: unsupported, unreadable, outside, encoding, empty, parse, duplicate_id."""
        self.rejects.append(
            {"step": "", "row_id": clean(row_id), "kind": "row", "reason": reason, "message": clean(message)}
        )


def input_digest(params: LoadParams) -> str:
    """Over the names and the bytes of all files that match."""
    root = _root(params)
    return digest(*(part for path in _files(root, params) for part in (_name(path, root), _file_digest(path))))


@verb(
    inputs={},
    outputs={"documents": DOCUMENTS, "rejects": REJECTS},
    libraries=("charset-normalizer",),
    settings="input",
    stamp=input_digest,
)
def load_documents(params: LoadParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """txt and md: one document a file. csv, json, jsonl: one a record; columns other than id, title and text are
    its metadata. pdf, docx and html with the extra ``docs``. What cannot be read is a reject.

    A document's id comes from its path, for a record with an id from path and id, else from path and content: an
    edited file replaces itself. Raises SettingsError when the folder is missing.
    """
    root = _root(params)
    loaded = Loaded()
    for path in _files(root, params):
        _load_file(path, _name(path, root), root, params, loaded)
    return DOCUMENTS.frame(loaded.documents), REJECTS.frame(loaded.rejects)


def _load_file(path: Path, name: str, root: Path, params: LoadParams, loaded: Loaded) -> None:
    suffix = path.suffix.lower()
    if not path.resolve().is_relative_to(root.resolve()):
        return loaded.reject(name, "outside", "a link that leads out of the input folder; copy the file instead")
    if suffix not in READABLE:
        return loaded.reject(name, "unsupported", f"files of type '{suffix}' are not read")
    try:
        text = clean(convert(path) if suffix in CONVERTED else decode(path.read_bytes(), params.encoding))
    except NoConverter as error:
        return loaded.reject(name, "unsupported", str(error))
    except OSError as error:
        return loaded.reject(name, "unreadable", error.strerror or str(error))
    except ValueError as error:
        return loaded.reject(name, "parse" if suffix in CONVERTED else "encoding", str(error))
    if not text.strip():
        return loaded.reject(name, "empty", "no text")
    if suffix in RECORD_FILES:
        return _load_records(text, name, suffix, params, loaded)
    return loaded.add(name, name, _title(text, path), text, {})


def _load_records(text: str, name: str, suffix: str, params: LoadParams, loaded: Loaded) -> None:
    unnamed: Counter[str] = Counter()
    for entry in RECORD_FILES[suffix](text):
        if isinstance(entry, Unreadable):
            loaded.reject(f"{name}:{entry.place}" if entry.place else name, "parse", entry.message)
        else:
            _load_record(entry, name, params, loaded, unnamed)


def _load_record(record: Record, name: str, params: LoadParams, loaded: Loaded, unnamed: Counter[str]) -> None:
    columns = dict(record.columns)
    text = columns.pop(params.text_column, None)
    title = clean(str(columns.pop(params.title_column, "") or "")).strip()
    id = clean(str(columns.pop(params.id_column, "") or "")).strip()
    if not isinstance(text, str) or not text.strip():
        what = "empty" if text is None or text == "" or isinstance(text, str) else "no string"
        return loaded.reject(
            f"{name}:{record.place}", "empty", f"column '{params.text_column}' is {what}; set input.text_column"
        )
    if id:
        key = f"{name}#{id}"
    else:
        content = digest(json.dumps(record.columns, sort_keys=True, default=str))[:12]
        unnamed[content] += 1
        key = f"{name}#{content}" + (f"-{unnamed[content]}" if unnamed[content] > 1 else "")
    return loaded.add(key, key, title or id or Path(name).stem, clean(text), columns)


def _root(params: LoadParams) -> Path:
    root = Path(params.path)
    if not root.is_dir():
        raise SettingsError(f"{root}: no such folder; create it and put documents there, or set input.path")
    return root


def _files(root: Path, params: LoadParams) -> Iterator[Path]:
    """Matching files in the order of their names; hidden ones are none of ours."""
    try:
        found = {path: path.relative_to(root).parts for path in root.glob(params.file_pattern) if path.is_file()}
    except (ValueError, NotImplementedError) as error:
        raise SettingsError(f"input.file_pattern: {error}; write it relative to input.path") from error
    visible = [path for path, parts in found.items() if not any(part.startswith(".") for part in parts)]
    yield from sorted(visible, key=lambda path: found[path])


def _name(path: Path, root: Path) -> str:
    """The relative POSIX path; a byte that is no UTF-8 as \\xNN."""
    return clean(path.relative_to(root).as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _title(text: str, path: Path) -> str:
    """The first line, without Markdown's marks, where it is short enough to be a title; else the file's name."""
    line = text.lstrip().split("\n", 1)[0].strip().lstrip("#").strip()
    return line if 0 < len(line) <= TITLE_LENGTH else path.stem
