"""Read the documents of one file, or of one row of a database, by its kind."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from pipeline.contract.conversion import (
    PAGES,
    Conversion,
    Converted,
    NotConverted,
    PartFault,
)
from pipeline.documents.aliases import aliases_of
from pipeline.documents.conversations import (
    BROKEN_CHAT,
    LIST_OF_EXPORT,
    NO_NAMES,
    chat_fields,
    is_chat,
    read_slack_day,
    slack_place,
)
from pipeline.documents.conversion import CONVERTED
from pipeline.documents.dates import (
    NO_DATE,
    Dating,
    DocumentDate,
    date_of_mail,
    date_of_property,
)
from pipeline.documents.encoding import DecodedText, UndecodableError, decoded
from pipeline.documents.front_matter import SUFFIXES as FRONT_MATTER
from pipeline.documents.front_matter import split_front_matter, taken_title
from pipeline.documents.input_files import InputFile, not_read
from pipeline.documents.limited_converter import is_converted
from pipeline.documents.load_params import LoadParams
from pipeline.documents.mail import MAILBOX
from pipeline.documents.mail import SUFFIX as MAIL
from pipeline.documents.metadata import as_json, cleaned
from pipeline.documents.outlook_mail import SUFFIX as OUTLOOK
from pipeline.documents.pdf import NO_TEXT
from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl
from pipeline.documents.titles import Title, title_of
from pipeline.settings.inputs import Input, InputColumns
from pipeline.text.ids import clean, digest

WHOLE = frozenset({".txt", ".md", ".markdown", ".log"})
"""Suffixes of text files, each of which becomes one document."""
PLAIN = frozenset({".txt", ".log"})
NO_HEADINGS = PLAIN | {".pdf", ".xlsx", ".rtf", MAIL, MAILBOX, OUTLOOK}
"""Suffixes of texts in which # begins no heading, or one that is no title."""
NO_TITLE_LINES = frozenset({".xlsx", MAIL, MAILBOX, OUTLOOK})
"""Suffixes of files whose first line is never a title."""
RECORDS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson"})
_SHORT_DIGEST = 12
GUESSED = "encoding_guessed"
"""The reason of a reject that is a mere remark: the document is there."""


@dataclass(frozen=True)
class FileDocument:
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


def documents_of_file(
    file: InputFile, params: LoadParams, conversion: Converted | None, dating: Dating
) -> Iterator[FileDocument | Fault]:
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


def _text_document(file: InputFile, text: str, params: LoadParams, dating: Dating) -> FileDocument:
    """Return the document of a text file; front matter gives its title and metadata."""
    fields, body = split_front_matter(text) if file.suffix in FRONT_MATTER else ({}, text)
    given, metadata = taken_title(fields)
    title = title_of(
        body, PurePath(file.name).stem, given=given, headings=file.suffix not in NO_HEADINGS,
        order=params.title_order,
    )  # fmt: skip
    mail = date_of_mail(body) if file.suffix in FRONT_MATTER else ""
    return FileDocument(
        file.name, file.name, title, body, as_json(metadata),
        date=dating.date_of("front_matter", fields, mail=mail), aliases=aliases_of(fields),
    )  # fmt: skip


def _converted_document(
    file: InputFile, found: Conversion, params: LoadParams, dating: Dating
) -> Iterator[FileDocument | Fault]:
    """Yield the documents of a converted file, and the faults of its parts.

    The metadata hold the offsets at which pages begin, and the converter's name.
    """
    # A small file can be packed so that its text is larger than any text file that is read.
    too_large = _find_too_large(found.text, params)
    if too_large:
        yield too_large
        return
    text = clean(found.text)
    if not text.strip() and not found.documents:
        unparsed = [fault for fault in found.faults if fault.reason == "parse"]
        if unparsed:
            message = f"none of its {len(unparsed)} mails can be read: {unparsed[0].message}"
            yield Fault("parse", message)
        elif found.faults:
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


def _find_too_large(text: str, params: LoadParams) -> Fault | None:
    """Return the fault of a text that is longer than a file may be, or None."""
    if len(text) <= params.max_file_mb * 2**20:
        return None
    message = f"its text has over {params.max_file_mb} MB; split it or set input.max_file_mb"
    return Fault("too_large", message)


def _document_of(
    file: InputFile, found: Conversion, params: LoadParams, dating: Dating
) -> FileDocument:
    """Return the document of a conversion."""
    text = clean(found.text)
    pages = {PAGES: list(found.pages)} if found.pages else {}
    metadata = as_json({**cleaned(found.metadata), **pages, "converter": found.converter})
    title = title_of(
        text, PurePath(file.name).stem, given=found.title, headings=file.suffix not in NO_HEADINGS,
        lines=file.suffix not in NO_TITLE_LINES, order=params.title_order,
    )  # fmt: skip
    fields = cleaned(found.metadata)
    return FileDocument(
        file.name, file.name, title, text, metadata,
        date=dating.date_of("metadata", fields, properties=date_of_property(found.date)),
        aliases=aliases_of(fields),
    )  # fmt: skip


def _no_text_message(faults: Sequence[PartFault]) -> str:
    """Return a message for a file none of whose pages has text."""
    if len(faults) == 1:
        return faults[0].message
    return f"none of its {len(faults)} pages has text: {faults[0].message}"


def _row_document(
    file: InputFile, source: Input, params: LoadParams, dating: Dating
) -> FileDocument | Fault:
    """Return the document of a row of a database, or its fault."""
    fields = {clean(name): cleaned(value) for name, value in (file.fields or {}).items()}
    text = clean(_as_text(fields.pop(source.text, None)))
    if not text.strip():
        return Fault("empty", f"no text in '{source.text}'; fill it or set text")
    too_large = _find_too_large(text, params)
    if too_large:
        return too_large
    fields.pop(source.id, None)
    given = " ".join(_as_text(fields.pop(source.title, None)).split())
    title = title_of(text, file.name, given=given, headings=False, order=params.title_order)
    date = dating.date_of("metadata", fields)
    return FileDocument(
        file.name, file.name, title, text, as_json(fields), date=date, aliases=aliases_of(fields)
    )


def find_obstacle(file: InputFile, params: LoadParams) -> Fault | None:
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
    if isinstance(conversion, NotConverted):
        return Fault(conversion.reason, conversion.message)
    if conversion:
        return conversion
    fault = find_obstacle(file, params)
    if fault:
        return fault
    return decoded(file.path.read_bytes(), params.encoding, params.encodings)


def _record_documents(
    file: InputFile, text: str, params: LoadParams, dating: Dating
) -> Iterator[FileDocument | Fault]:
    """Yield the documents and faults of a file of records."""
    place = slack_place(file.name, params.listing.exports)
    if place:
        yield from _slack_documents(file, place, text, params, dating)
        return
    # The number of records of the same content so far, by a digest.
    seen: Counter[str] = Counter()
    columns = params.columns_of(file.name)
    for item in _read_records(file, text, columns):
        if isinstance(item, Fault):
            yield item
        else:
            yield _record_document(file, item, columns, params, seen, dating)


def _slack_documents(
    file: InputFile, place: tuple[str, str], text: str, params: LoadParams, dating: Dating
) -> Iterator[FileDocument | Fault]:
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
        found = True
        if isinstance(item, Fault):
            yield item
            continue
        title = title_of(
            item.text, date, given=f"{channel} {date}", headings=False, order=params.title_order
        )
        fields = {"channel": channel, "date": date, "people": item.people}
        yield FileDocument(
            file.name, file.name, title, clean(item.text), as_json(cleaned(fields)),
            date=dating.date_of("metadata", fields),
        )  # fmt: skip
    if not found:
        yield Fault("empty", "no message in it; nothing to do")


def _read_records(file: InputFile, text: str, columns: InputColumns) -> Iterator[Record | Fault]:
    """Read the records of a file by its suffix; yield a fault for each unreadable one."""
    if file.suffix in (".csv", ".tsv"):
        yield from read_csv(text, columns.text)
        return
    for item in read_json(text) if file.suffix == ".json" else read_jsonl(text):
        if isinstance(item, Record) and is_chat(item.fields):
            names = (columns.id, columns.title, columns.text)
            fields = chat_fields(item.fields, names)
            yield Record(item.line, fields) if fields else Fault("parse", BROKEN_CHAT, item.line)
        else:
            yield item


def _record_document(
    file: InputFile,
    record: Record,
    columns: InputColumns,
    params: LoadParams,
    seen: Counter[str],
    dating: Dating,
) -> FileDocument | Fault:
    """Return the document of a record, or its fault."""
    fields = {clean(name): cleaned(value) for name, value in record.fields.items()}
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
    return FileDocument(key, source, named, text, metadata, record.line, date, aliases_of(fields))


def _as_text(value: object) -> str:
    """Return a cell as a text: "" for a missing one, JSON for one that is no text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
