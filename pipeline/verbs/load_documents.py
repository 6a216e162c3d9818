"""load_documents: the input folder -> documents, and a reject for whatever could not be read."""

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

import pandas as pd
from pydantic import Field, PrivateAttr, field_validator

from pipeline.contract.conversion import (
    PAGES,
    Conversion,
    ConversionRules,
    Converted,
    Converter,
    FileToConvert,
    NotConverted,
    OwnConverters,
    PageFault,
    own_converters,
)
from pipeline.contract.laws import Law, Part
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS, REJECTS, STRING, table
from pipeline.documents.conversion import CONVERTED
from pipeline.documents.encoding import DecodedText, UndecodableError, decoded
from pipeline.documents.files import (
    InputFile,
    Listing,
    list_files,
    not_read,
)
from pipeline.documents.front_matter import split_front_matter, taken_title
from pipeline.documents.limited_converter import LimitedConverter, converter_name, is_converted
from pipeline.documents.metadata import as_json, cleaned, content_hash
from pipeline.documents.pdf import NO_TEXT
from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl
from pipeline.documents.titles import Title, title_of
from pipeline.text.ids import clean, digest, document_id

WHOLE = frozenset({".txt", ".md", ".markdown", ".log"})
PLAIN = frozenset({".txt", ".log"})
NO_HEADINGS = PLAIN | {".pdf", ".xlsx"}
"""Texts in which # begins no heading, or none that is a title."""
FRONT_MATTER = frozenset({".txt", ".md", ".markdown"})
RECORDS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson"})
NO_INPUT = frozenset({"unsupported", "needs_docs", NO_TEXT, "empty", "outside", "lock_file"})
"""Reasons of what is told apart from rows that failed."""
_SHORT_DIGEST = 12
IN_A_FILE = "#:"
"""Where the name of a file ends in that of a record, a page or a line of it."""
MOUNTS = "mounts"
GUESSED = "encoding_guessed"
"""The reason of a row that is there all the same."""


class LoadParams(Params):
    """``file_pattern``: a glob below ``path``. ``encoding``: "" finds out: UTF-8, UTF-16, else the
    likeliest of all, of equals the first of ``encodings``. ``mounts``: folders below ``path`` that
    were mount points when last read. ``hashes``: the folder in which hashes of files are kept from
    night to night, "" for none."""

    path: str = Field(
        default="data/input", exclude=True
    )  # its content is stamped: a project may move
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    encoding: str = ""
    encodings: tuple[str, ...] = ("gb18030", "shift_jis", "cp1252")
    max_file_mb: int = Field(default=100, ge=1)
    converter: OwnConverters = Field(
        default="", exclude=True, repr=False
    )  # stamped, by name: a word may be a secret
    converter_folder: str = Field(default=".", exclude=True)
    convert_seconds: float = Field(default=900, gt=0)
    convert_mb: int = Field(default=768, ge=1)
    mounts: tuple[str, ...] = Field(default=(), exclude=True)  # noted
    hashes: str = Field(default="", exclude=True)
    _listing: Listing | None = PrivateAttr(default=None)

    def noted(self) -> Mapping[str, str]:
        return {MOUNTS: json.dumps(self.mounts)} if self.mounts else {}

    def following(self, last: Mapping[str, str]) -> Self:
        """With the files as they are now, knowing which folders were mount points: one that is none
        any more, and empty, was not read."""
        before = json.loads(last.get(MOUNTS, "[]"))
        listing = list_files(self.path, self.file_pattern, before, self.hashes)
        found = self.model_copy(update={"mounts": listing.mounts})
        found._listing = listing
        return found

    @property
    def listing(self) -> Listing:
        """The files as they were when they were looked at, or are now."""
        return self._listing or list_files(self.path, self.file_pattern, self.mounts, self.hashes)

    def looked(self) -> Self:
        """With the files as ``listing`` has them now, once for all."""
        looked = self.model_copy()
        looked._listing = self.listing
        return looked

    @property
    def rules(self) -> ConversionRules:
        own = own_converters(self.converter)
        return ConversionRules(self.convert_seconds, self.convert_mb, own, self.converter_folder)

    @field_validator("converter")
    @classmethod
    def _is_a_converter(cls, setting: OwnConverters) -> OwnConverters:
        own_converters(setting)
        return setting

    @field_validator("file_pattern")
    @classmethod
    def _below_the_folder(cls, pattern: str) -> str:
        path = PurePath(pattern)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"'{pattern}' is no pattern below the input folder; write one such as **/*.txt"
            )
        return pattern

    @field_validator("encoding", "encodings")
    @classmethod
    def _known(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in filter(None, [value] if isinstance(value, str) else value):
            try:
                codecs.lookup(name)
            except LookupError as error:
                raise ValueError(f"no encoding '{name}'; write one such as gb18030") from error
        return value


@dataclass(frozen=True)
class _Document:
    """``key`` makes the id, ``line`` is the record's place in its file."""

    key: str
    source: str
    title: Title
    text: str
    metadata: str
    line: int | None = None


def input_digest(params: LoadParams) -> str:
    """Changes when a matching file is added, removed, renamed or edited, or its converter is
    another. Empty where a file could not be read for a reason that may pass."""
    listing, rules = params.listing, params.rules
    names = sorted(
        converter_name(suffix, rules) for suffix in listing.suffixes if is_converted(suffix, rules)
    )
    return listing.digest and digest(listing.digest, *names)


def input_version(params: LoadParams) -> str:
    """Changes when a matching file is written, also to what it was before."""
    return params.listing.version


FILES = table("name", name=STRING, content=STRING, converter=STRING)
"""The files that there are. ``content``: its hash, or why the file is not read; ``converter``: of
those of its kind."""


def _parts(params: LoadParams) -> tuple[Part, ...]:
    return (
        Part(find_files, inputs={}, outputs={"files": FILES}, law=None),
        Part(
            read_files,
            inputs={"files": FILES},
            outputs={"documents": DOCUMENTS, "rejects": REJECTS},
            law=Law(
                {"files": ("name",)},
                row_of={"documents": "source", "rejects": "row_id"},
                until=IN_A_FILE,
            ),
        ),
    )


@verb(
    inputs={},
    outputs={"documents": DOCUMENTS, "rejects": REJECTS},
    parts=_parts,
    libraries=("charset-normalizer",),
    settings="input",
    stamp=input_digest,
    version=input_version,
)
def load_documents(
    params: LoadParams, converter: Converter | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read every matching file below ``path``: txt, log, md and markdown (and PDF, DOCX, PPTX,
    XLSX, EPUB, HTML with the extra ``docs``) as one document each, csv, tsv, json, jsonl and ndjson
    as one a record. Front matter of txt and Markdown (YAML between two lines of ---) is title and
    metadata; the text begins after it.

    Ids come from the path below the folder and, for records, the id column (without one, the
    record's content), so an edited file keeps its id. Kinds of rejects: ``source``, a file or
    folder that was not read, or not whole; ``row``, a record of a file; ``skipped``, what is no
    input (unsupported, needs_docs, no_text_layer, empty, outside, lock_file); ``record``, a page
    (no_text_layer). Their other reasons: encoding, parse, in_part, unreadable, unmounted, io_error,
    duplicate_id, too_large, too_slow, too_much_memory, crashed, and, ``recovered``,
    encoding_guessed. ``converter``: without one, files are converted in processes of their own each
    time. Raises SettingsError when there is no such folder, or no such converter of the user's own.
    """
    looked = params.looked()
    return read_files(find_files(looked), looked, converter)


def find_files(params: LoadParams) -> pd.DataFrame:
    """The files that match, by name: where one of these rows changes, what comes of the file does,
    and of no other."""
    listing, rules = params.listing, params.rules
    converters = {
        end: converter_name(end, rules) for end in listing.suffixes if is_converted(end, rules)
    }
    names = [file.name for file in listing.files]
    by = [converters.get(file.suffix, "") if converters else "" for file in listing.files]
    contents = [content or "" for content in listing.contents]
    return FILES.frame(pd.DataFrame({"name": names, "content": contents, "converter": by}))


def read_files(
    files: pd.DataFrame, params: LoadParams, converter: Converter | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of these files the documents and the rejects. Two documents have one id only where the names
    of their files are equal up to the first ``#`` or ``:``, at which the names of records and of
    lines begin too."""
    documents: dict[str, dict[str, str]] = {}
    rejects = []
    wanted = frozenset(files["name"])
    files_to_read = [file for file in params.listing.files if file.name in wanted]
    conversions = _converted(files_to_read, params, converter or LimitedConverter())
    for file in files_to_read:
        lost: list[Fault] = []
        for item in _read(file, params, conversions.pop(file.name, None)):
            if isinstance(item, _Document) and (row := _row(item))["id"] not in documents:
                documents[row["id"]] = row
            else:
                fault = item if isinstance(item, Fault) else _duplicate(item)
                rejects.append(_reject(file, fault))
                lost += [fault] if fault.reason == "parse" else []
        if lost and all(fault.line for fault in lost):
            rejects.append(_reject(file, _in_part(file, lost)))
    return DOCUMENTS.frame(list(documents.values())), REJECTS.frame(rejects)


def _row(document: _Document) -> dict[str, str]:
    return {
        "id": document_id(document.key),
        "title": document.title.text,
        "text": document.text,
        "source": document.source,
        "metadata": document.metadata,
        "content_hash": content_hash(document.title.text, document.text, document.metadata),
        "title_from": document.title.found,
    }


def _duplicate(document: _Document) -> Fault:
    message = f"{document.source} is there already; give the record an id of its own"
    return Fault("duplicate_id", message, document.line)


def _in_part(file: InputFile, lost: Sequence[Fault]) -> Fault:
    what = (
        f"{len(lost)} records (the first at {lost[0].line})"
        if len(lost) > 1
        else f"the record at {lost[0].line}"
    )
    return Fault("in_part", f"read but for {what}; mend the file")


def _reject(file: InputFile, fault: Fault) -> dict[str, str]:
    place = (
        f"{file.name}:{fault.line}"
        if fault.line
        else f"{file.name}#page={fault.page}"
        if fault.page
        else file.name
    )
    message = clean(f"{place}: {fault.message}")
    return {
        "step": "",
        "row_id": place,
        "kind": _kind(fault),
        "reason": fault.reason,
        "message": message,
    }


def _kind(fault: Fault) -> str:
    if fault.reason == GUESSED:
        return "recovered"
    if fault.page:
        return "record"
    return "skipped" if fault.reason in NO_INPUT else "source" if fault.line is None else "row"


def _converted(
    files: Sequence[InputFile], params: LoadParams, converter: Converter
) -> dict[str, Converted]:
    """By name."""
    rules = params.rules
    wanted = [
        FileToConvert(file.path, file.name)
        for file in files
        if is_converted(file.suffix, rules) and _not_to_be_read(file, params) is None
    ]
    found = converter.convert(wanted, rules) if wanted else []
    return {file.name: conversion for file, conversion in zip(wanted, found, strict=True)}


def _read(
    file: InputFile, params: LoadParams, conversion: Converted | None
) -> Iterator[_Document | Fault]:
    try:
        found = _found(file, params, conversion)
    except OSError as error:
        found = Fault(*not_read(error))
    except UndecodableError as error:
        found = Fault("encoding", str(error))
    except ValueError as error:
        found = Fault("parse", str(error))
    if isinstance(found, Fault):
        yield found
        return
    if isinstance(found, Conversion):
        yield from _converted_document(file, found)
        return
    if not found.sure:
        fact = f"read as {found.encoding}, which is a guess"
        yield Fault(
            GUESSED,
            f"{fact}; look at it, and set input.encoding or convert it to UTF-8 where it is wrong",
        )
    text = clean(found.text)
    if not text.strip():
        yield Fault("empty", "no text in it; remove it")
    elif file.suffix in RECORDS:
        yield from _record_documents(file, text, params)
    else:
        yield _text_document(file, text)


def _text_document(file: InputFile, text: str) -> _Document:
    fields, body = split_front_matter(text) if file.suffix in FRONT_MATTER else ({}, text)
    given, metadata = taken_title(fields)
    title = title_of(
        body, PurePath(file.name).stem, given=given, headings=file.suffix not in NO_HEADINGS
    )
    return _Document(file.name, file.name, title, body, as_json(metadata))


def _converted_document(file: InputFile, found: Conversion) -> Iterator[_Document | Fault]:
    """Where each page begins, and what has read the file, stand in its metadata."""
    text = clean(found.text)
    if not text.strip():
        yield (
            Fault(NO_TEXT, _no_text(found.faults))
            if found.faults
            else Fault("empty", "no text in it; remove it")
        )
        return
    yield from (Fault(fault.reason, fault.message, page=fault.page) for fault in found.faults)
    where = {PAGES: list(found.pages)} if found.pages else {}
    metadata = as_json({**cleaned(found.metadata), **where, "converter": found.converter})
    title = title_of(
        text, PurePath(file.name).stem, given=found.title, headings=file.suffix not in NO_HEADINGS,
        lines=file.suffix != ".xlsx",
    )  # fmt: skip
    yield _Document(file.name, file.name, title, text, metadata)


def _no_text(faults: Sequence[PageFault]) -> str:
    return (
        faults[0].message
        if len(faults) == 1
        else f"none of its {len(faults)} pages has text: {faults[0].message}"
    )


def _not_to_be_read(file: InputFile, params: LoadParams) -> Fault | None:
    if file.fault:
        return Fault(*file.fault)
    if file.suffix not in WHOLE | RECORDS and not is_converted(file.suffix, params.rules):
        known = ", ".join(sorted(suffix[1:] for suffix in WHOLE | RECORDS | CONVERTED))
        return Fault(
            "unsupported", f"suffix '{file.suffix}' is not read; convert it to one of {known}"
        )
    try:
        if file.path.stat().st_size > params.max_file_mb * 2**20:
            return Fault(
                "too_large", f"over {params.max_file_mb} MB; split it or set input.max_file_mb"
            )
    except OSError as error:
        return Fault(*not_read(error))
    return None


def _found(
    file: InputFile, params: LoadParams, conversion: Converted | None
) -> DecodedText | Conversion | Fault:
    if fault := _not_to_be_read(file, params):
        return fault
    if isinstance(conversion, NotConverted):
        return Fault(conversion.reason, conversion.message)
    if conversion:
        return conversion
    return decoded(file.path.read_bytes(), params.encoding, params.encodings)


def _record_documents(
    file: InputFile, text: str, params: LoadParams
) -> Iterator[_Document | Fault]:
    seen: Counter[str] = Counter()
    for item in _records(file, text, params):
        yield item if isinstance(item, Fault) else _record_document(file, item, params, seen)


def _records(file: InputFile, text: str, params: LoadParams) -> Iterator[Record | Fault]:
    if file.suffix in (".csv", ".tsv"):
        return read_csv(text, params.text_column)
    return read_json(text) if file.suffix == ".json" else read_jsonl(text)


def _record_document(
    file: InputFile, record: Record, params: LoadParams, seen: Counter[str]
) -> _Document | Fault:
    fields = {clean(name): cleaned(value) for name, value in record.fields.items()}
    text = fields.pop(params.text_column, None)
    if isinstance(text, dict | list):
        return Fault("parse", f"'{params.text_column}' is not a text; write a string", record.line)
    if not (text := _as_text(text)).strip():
        return Fault(
            "empty",
            f"no text in '{params.text_column}'; fill it or set input.text_column",
            record.line,
        )
    identity = _as_text(fields.pop(params.id_column, None)).strip()
    title = " ".join(_as_text(fields.pop(params.title_column, None)).split())
    metadata = as_json(fields)
    if identity:
        key = source = f"{file.name}#{identity}"
    else:
        content = digest(title, text, metadata)
        again = f"-{seen[content]}" if seen[content] else ""
        seen[content] += 1
        key, source = (
            f"{file.name}#{content}{again}",
            f"{file.name}#{content[:_SHORT_DIGEST]}{again}",
        )
    named = title_of(text, source, given=title, headings=False)
    return _Document(key, source, named, text, metadata, record.line)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    )
