"""Convert a mail (EML, RFC 5322), or the mails of a mailbox (mbox), to text.

The text says who wrote to whom and when, and then has the body.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

from pipeline.contract.conversion import Conversion, PartDocument, PartFault
from pipeline.documents.encoding import decoded
from pipeline.documents.office import convert_html
from pipeline.errors import in_words
from pipeline.text.ids import clean

SUFFIX = ".eml"
MAILBOX = ".mbox"
_SEPARATOR = re.compile(
    rb"From \S+ .*\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b.*\d{4}\s*"
)
"""The line above each mail of a mailbox. Lines of a text may begin with "From ", too."""
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
"""The beginning of a line of a text that a mailbox keeps from looking like a separator."""
_OF_READERS = re.compile(
    rb"^(?:Status|X-Status|X-Keywords|X-Mozilla-[^:\s]*):.*\n(?:[ \t].*\n)*",
    re.MULTILINE | re.IGNORECASE,
)
"""Headers that a program changes in its mailbox when a mail is read or marked."""
_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_DIGITS = 16
_MOST_SAID = 200
ATTACHMENT = "attachment"
"""The reason of a reject that names the attachments of a mail, which are not read."""
_FORM = 2
"""Raise this number when the same mail gives another text."""
_SHOWN = ("From", "To", "Cc", "Date")
"""The headers above the body. The subject is the title."""
FALLBACKS = ("cp1252",)
"""Encodings of a body whose own is unknown or wrong, and that is not UTF-8."""
_MOST_NAMED = 20
_OF_BODY = ("text/plain", "text/html")
"""The kinds of text of a body; of several forms of one text the first of these is taken."""


@dataclass
class _Parts:
    """The parts of a mail: ``texts`` of its body, in their order, and names of ``others``.

    ``others`` are not read: attachments, pictures, mails within the mail.
    """

    texts: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def mail_converter() -> str:
    """Return the name and version of this converter, and of the library for bodies in HTML."""
    try:
        return f"mail {_FORM}, markitdown {version('markitdown')}"
    except PackageNotFoundError:
        return f"mail {_FORM}"


def convert_mail(path: Path) -> Conversion:
    """Convert a mail. Its attachments are named in a fault, and not read.

    Raises ImportError if the body is HTML alone and the extra is missing, and what the parsers
    raise for a damaged mail.
    """
    with path.open("rb") as file:
        mail = BytesParser(policy=policy.default).parse(file)
    return conversion_of_mail(mail)


def conversion_of_mail(mail: EmailMessage) -> Conversion:
    """Return the text, the metadata and the faults of a mail; raises ValueError if it is empty."""
    parts = _read_parts(mail)
    return Conversion(
        _text_of(mail, parts.texts), mail_converter(), _header(mail, "Subject"), (),
        _metadata_of(mail), _faults(parts.others), _sent_on(mail),
    )  # fmt: skip


def convert_mailbox(path: Path) -> Conversion:
    """Convert a mailbox: each mail is a document, named by its message id or else by its content.

    A mail that cannot be read, or stands there twice, is a fault of its own. Raises ValueError for
    a file that is no mailbox, and ImportError as `convert_mail` does.
    """
    documents: dict[str, PartDocument] = {}
    faults: list[PartFault] = []
    parser = BytesParser(policy=policy.default)
    for line, content in enumerate(_mails_of(path), start=1):
        try:
            mail = parser.parsebytes(content)
            parts = _read_parts(mail)
            found = _mail_in_box(mail, parts, content, line)
        except ImportError:
            raise
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            fact = f"a mail that cannot be read ({in_words(error)[:_MOST_SAID]})"
            faults.append(PartFault("parse", f"{fact}; mend it or take it out", line=line))
            continue
        faults += [replace(fault, line=line) for fault in _faults(parts.others)]
        before = documents.setdefault(found.key, found)
        if before is not found:
            faults.append(_fault_of_second(found, before))
    return Conversion("", mail_converter(), faults=tuple(faults), documents=(*documents.values(),))


def _mails_of(path: Path) -> Iterator[bytes]:
    """Yield the mails of a mailbox. Raises ValueError for a file that is none.

    The library's reader is not used: it begins a mail at each line with "From ".
    """
    with path.open("rb") as file:
        if not _SEPARATOR.fullmatch(file.readline()):
            raise ValueError("no mailbox: its first line is none such as 'From m Fri May  3 2024'")
        lines: list[bytes] = []
        for line in file:
            if _SEPARATOR.fullmatch(line):
                yield _unquoted(lines)
                lines = []
            else:
                lines.append(line)
        yield _unquoted(lines)


def _unquoted(lines: Sequence[bytes]) -> bytes:
    """Return a mail as it was before it came into the mailbox, without empty lines at its end."""
    return _QUOTED.sub(rb"\1", b"".join(lines).rstrip(b"\r\n") + b"\n")


def _mail_in_box(mail: EmailMessage, parts: _Parts, content: bytes, line: int) -> PartDocument:
    """Return the document of a mail in a mailbox; raises ValueError if it has no headers."""
    if not mail.keys():
        raise ValueError("no headers")
    id = _header(mail, "Message-ID").strip("<> ")
    end = _END_OF_HEADERS.search(content)
    headers = content[: end.start() + 1] if end else content
    identity = _OF_READERS.sub(b"", headers.replace(b"\r", b"") + b"\n")
    identity += content[end.end() :] if end else b""
    key = id or hashlib.sha256(identity).hexdigest()[:_DIGITS]
    text = _text_of(mail, parts.texts)
    return PartDocument(
        key, line, text, _header(mail, "Subject"), _metadata_of(mail), _sent_on(mail)
    )


def _fault_of_second(found: PartDocument, before: PartDocument) -> PartFault:
    """Return the fault of a mail with the id of one before it, which has its text or another."""
    if replace(found, line=before.line) == before:
        return PartFault("duplicate_row", f"the mail at {before.line} again", line=found.line)
    message = f"another mail than that at {before.line}, with its message id; change the id"
    return PartFault("duplicate_id", message, line=found.line)


def _text_of(mail: EmailMessage, texts: Sequence[str]) -> str:
    """Return the headers that are shown and the texts of the body.

    A mail without a body still says who wrote to whom and when. Raises ValueError if there are
    neither headers nor a body.
    """
    headers = "\n".join(f"{name}: {value}" for name in _SHOWN if (value := _header(mail, name)))
    if not headers and not texts:
        raise ValueError("neither headers nor a body of a mail")
    return clean("\n\n".join(filter(None, [headers, *texts])))


def _metadata_of(mail: EmailMessage) -> dict[str, str]:
    """Return the headers that are metadata."""
    headers = (("from", "From"), ("to", "To"), ("message_id", "Message-ID"))
    return {name: value for name, header in headers if (value := _header(mail, header))}


def _header(mail: EmailMessage, name: str) -> str:
    """Return the value of a header in one line, or "" if there is none or it cannot be read."""
    try:
        value = mail[name]
    except (IndexError, AttributeError, TypeError, ValueError):
        # The parser of addresses raises these for some malformed headers.
        return ""
    return clean(" ".join(str(value or "").split()))


def _sent_on(mail: EmailMessage) -> str:
    """Return the day of the header Date, in the sender's time zone, or ""."""
    try:
        return parsedate_to_datetime(_header(mail, "Date")).date().isoformat()
    except (ValueError, IndexError, OverflowError):
        return ""


def _read_parts(mail: EmailMessage) -> _Parts:
    """Return the parts of a mail. Raises ValueError if it says that it has parts but has none."""
    if mail.get_content_maintype() == "multipart" and not mail.is_multipart():
        raise ValueError("its parts cannot be told apart: the line between them is not there")
    parts = _Parts()
    is_one_text = mail.get_content_maintype() == "text" and not mail.is_attachment()
    if is_one_text and mail.get_content_type() not in _OF_BODY:
        # A calendar entry or a text in Markdown that is the whole mail.
        parts.texts += filter(None, [_content(mail).strip()])
    else:
        _add_part(mail, parts)
    return parts


def _add_part(part: Any, parts: _Parts) -> None:
    """Add a part to those of its mail, with the parts within it."""
    kind = part.get_content_type()
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        within = part.get_payload()
        if kind == "multipart/alternative":
            _add_best(within, parts)
        elif kind == "multipart/related":
            root, *others = _root_first(part, within)
            _add_part(root, parts)
            parts.others += [_name_of(other) for other in others]
        else:
            for one in within:
                _add_part(one, parts)
    elif kind in _OF_BODY and not part.is_attachment():
        text = _text_of_part(part)
        if text:
            parts.texts.append(text)
    else:
        parts.others.append(_name_of(part))


def _add_best(alternatives: Sequence[Any], parts: _Parts) -> None:
    """Add that of several forms of one text that is plain, or else HTML; name what only others
    have.

    Texts of the other forms say the same, and their pictures belong to these.
    """
    best = None
    for wanted in _OF_BODY:
        best = best or next((one for one in alternatives if _has_text(one, wanted)), None)
    for one in alternatives:
        if one is best:
            _add_part(one, parts)
            continue
        for leaf in _leaves_of(one):
            is_text = leaf.get_content_maintype() == "text" and not leaf.is_attachment()
            is_blank = is_text and not _content(leaf).strip()
            is_of_form = best is not None and _belongs_to_form(leaf)
            if not is_of_form and not is_blank:
                parts.others.append(_name_of(leaf))


def _belongs_to_form(leaf: Any) -> bool:
    """Return whether a part is a text of a form, or a picture that such a text shows.

    A text with the name of a file was attached, whatever it says of itself.
    """
    if leaf.is_attachment():
        return False
    kind = leaf.get_content_maintype()
    is_text = kind == "text" and not leaf.get_filename()
    return is_text or (kind == "image" and leaf["Content-ID"] is not None)


def _has_text(part: Any, kind: str) -> bool:
    """Return whether a part is or has a text of this kind, not blank, that is no attachment."""
    for leaf in _leaves_of(part):
        is_of_kind = leaf.get_content_type() == kind and not leaf.is_attachment()
        if is_of_kind and _content(leaf).strip():
            return True
    return False


def _leaves_of(part: Any) -> Iterator[Any]:
    """Yield the parts within a part that have none themselves; a mail within the mail is one."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for within in part.get_payload():
            yield from _leaves_of(within)
    else:
        yield part


def _root_first(related: Any, within: Sequence[Any]) -> list[Any]:
    """Return related parts, first that to which the others belong (RFC 2387, section 3.2)."""
    start = related.get_param("start")
    root = next((part for part in within if start and part["Content-ID"] == start), within[0])
    return [root, *(part for part in within if part is not root)]


def _text_of_part(part: Any) -> str:
    content = _content(part)
    if part.get_content_subtype() == "html":
        content = convert_html(BytesIO(content.encode()))
    return content.strip()


def _content(part: Any) -> str:
    """Return the text of a part, in the encoding that it declares or, if that fails, another."""
    content = part.get_payload(decode=True) or b""
    try:
        return content.decode(part.get_content_charset("utf-8"))
    except (LookupError, UnicodeDecodeError):
        return decoded(content, "", FALLBACKS).text


def _faults(others: Sequence[str]) -> tuple[PartFault, ...]:
    """Return a fault that names the attachments, if there are any."""
    if not others:
        return ()
    more = len(others) - _MOST_NAMED
    named = ", ".join(others[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    message = f"its attachments are not read ({named}); save them beside it to have them read"
    return (PartFault(ATTACHMENT, message),)


def _name_of(part: Any) -> str:
    return clean(part.get_filename() or part.get_content_type())
