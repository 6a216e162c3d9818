"""Convert a mail (EML, RFC 5322) to text: who wrote to whom and when, and then the body."""

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

from pipeline.contract.conversion import Conversion, PartFault
from pipeline.documents.encoding import decoded
from pipeline.documents.office import convert_html
from pipeline.text.ids import clean

SUFFIX = ".eml"
ATTACHMENT = "attachment"
"""The reason of a reject that names the attachments of a mail, which are not read."""
_FORM = 1
"""Raise this number when the same mail gives another text."""
_SHOWN = ("From", "To", "Cc", "Date")
"""The headers above the body. The subject is the title."""
_FALLBACKS = ("cp1252",)
"""Encodings of a body whose own is unknown or wrong, and that is not UTF-8."""
_MOST_NAMED = 20


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
    lines = [f"{name}: {value}" for name in _SHOWN if (value := _header(mail, name))]
    body = _body_text(mail)
    if not lines and not body:
        raise ValueError("neither headers nor a body of a mail")
    text = "\n".join(lines) + f"\n\n{body}" if body else ""
    metadata = {
        name: value
        for name, header in (("from", "From"), ("to", "To"), ("message_id", "Message-ID"))
        if (value := _header(mail, header))
    }
    return Conversion(
        clean(text), mail_converter(), _header(mail, "Subject"), (), metadata, _faults(mail),
        _sent_on(mail),
    )  # fmt: skip


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


def _body_text(mail: EmailMessage) -> str:
    """Return the body as text; plain text is preferred to HTML."""
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
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
        return decoded(content, "", _FALLBACKS).text


def _faults(mail: EmailMessage) -> tuple[PartFault, ...]:
    """Return a fault that names the attachments, if there are any."""
    names = [_name_of(part) for part in mail.iter_attachments()]
    if not names:
        return ()
    more = len(names) - _MOST_NAMED
    named = ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    message = f"its attachments are not read ({named}); save them beside it to have them read"
    return (PartFault(ATTACHMENT, message),)


def _name_of(part: Any) -> str:
    return clean(part.get_filename() or part.get_content_type())
