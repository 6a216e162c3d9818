"""load_documents: read the inputs into documents; what cannot be read is a reject."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import pandas as pd

from pipeline.contract.conversion import (
    Converted,
    Converter,
    FileToConvert,
)
from pipeline.contract.laws import Law, Part
from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.registry import verb
from pipeline.contract.schemas import DOCUMENTS, REJECTS, STRING, table
from pipeline.documents.conversations import (
    PEOPLE,
    slack_place,
)
from pipeline.documents.database_rows import NO_COLUMN, RowsError, rows_of_keys
from pipeline.documents.dates import (
    FILE_TIME,
    DateFrom,
    Dating,
    date_in_name,
    date_of_file,
)
from pipeline.documents.file_documents import (
    GUESSED,
    RECORDS,
    WHOLE,
    FileDocument,
    documents_of_file,
    find_obstacle,
)
from pipeline.documents.input_files import InputFile, Listing, one_line, portions_of, unpacked
from pipeline.documents.limited_converter import LimitedConverter, converter_name, is_converted
from pipeline.documents.load_params import LoadParams, name_below
from pipeline.documents.mail import ATTACHMENT
from pipeline.documents.metadata import content_hash
from pipeline.documents.pdf import NO_TEXT
from pipeline.documents.pictures import PICTURES, describe_pictures
from pipeline.documents.records import Fault
from pipeline.models.base import ChatModel
from pipeline.text.ids import clean, digest, document_id

NO_INPUT = frozenset(
    {"unsupported", "needs_docs", NO_TEXT, "empty", "outside", "lock_file", ATTACHMENT}
)
"""Reasons why a file is no input. Such a reject does not count as a failure."""
IN_A_FILE = "#:"
"""The characters that separate the name of a file from a record, a page or a line of it."""


def input_digest(params: LoadParams) -> str:
    """Return a digest of the matching files and their converters.

    It changes when a file is added, removed, renamed or edited, and when a converter changes. It is
    empty if a transient error kept a file from being read.
    """
    listing, rules = params.listing, params.rules
    converted = [suffix for suffix in listing.suffixes if is_converted(suffix, rules)]
    names = sorted(converter_name(suffix, rules) for suffix in converted)
    if not listing.digest:
        return ""
    return digest(listing.digest, *names, *filter(None, _file_dates(params)))


def _file_dates(params: LoadParams) -> list[str]:
    """Return the day on which each file was written, or "" for each if no date is made of it."""
    if FILE_TIME not in params.dates_from:
        return [""] * len(params.listing.files)
    return [file.written if file.kind else date_of_file(file.path) for file in params.listing.files]


def input_version(params: LoadParams) -> str:
    """Return a version that changes whenever a matching file is written, even if unchanged."""
    return params.watched.version


FILES = table("name", name=STRING, content=STRING, converter=STRING, written=STRING)
"""The matching files.

``content`` is the hash of the content, or the reason why the file is not read. ``converter`` is the
converter for files of its kind, or empty. ``written`` is the day on which the file was written,
empty unless dates of documents are made of it.
"""


def _list_file_parts(params: LoadParams) -> tuple[Part, ...]:
    """Return the sub-steps of load_documents: list the files, then read them."""
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
    parts=_list_file_parts,
    placeholders={"describe": Placeholders()},
    libraries=("charset-normalizer",),
    settings="input",
    stamp=input_digest,
    version=input_version,
)
def load_documents(
    params: LoadParams,
    converter: Converter | None = None,
    describe: Prompt | None = None,
    chat: ChatModel | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read every matching file below ``path``; return DOCUMENTS and REJECTS.

    Files of the kinds txt, log, md and markdown become one document each. So do PDF, DOCX, PPTX,
    XLSX, EPUB, HTML, MHTML, MSG, ODT and RTF with the extra ``docs``, and EML and IPYNB. Files of
    the kinds csv, tsv, json, jsonl and ndjson become one document for each record, mbox for each
    mail.
    Front matter of txt and Markdown (YAML between two lines of ---) gives title and metadata; the
    text begins after it. A conversation of ChatGPT is a record, a day of a Slack channel a
    document.
    Files in ZIP archives are read by their own kinds; their sources are ``archive.zip/file``.
    Pictures (png, jpg, jpeg, webp, gif) are described by the model ``chat``, if there is one.

    The id comes from the path below the folder. For records it comes from the id column, too, or
    from the record's content if there is none. So an edited file keeps its id.

    Rejects have these kinds: ``source`` is a file or folder that was not read, or in part only;
    ``row`` is a record of a file; ``record`` is a page (no_text_layer); ``recovered`` is a remark
    on a document (encoding_guessed) or an input (no_column); ``skipped`` is no input (unsupported,
    needs_docs, no_text_layer, empty, outside, lock_file, attachment). Other reasons are encoding,
    parse, in_part, unreadable, unmounted, io_error, duplicate_id, duplicate_row, too_large,
    too_slow, too_much_memory, crashed.

    Without a ``converter``, files are converted in separate processes each time. Raises
    SettingsError if there is no such folder, or no such converter of the user's own.
    """
    listed = params.with_listing()
    return read_files(find_files(listed), listed, converter, describe, chat)


def find_files(params: LoadParams) -> pd.DataFrame:
    """Return FILES. If a row changes, the documents of this file change, and no others."""
    listing, rules = params.listing, params.rules
    converter_names = {
        suffix: converter_name(suffix, rules)
        for suffix in listing.suffixes
        if is_converted(suffix, rules)
    }
    names = [file.name for file in listing.files]
    contents = _contents_of(listing)
    # Without a suffix to convert, no file is asked for its suffix.
    converters = [""] * len(names)
    if converter_names:
        converters = [converter_names.get(file.suffix, "") for file in listing.files]
    columns = {
        "name": names,
        "content": contents,
        "converter": converters,
        "written": _file_dates(params),
    }
    return FILES.frame(pd.DataFrame(columns))


def _contents_of(listing: Listing) -> list[str]:
    """Return the hash of each file's content, or "" if it is unknown.

    That of a day of a Slack export is also over the list of people, whose names stand in its text.
    That of a list of an export is another than that of the same file outside of exports.
    """
    contents = [content or "" for content in listing.contents]
    if not listing.exports:
        return contents
    content_of_name = dict(zip((file.name for file in listing.files), contents, strict=True))
    for number, file in enumerate(listing.files):
        place = slack_place(file.name, listing.exports)
        if place is None:
            continue
        export, channel = place
        if channel:
            people = content_of_name[name_below(export, PEOPLE)]
            contents[number] = digest(contents[number], people)
        elif contents[number]:
            contents[number] = digest(contents[number], "list of an export")
    return contents


def read_files(
    files: pd.DataFrame,
    params: LoadParams,
    converter: Converter | None = None,
    describe: Prompt | None = None,
    chat: ChatModel | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read these files (FILES); return DOCUMENTS and REJECTS.

    Two documents can have the same id only if the names of their files are equal up to the first
    ``#`` or ``:``. These characters also separate a file from its records and lines.
    """
    documents: dict[str, dict[str, Any]] = {}
    rejects: list[dict[str, str]] = []
    wanted = dict(zip(files["name"], files["written"], strict=True))
    listed = [file for file in params.listing.files if file.name in wanted]
    listed = _with_cells(listed, params)
    own_converter = converter or LimitedConverter()
    suffixes = _suffixes_read(listed, params)
    if chat:
        suffixes |= PICTURES
    for portion in portions_of(listed):
        with unpacked(portion, suffixes) as files_to_read:
            conversions = _convert_files(files_to_read, params, own_converter)
            if describe and chat:
                conversions |= _describe_pictures(files_to_read, params, describe, chat)
            for file in files_to_read:
                # Of two files of one name in an archive, one has a fault and no conversion.
                conversion = None if file.fault else conversions.pop(file.name, None)
                dating = _dating_of(file, wanted[file.name], params)
                rejects += _read_file(file, params, conversion, dating, documents)
    return DOCUMENTS.frame(list(documents.values())), REJECTS.frame(rejects)


def _suffixes_read(files: Sequence[InputFile], params: LoadParams) -> frozenset[str]:
    """Return the suffixes of these files whose kinds are read."""
    rules = params.rules
    return frozenset(
        suffix
        for suffix in {file.suffix for file in files}
        if suffix in WHOLE | RECORDS or is_converted(suffix, rules)
    )


def _read_file(
    file: InputFile,
    params: LoadParams,
    conversion: Converted | None,
    dating: Dating,
    documents: dict[str, dict[str, Any]],
) -> list[dict[str, str]]:
    """Add the documents of a file to ``documents``, rows by their ids, and return its rejects."""
    unparsed: list[Fault] = []
    rejects: list[dict[str, str]] = []
    for item in documents_of_file(file, params.params_for(file.name), conversion, dating):
        if isinstance(item, FileDocument):
            row = _document_row(item)
            if row["id"] not in documents:
                documents[row["id"]] = row
                continue
            fault = _duplicate_fault(item)
        else:
            fault = item
        rejects.append(_reject_row(file, fault, params))
        if fault.reason == "parse":
            unparsed.append(fault)
    # A fault with a line is one of a record: the rest of the file was read.
    if unparsed and all(fault.line for fault in unparsed):
        rejects.append(_reject_row(file, _partial_fault(unparsed), params))
    return rejects


def _dating_of(file: InputFile, written: str, params: LoadParams) -> Dating:
    """Return how documents of the file are dated; ``written`` is as in FILES."""
    of_file: dict[DateFrom, str] = {
        "file_name": date_in_name(PurePath(file.name).stem),
        "file_time": written,
    }
    return Dating(of_file, params.dates_from, params.date_fields, params.day_first)


def _document_row(document: FileDocument) -> dict[str, Any]:
    """Return a row of DOCUMENTS."""
    return {
        "id": document_id(document.key),
        "title": document.title.text,
        "text": document.text,
        "source": document.source,
        "metadata": document.metadata,
        "content_hash": content_hash(document.title.text, document.text, document.metadata),
        "title_from": document.title.found,
        "date": document.date.text,
        "date_from": document.date.found,
        "aliases": list(document.aliases),
    }


def _duplicate_fault(document: FileDocument) -> Fault:
    message = f"{document.source} is there already; give the record an id of its own"
    return Fault("duplicate_id", message, document.line)


def _partial_fault(unparsed: Sequence[Fault]) -> Fault:
    """Return the fault of a file of which these records could not be parsed."""
    first = unparsed[0].line
    lost = f"the record at {first}"
    if len(unparsed) > 1:
        lost = f"{len(unparsed)} records (the first at {first})"
    return Fault("in_part", f"read but for {lost}; mend the file")


def _reject_row(file: InputFile, fault: Fault, params: LoadParams) -> dict[str, str]:
    """Return a row of REJECTS; its id is the place of the fault."""
    place = _place_of(file, fault, params)
    message = clean(f"{place}: {fault.message}")
    return {
        "step": "",
        "row_id": place,
        "kind": _reject_kind(file, fault),
        "reason": fault.reason,
        "message": message,
    }


def _place_of(file: InputFile, fault: Fault, params: LoadParams) -> str:
    """Return the place of a fault: the file, with the line, the page or the column if there is one.

    A row of a database that was read has the column. Its name alone would say that a source could
    not be read, and the document of an earlier run would be kept.
    """
    if fault.line:
        return f"{file.name}:{fault.line}"
    if fault.page:
        return f"{file.name}#page={fault.page}"
    source = params.input_of(file.name) if file.kind == "sql" else None
    if source and fault.reason in ("empty", "duplicate_id"):
        column = source.text if fault.reason == "empty" else source.id
        return f"{file.name}:{column}"
    return file.name


def _reject_kind(file: InputFile, fault: Fault) -> str:
    """Return the kind of the reject; the docstring of ``load_documents`` describes the kinds."""
    if fault.reason in (GUESSED, NO_COLUMN):
        return "recovered"
    if fault.page:
        return "record"
    if fault.reason == "empty" and file.suffix in PICTURES:
        # The picture is an input; the reply about it was empty.
        return "source"
    if fault.reason in NO_INPUT:
        return "skipped"
    if file.kind == "sql" and fault.reason == "parse":
        # A row without a key. What it means for the other rows is told of the input as a whole.
        return "row"
    return "source" if fault.line is None else "row"


def _convert_files(
    files: Sequence[InputFile], params: LoadParams, converter: Converter
) -> dict[str, Converted]:
    """Convert the files that need it; return the results by the names of the files."""
    rules = params.rules
    wanted = [
        FileToConvert(file.path, file.name)
        for file in files
        if is_converted(file.suffix, rules) and find_obstacle(file, params) is None
    ]
    conversions = converter.convert(wanted, rules) if wanted else []
    names = [file.name for file in wanted]
    return dict(zip(names, conversions, strict=True))


def _describe_pictures(
    files: Sequence[InputFile], params: LoadParams, describe: Prompt, chat: ChatModel
) -> dict[str, Converted]:
    """Describe the pictures among the files; return the results by the names of the files.

    A picture for which the user has a converter of their own is none of these.
    """
    rules = params.rules
    wanted = [
        FileToConvert(file.path, file.name)
        for file in files
        if file.suffix in PICTURES and not file.fault and not is_converted(file.suffix, rules)
    ]
    names = [file.name for file in wanted]
    return dict(zip(names, describe_pictures(wanted, describe, chat), strict=True))


def _with_cells(files: Sequence[InputFile], params: LoadParams) -> list[InputFile]:
    """Return the files; rows of a database of which only the keys were listed have their cells."""
    found = {file.name: file for file in files if not file.fault}
    for source in params.inputs:
        if not source.changed:
            continue
        rows = [file for file in found.values() if file.name.startswith(source.prefix)]
        try:
            keys = [(file.fields or {})[source.id] for file in rows]
            listed = [file for file in params.listing.files if file.name.startswith(source.prefix)]
            columns = params.listing.columns.get(source.name, ())
            cells = rows_of_keys(source, keys, len(listed), columns) if keys else {}
        except RowsError as error:
            found |= {file.name: replace(file, fault=("io_error", str(error))) for file in rows}
            continue
        gone = ("io_error", "gone while it was read; the next run reads again")
        by_name = {source.prefix + one_line(key): own for key, own in cells.items()}
        for file in rows:
            own = by_name.get(file.name)
            read = replace(file, fields=own) if own else replace(file, fault=gone)
            found[file.name] = read
    return [file if file.fault else found[file.name] for file in files]
