"""load_documents: read the input folder into documents; what cannot be read is a reject."""

import codecs
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated, Any, Self

import pandas as pd
from pydantic import AfterValidator, Field, PrivateAttr, field_validator

from pipeline.contract.conversion import (
    PAGES,
    Conversion,
    ConversionRules,
    Converted,
    Converter,
    FileToConvert,
    NotConverted,
    OwnConverters,
    PartFault,
    own_converters,
)
from pipeline.contract.laws import Law, Part
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS, REJECTS, STRING, table
from pipeline.documents.aliases import aliases_of
from pipeline.documents.archives import DAMAGED
from pipeline.documents.archives import SUFFIX as ARCHIVE
from pipeline.documents.conversations import (
    LIST_OF_EXPORT,
    NO_NAMES,
    PEOPLE,
    chat_fields,
    is_chat,
    people_of,
    read_slack_day,
    slack_place,
)
from pipeline.documents.conversion import CONVERTED
from pipeline.documents.database_rows import RowsError, rows_of_keys
from pipeline.documents.dates import (
    DEFAULT_FIELDS,
    DEFAULT_ORDER,
    FILE_TIME,
    NO_DATE,
    DateFrom,
    Dating,
    DocumentDate,
    date_in_name,
    date_of_file,
    date_of_mail,
    date_of_property,
)
from pipeline.documents.encoding import DecodedText, UndecodableError, decode, decoded
from pipeline.documents.files import is_match, list_files
from pipeline.documents.front_matter import split_front_matter, taken_title
from pipeline.documents.inputs import with_inputs
from pipeline.documents.limited_converter import LimitedConverter, converter_name, is_converted
from pipeline.documents.listing import InputFile, Listing, content_of, not_read, one_line, unpacked
from pipeline.documents.mail import ATTACHMENT, MAILBOX
from pipeline.documents.mail import SUFFIX as MAIL
from pipeline.documents.metadata import as_json, cleaned, content_hash
from pipeline.documents.pdf import NO_TEXT
from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl
from pipeline.documents.titles import TITLE_ORDER, Found, Title, title_of
from pipeline.settings.inputs import Input, InputColumns, check_names
from pipeline.text.ids import clean, digest, document_id

WHOLE = frozenset({".txt", ".md", ".markdown", ".log"})
"""Suffixes of text files, each of which becomes one document."""
PLAIN = frozenset({".txt", ".log"})
NO_HEADINGS = PLAIN | {".pdf", ".xlsx", ".rtf", MAIL, MAILBOX}
"""Suffixes of texts in which # begins no heading, or one that is no title."""
NO_TITLE_LINES = frozenset({".xlsx", MAIL, MAILBOX})
"""Suffixes of files whose first line is never a title."""
FRONT_MATTER = frozenset({".txt", ".md", ".markdown"})
RECORDS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson"})
NO_INPUT = frozenset(
    {"unsupported", "needs_docs", NO_TEXT, "empty", "outside", "lock_file", ATTACHMENT}
)
"""Reasons why a file is no input. Such a reject does not count as a failure."""
_SHORT_DIGEST = 12
IN_A_FILE = "#:"
"""The characters that separate the name of a file from a record, a page or a line of it."""
MOUNTS = "mounts"
GUESSED = "encoding_guessed"
"""The reason of a reject that is a mere remark: the document is there."""


class LoadParams(Params):
    """The files to read, and how records and encodings are read.

    ``file_pattern`` is a glob below ``path``. If ``encoding`` is "", it is detected: UTF-8, UTF-16,
    or else the most likely of all; of equally likely ones the first of ``encodings``. ``mounts``
    are folders below ``path`` that were mount points in the last run. ``hashes`` is the folder in
    which hashes of files are kept between runs, "" for none. ``title_order`` has the origins of a
    document's title, the best first. ``dates_from`` are the origins of a
    document's date, the best first, and ``date_fields`` the fields of metadata that may hold it.
    ``day_first`` says whether 03/04/2024 is in April; None takes the year alone. ``columns`` has
    the columns of files of records that match a pattern, in place of those of all files.
    """

    # Not part of the fingerprint: a project may move, and the stamp covers the content.
    path: str = Field(default="data/input", exclude=True)
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    encoding: str = ""
    encodings: tuple[str, ...] = ("gb18030", "shift_jis", "cp1252")
    max_file_mb: int = Field(default=100, ge=1)
    title_order: tuple[Found, ...] = TITLE_ORDER
    dates_from: tuple[DateFrom, ...] = DEFAULT_ORDER
    date_fields: tuple[str, ...] = DEFAULT_FIELDS
    day_first: bool | None = None
    # The stamp covers the converter's name. Its words may be secrets, so they are never shown.
    converter: OwnConverters = Field(default="", exclude=True, repr=False)
    converter_folder: str = Field(default=".", exclude=True)
    convert_seconds: float = Field(default=900, gt=0)
    convert_mb: int = Field(default=768, ge=1)
    # `noted` hands them to the next run.
    mounts: tuple[str, ...] = Field(default=(), exclude=True)
    hashes: str = Field(default="", exclude=True)
    columns: dict[str, InputColumns] = Field(default_factory=dict)
    inputs: Annotated[tuple[Input, ...], AfterValidator(check_names)] = ()
    _listing: Listing | None = PrivateAttr(default=None)
    _people: dict[str, dict[str, str] | None] = PrivateAttr(default_factory=dict)

    def noted(self) -> Mapping[str, str]:
        """Return notes for the next run, which ``following`` reads."""
        return {MOUNTS: json.dumps(self.mounts)} if self.mounts else {}

    def following(self, last: Mapping[str, str]) -> Self:
        """Return params with the files as they are now; ``last`` are the notes of the last run.

        They say which folders were mount points. If such a folder is an empty ordinary folder now,
        its file system is not mounted, and the folder counts as not read.
        """
        before = json.loads(last.get(MOUNTS, "[]"))
        listing = self._list_now(before)
        found = self.model_copy(update={"mounts": listing.mounts})
        found._listing = listing
        found._people = {}
        return found

    @property
    def listing(self) -> Listing:
        """The files as they were listed last, or as they are now if they were not listed."""
        return self._listing or self._list_now(self.mounts)

    def _list_now(self, mounts: Collection[str]) -> Listing:
        """Return the files as they are now, those of archives among them.

        A converter of the user's own for archives gets them whole.
        """
        opens_archives = not is_converted(ARCHIVE, self.rules)
        most_mb = self.max_file_mb if opens_archives else 0
        prefixes = tuple(source.prefix for source in self.inputs)
        own = [name for name in mounts if not name.startswith(prefixes)] if prefixes else mounts
        first = list_files(self.path, self.file_pattern, own, self.hashes, most_mb)
        return with_inputs(first, self.inputs, mounts, most_mb) if self.inputs else first

    def input_of(self, name: str) -> Input | None:
        """Return the input beside the input folder that has a file, or None."""
        return next((each for each in self.inputs if name.startswith(each.prefix)), None)

    def params_for(self, name: str) -> Self:
        """Return the params for a file, which the settings of its input may change."""
        source = self.input_of(name)
        if source is None or source.title_order is None:
            return self
        return self.model_copy(update={"title_order": source.title_order})

    def with_listing(self) -> Self:
        """Return params that list the files once, and keep this list."""
        listed = self.model_copy()
        listed._listing = self.listing
        listed._people = {}
        return listed

    def columns_of(self, name: str) -> InputColumns:
        """Return the columns of a file of records: of the first pattern that its name matches."""
        of_all = InputColumns(id=self.id_column, title=self.title_column, text=self.text_column)
        source = self.input_of(name)
        columns = source.columns if source else self.columns
        below = name.removeprefix(source.prefix) if source else name
        found = (own for pattern, own in columns.items() if is_match(below, pattern))
        return next(found, of_all)

    def people_in(self, export: str) -> dict[str, str] | None:
        """Return the names of people of an export of Slack, or None if they cannot be read."""
        if export not in self._people:
            name = _name_below(export, PEOPLE)
            listed = next(file for file in self.listing.files if file.name == name)
            self._people[export] = None
            with suppress(OSError, *DAMAGED):
                content = b"" if listed.fault else content_of(listed)
                self._people[export] = people_of(decode(content, "utf-8", ()))
        return self._people[export]

    @property
    def rules(self) -> ConversionRules:
        """The converters of the user, and the limits of a conversion."""
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
    def _is_known_encoding(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        for name in names:
            if not name:
                continue
            try:
                codecs.lookup(name)
            except LookupError as error:
                raise ValueError(f"no encoding '{name}'; write one such as gb18030") from error
        return value


@dataclass(frozen=True)
class _Document:
    """A document before it becomes a row.

    The id is made from ``key``. ``line`` is the line of the record in its file.
    """

    key: str
    source: str
    title: Title
    text: str
    metadata: str
    line: int | None = None
    date: DocumentDate = NO_DATE
    aliases: Sequence[str] = ()


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
    return params.listing.version


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
    libraries=("charset-normalizer",),
    settings="input",
    stamp=input_digest,
    version=input_version,
)
def load_documents(
    params: LoadParams, converter: Converter | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read every matching file below ``path``; return DOCUMENTS and REJECTS.

    Files of the kinds txt, log, md and markdown become one document each. So do PDF, DOCX, PPTX,
    XLSX, EPUB, HTML, ODT and RTF with the extra ``docs``, and EML and IPYNB. Files of the kinds
    csv, tsv, json, jsonl and ndjson become one document for each record, mbox for each mail. Front
    matter of txt and Markdown (YAML between two lines of ---) gives title and metadata; the text
    begins after it. A conversation of ChatGPT is a record, a day of a Slack channel a document.
    Files in ZIP archives are read by their own kinds; their sources are ``archive.zip/file``.

    The id comes from the path below the folder. For records it comes from the id column, too, or
    from the record's content if there is none. So an edited file keeps its id.

    Rejects have these kinds: ``source`` is a file or folder that was not read, or in part only;
    ``row`` is a record of a file; ``record`` is a page (no_text_layer); ``recovered`` is a remark
    on a document (encoding_guessed); ``skipped`` is no input (unsupported, needs_docs,
    no_text_layer, empty, outside, lock_file, attachment). Other reasons are encoding, parse,
    in_part, unreadable, unmounted, io_error, duplicate_id, duplicate_row, too_large,
    too_slow, too_much_memory, crashed.

    Without a ``converter``, files are converted in separate processes each time. Raises
    SettingsError if there is no such folder, or no such converter of the user's own.
    """
    listed = params.with_listing()
    return read_files(find_files(listed), listed, converter)


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
    """
    contents = [content or "" for content in listing.contents]
    if not listing.exports:
        return contents
    content_of_name = dict(zip((file.name for file in listing.files), contents, strict=True))
    for number, file in enumerate(listing.files):
        export, channel = slack_place(file.name, listing.exports) or ("", "")
        if channel:
            people = content_of_name[_name_below(export, PEOPLE)]
            contents[number] = digest(contents[number], people)
    return contents


def _name_below(folder: str, name: str) -> str:
    """Return the name of a file in a folder, of which "" is the topmost one."""
    return f"{folder}/{name}" if folder else name


def read_files(
    files: pd.DataFrame, params: LoadParams, converter: Converter | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read these files (FILES); return DOCUMENTS and REJECTS.

    Two documents can have the same id only if the names of their files are equal up to the first
    ``#`` or ``:``. These characters also separate a file from its records and lines.
    """
    documents: dict[str, dict[str, Any]] = {}
    rejects = []
    wanted = dict(zip(files["name"], files["written"], strict=True))
    listed = [file for file in params.listing.files if file.name in wanted]
    listed = _with_cells(listed, params)
    with unpacked(listed) as files_to_read:
        conversions = _convert_files(files_to_read, params, converter or LimitedConverter())
        for file in files_to_read:
            unparsed: list[Fault] = []
            dating = _dating_of(file, wanted[file.name], params)
            # Of two files of one name in an archive, one has a fault and no conversion.
            conversion = None if file.fault else conversions.pop(file.name, None)
            for item in _read_file(file, params.params_for(file.name), conversion, dating):
                if isinstance(item, _Document):
                    row = _document_row(item)
                    if row["id"] not in documents:
                        documents[row["id"]] = row
                        continue
                    fault = _duplicate_fault(item)
                else:
                    fault = item
                rejects.append(_reject_row(file, fault))
                if fault.reason == "parse":
                    unparsed.append(fault)
            # A fault with a line is one of a record: the rest of the file was read.
            if unparsed and all(fault.line for fault in unparsed):
                rejects.append(_reject_row(file, _partial_fault(unparsed)))
    return DOCUMENTS.frame(list(documents.values())), REJECTS.frame(rejects)


def _dating_of(file: InputFile, written: str, params: LoadParams) -> Dating:
    """Return how documents of the file are dated; ``written`` is as in FILES."""
    of_file: dict[DateFrom, str] = {
        "file_name": date_in_name(PurePath(file.name).stem),
        "file_time": written,
    }
    return Dating(of_file, params.dates_from, params.date_fields, params.day_first)


def _document_row(document: _Document) -> dict[str, Any]:
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


def _duplicate_fault(document: _Document) -> Fault:
    message = f"{document.source} is there already; give the record an id of its own"
    return Fault("duplicate_id", message, document.line)


def _partial_fault(unparsed: Sequence[Fault]) -> Fault:
    """Return the fault of a file of which these records could not be parsed."""
    first = unparsed[0].line
    lost = f"the record at {first}"
    if len(unparsed) > 1:
        lost = f"{len(unparsed)} records (the first at {first})"
    return Fault("in_part", f"read but for {lost}; mend the file")


def _reject_row(file: InputFile, fault: Fault) -> dict[str, str]:
    """Return a row of REJECTS; its id is the file, with the line or the page of the fault."""
    place = file.name
    if fault.line:
        place = f"{file.name}:{fault.line}"
    elif fault.page:
        place = f"{file.name}#page={fault.page}"
    message = clean(f"{place}: {fault.message}")
    return {
        "step": "",
        "row_id": place,
        "kind": _reject_kind(fault),
        "reason": fault.reason,
        "message": message,
    }


def _reject_kind(fault: Fault) -> str:
    """Return the kind of the reject; the docstring of ``load_documents`` describes the kinds."""
    if fault.reason == GUESSED:
        return "recovered"
    if fault.page:
        return "record"
    if fault.reason in NO_INPUT:
        return "skipped"
    return "source" if fault.line is None else "row"


def _convert_files(
    files: Sequence[InputFile], params: LoadParams, converter: Converter
) -> dict[str, Converted]:
    """Convert the files that need it; return the results by the names of the files."""
    rules = params.rules
    wanted = [
        FileToConvert(file.path, file.name)
        for file in files
        if is_converted(file.suffix, rules) and _find_obstacle(file, params) is None
    ]
    conversions = converter.convert(wanted, rules) if wanted else []
    names = [file.name for file in wanted]
    return dict(zip(names, conversions, strict=True))


def _read_file(
    file: InputFile, params: LoadParams, conversion: Converted | None, dating: Dating
) -> Iterator[_Document | Fault]:
    """Yield the documents and faults of a file; ``conversion`` is its result if it needs one."""
    source = params.input_of(file.name)
    if file.kind == "sql" and source and not file.fault:
        yield _row_document(file, source, params, dating)
        return
    try:
        found = _read_content(file, params, conversion)
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
        yield from _converted_document(file, found, params, dating)
        return
    if not found.sure:
        message = (
            f"read as {found.encoding}, which is a guess; look at it, and set input.encoding or"
            " convert it to UTF-8 where it is wrong"
        )
        yield Fault(GUESSED, message)
    text = clean(found.text)
    if not text.strip():
        yield Fault("empty", "no text in it; remove it")
    elif file.suffix in RECORDS:
        yield from _record_documents(file, text, params, dating)
    else:
        yield _text_document(file, text, params, dating)


def _text_document(file: InputFile, text: str, params: LoadParams, dating: Dating) -> _Document:
    """Return the document of a text file; front matter gives its title and metadata."""
    fields, body = split_front_matter(text) if file.suffix in FRONT_MATTER else ({}, text)
    given, metadata = taken_title(fields)
    title = title_of(
        body, PurePath(file.name).stem, given=given, headings=file.suffix not in NO_HEADINGS,
        order=params.title_order,
    )  # fmt: skip
    mail = date_of_mail(body) if file.suffix in FRONT_MATTER else ""
    return _Document(
        file.name, file.name, title, body, as_json(metadata),
        date=dating.date_of("front_matter", fields, mail=mail), aliases=aliases_of(fields),
    )  # fmt: skip


def _converted_document(
    file: InputFile, found: Conversion, params: LoadParams, dating: Dating
) -> Iterator[_Document | Fault]:
    """Yield the documents of a converted file, and the faults of its parts.

    The metadata hold the offsets at which pages begin, and the converter's name.
    """
    text = clean(found.text)
    if not text.strip() and not found.documents:
        if found.faults:
            yield Fault(NO_TEXT, _no_text_message(found.faults))
        else:
            yield Fault("empty", "no text in it; remove it")
        return
    for fault in found.faults:
        yield Fault(fault.reason, fault.message, fault.line, fault.page)
    for part in found.documents:
        key = f"{file.name}#{clean(part.key)}"
        one = replace(found, text=part.text, title=part.title, metadata=part.metadata,
                      date=part.date)  # fmt: skip
        yield replace(_document_of(file, one, params, dating), key=key, source=key, line=part.line)
    if not found.documents:
        yield _document_of(file, found, params, dating)


def _document_of(
    file: InputFile, found: Conversion, params: LoadParams, dating: Dating
) -> _Document:
    """Return the document of a conversion."""
    text = clean(found.text)
    pages = {PAGES: list(found.pages)} if found.pages else {}
    metadata = as_json({**cleaned(found.metadata), **pages, "converter": found.converter})
    title = title_of(
        text, PurePath(file.name).stem, given=found.title, headings=file.suffix not in NO_HEADINGS,
        lines=file.suffix not in NO_TITLE_LINES, order=params.title_order,
    )  # fmt: skip
    fields = cleaned(found.metadata)
    return _Document(
        file.name, file.name, title, text, metadata,
        date=dating.date_of("metadata", fields, properties=date_of_property(found.date)),
        aliases=aliases_of(fields),
    )  # fmt: skip


def _no_text_message(faults: Sequence[PartFault]) -> str:
    """Return a message for a file none of whose pages has text."""
    if len(faults) == 1:
        return faults[0].message
    return f"none of its {len(faults)} pages has text: {faults[0].message}"


def _with_cells(files: Sequence[InputFile], params: LoadParams) -> list[InputFile]:
    """Return the files; rows of a database of which only the keys were listed have their cells."""
    found = {file.name: file for file in files if not file.fault}
    for source in params.inputs:
        if not source.changed:
            continue
        rows = [file for file in found.values() if file.name.startswith(source.prefix)]
        try:
            keys = [(file.fields or {})[source.id] for file in rows]
            cells = rows_of_keys(source, keys) if keys else {}
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


def _row_document(
    file: InputFile, source: Input, params: LoadParams, dating: Dating
) -> _Document | Fault:
    """Return the document of a row of a database, or its fault."""
    fields = {clean(name): cleaned(value) for name, value in (file.fields or {}).items()}
    text = clean(_as_text(fields.pop(source.text, None)))
    if not text.strip():
        return Fault("empty", f"no text in '{source.text}'; fill it or set text")
    fields.pop(source.id, None)
    given = " ".join(_as_text(fields.pop(source.title, None)).split())
    title = title_of(text, file.name, given=given, headings=False, order=params.title_order)
    date = dating.date_of("metadata", fields)
    return _Document(
        file.name, file.name, title, text, as_json(fields), date=date, aliases=aliases_of(fields)
    )


def _find_obstacle(file: InputFile, params: LoadParams) -> Fault | None:
    """Return the fault because of which the file is not read, or None."""
    if file.fault:
        return Fault(*file.fault)
    if file.suffix not in WHOLE | RECORDS and not is_converted(file.suffix, params.rules):
        known = ", ".join(sorted(suffix[1:] for suffix in WHOLE | RECORDS | CONVERTED))
        return Fault(
            "unsupported", f"suffix '{file.suffix}' is not read; convert it to one of {known}"
        )
    try:
        if file.path.stat().st_size > params.max_file_mb * 2**20:
            message = f"over {params.max_file_mb} MB; split it or set input.max_file_mb"
            return Fault("too_large", message)
    except OSError as error:
        return Fault(*not_read(error))
    return None


def _read_content(
    file: InputFile, params: LoadParams, conversion: Converted | None
) -> DecodedText | Conversion | Fault:
    """Return the text of the file, its conversion, or its fault.

    Raises OSError and UndecodableError if the file cannot be read or decoded.
    """
    fault = _find_obstacle(file, params)
    if fault:
        return fault
    if isinstance(conversion, NotConverted):
        return Fault(conversion.reason, conversion.message)
    if conversion:
        return conversion
    return decoded(file.path.read_bytes(), params.encoding, params.encodings)


def _record_documents(
    file: InputFile, text: str, params: LoadParams, dating: Dating
) -> Iterator[_Document | Fault]:
    """Yield the documents and faults of a file of records."""
    place = slack_place(file.name, params.listing.exports)
    if place:
        yield from _slack_documents(file, place, text, params, dating)
        return
    # The number of records of the same content so far, by a digest.
    seen: Counter[str] = Counter()
    for item in _read_records(file, text, params):
        if isinstance(item, Fault):
            yield item
        else:
            yield _record_document(file, item, params, seen, dating)


def _slack_documents(
    file: InputFile, place: tuple[str, str], text: str, params: LoadParams, dating: Dating
) -> Iterator[_Document | Fault]:
    """Yield the document of a day of a Slack channel, and the faults of its messages."""
    export, channel = place
    if not channel:
        yield LIST_OF_EXPORT
        return
    names = params.people_in(export)
    if names is None:
        yield NO_NAMES
        return
    date = PurePath(file.name).stem
    found = False
    for item in read_slack_day(text, names):
        if isinstance(item, Fault):
            yield item
            continue
        found = True
        title = title_of(
            item.text, date, given=f"{channel} {date}", headings=False, order=params.title_order
        )
        fields = {"channel": channel, "date": date, "people": item.people}
        yield _Document(
            file.name, file.name, title, clean(item.text), as_json(cleaned(fields)),
            date=dating.date_of("metadata", fields),
        )  # fmt: skip
    if not found:
        yield Fault("empty", "no message in it; nothing to do")


def _read_records(file: InputFile, text: str, params: LoadParams) -> Iterator[Record | Fault]:
    """Read the records of a file by its suffix; yield a fault for each unreadable one."""
    columns = params.columns_of(file.name)
    if file.suffix in (".csv", ".tsv"):
        yield from read_csv(text, columns.text)
        return
    for item in read_json(text) if file.suffix == ".json" else read_jsonl(text):
        if isinstance(item, Record) and is_chat(item.fields):
            names = (columns.id, columns.title, columns.text)
            yield Record(item.line, chat_fields(item.fields, names))
        else:
            yield item


def _record_document(
    file: InputFile, record: Record, params: LoadParams, seen: Counter[str], dating: Dating
) -> _Document | Fault:
    """Return the document of a record, or its fault."""
    fields = {clean(name): cleaned(value) for name, value in record.fields.items()}
    columns = params.columns_of(file.name)
    cell = fields.pop(columns.text, None)
    if isinstance(cell, dict | list):
        return Fault("parse", f"'{columns.text}' is not a text; write a string", record.line)
    text = _as_text(cell)
    if not text.strip():
        message = f"no text in '{columns.text}'; fill it or set input.text_column"
        return Fault("empty", message, record.line)
    identity = _as_text(fields.pop(columns.id, None)).strip()
    title = " ".join(_as_text(fields.pop(columns.title, None)).split())
    metadata = as_json(fields)
    if identity:
        key = source = f"{file.name}#{identity}"
    else:
        content = digest(title, text, metadata)
        suffix = f"-{seen[content]}" if seen[content] else ""
        seen[content] += 1
        key = f"{file.name}#{content}{suffix}"
        source = f"{file.name}#{content[:_SHORT_DIGEST]}{suffix}"
    named = title_of(text, source, given=title, headings=False, order=params.title_order)
    date = dating.date_of("metadata", fields)
    return _Document(key, source, named, text, metadata, record.line, date, aliases_of(fields))


def _as_text(value: object) -> str:
    """Return a cell as a text: "" for a missing one, JSON for one that is no text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
