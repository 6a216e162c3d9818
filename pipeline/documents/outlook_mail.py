"""Convert a mail that Outlook has saved (MSG, a compound file of MAPI properties) to text.

Its properties become the headers and the body of an ordinary mail, which then has the text, the
metadata and the rejects of one.
"""

import struct
from datetime import UTC, datetime, timedelta
from email.contentmanager import raw_data_manager
from email.message import EmailMessage
from email.policy import compat32
from email.utils import format_datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.contract.conversion import Conversion, PartFault
from pipeline.documents.encoding import decoded
from pipeline.documents.mail import FALLBACKS, conversion_of_mail, mail_converter
from pipeline.text.ids import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".msg"
_SUBJECT, _TO, _CC = "0037", "0E04", "0E03"
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP = "0C1A", "0C1F", "5D01"
_MESSAGE_ID, _BODY, _HTML, _RTF = "1035", "1000", "1013", "1009"
_ATTACHMENT_NAMES = ("3707", "3704", "3001")
"""The long file name, the short one, and the name that is shown."""
_UNICODE, _8_BIT, _BINARY = "001F", "001E", "0102"
_SENT, _DELIVERED = 0x0039, 0x0E06
_CODE_PAGES = (0x3FDE, 0x3FFD)
"""Properties with the number of the code page of 8-bit texts: of the body, of the mail."""
_UTF_8 = 65001
_PROPERTIES, _ATTACHMENT = "__properties_version1.0", "__attach_version1.0_"
_HEADER_OF_MAIL, _ENTRY = 32, 16
"""Bytes before the properties of a mail of the first level, and of each property."""
_FIRST_DAY = datetime(1601, 1, 1, tzinfo=UTC)
"""Times count tenths of microseconds since then."""


def outlook_converter() -> str:
    """Return name and version of the converter; raises PackageNotFoundError without the extra."""
    return f"olefile {version('olefile')}, {mail_converter()}"


def convert_outlook(path: Path) -> Conversion:
    """Convert a mail of Outlook. Its attachments are named in a fault, and not read.

    Raises ImportError without the extra, and what the library raises for a damaged file.
    """
    import olefile

    with olefile.OleFileIO(str(path)) as file:
        message = _Message(file)
        conversion = conversion_of_mail(message.as_mail())
        faults = conversion.faults
        if message.has_rtf_alone():
            fact = "its body is in RTF alone, which is not read"
            faults = (*faults, PartFault("in_part", f"{fact}; save it as EML to have it read"))
    return Conversion(
        conversion.text, outlook_converter(), conversion.title, (), conversion.metadata, faults,
        conversion.date,
    )  # fmt: skip


class _Message:
    """The properties of the mail in a compound file.

    A mail within it, and any other attachment, is only named, so that mails which contain each
    other do no harm.
    """

    def __init__(self, file: Any):
        self.file = file
        self.numbers = dict(self._numbers())
        if not self.numbers and not self._has(_SUBJECT) and not self._has(_BODY):
            raise ValueError("a compound file without the properties of a mail")

    def as_mail(self) -> EmailMessage:
        mail = EmailMessage(policy=compat32)
        name = self._text(_SENDER)
        address = self._text(_SENDER_SMTP) or self._text(_SENDER_ADDRESS)
        sender = name if address in ("", name) else f"{name} <{address}>".strip()
        headers = {
            "Subject": self._text(_SUBJECT), "From": sender, "To": self._text(_TO),
            "Cc": self._text(_CC), "Date": self._date(), "Message-ID": self._text(_MESSAGE_ID),
        }  # fmt: skip
        for header, value in headers.items():
            if line := " ".join(value.split()):
                mail[header] = line
        body, html = self._text(_BODY), self._text(_HTML)
        if body.strip():
            mail.set_content(body, content_manager=raw_data_manager)
        elif html.strip():
            mail.set_content(html, subtype="html", content_manager=raw_data_manager)
        for name in self._attachments():
            mail.add_attachment(
                b"", "application", "octet-stream", filename=name,
                content_manager=raw_data_manager,
            )  # fmt: skip
        return mail

    def has_rtf_alone(self) -> bool:
        has_text = self._text(_BODY).strip() or self._text(_HTML).strip()
        return not has_text and self._has(_RTF)

    def _attachments(self) -> "Iterator[str]":
        """Yield the name of each attachment."""
        paths = self.file.listdir(streams=True, storages=True)
        folders = {path[0] for path in paths if path[0].startswith(_ATTACHMENT)}
        for folder in sorted(folders):
            yield self._attachment_name(f"{folder}/")

    def _attachment_name(self, folder: str) -> str:
        """Return the name of the attachment in a folder of the file, on one line."""
        for property in _ATTACHMENT_NAMES:
            name = " ".join(self._text(property, folder).split())
            if name:
                return name
        return "without a name"

    def _date(self) -> str:
        """Return the time at which the mail was sent, or else delivered, as of a header."""
        time = self.numbers.get(_SENT) or self.numbers.get(_DELIVERED)
        if not time:
            return ""
        try:
            return format_datetime(_FIRST_DAY + timedelta(microseconds=time // 10))
        except (OverflowError, ValueError):
            return ""

    def _numbers(self) -> "Iterator[tuple[int, int]]":
        """Yield the properties of fixed length: numbers, and times as numbers."""
        if not self.file.exists(_PROPERTIES):
            return
        content = self.file.openstream(_PROPERTIES).read()
        for place in range(_HEADER_OF_MAIL, len(content) - _ENTRY + 1, _ENTRY):
            _, property, _, value = struct.unpack_from("<HHIQ", content, place)
            yield property, value

    def _has(self, property: str) -> bool:
        kinds = (_UNICODE, _8_BIT, _BINARY)
        return any(self.file.exists(_stream(property, kind)) for kind in kinds)

    def _text(self, property: str, folder: str = "") -> str:
        """Return a property as text, or "" if the mail, or the attachment, does not have it."""
        name = f"{folder}{_stream(property, _UNICODE)}"
        if self.file.exists(name):
            content = self.file.openstream(name).read().decode("utf-16-le", "replace")
            return clean(content.rstrip("\x00"))
        for kind in (_8_BIT, _BINARY):
            name = f"{folder}{_stream(property, kind)}"
            if self.file.exists(name):
                return clean(self._decode(self.file.openstream(name).read().rstrip(b"\x00")))
        return ""

    def _decode(self, content: bytes) -> str:
        """Decode a text by the code page that the mail names or, if that fails, by its looks."""
        for property in _CODE_PAGES:
            page = self.numbers.get(property, 0) & 0xFFFFFFFF
            encoding = "utf-8" if page == _UTF_8 else f"cp{page}"
            try:
                return content.decode(encoding)
            except (LookupError, UnicodeDecodeError):
                continue
        return decoded(content, "", FALLBACKS).text


def _stream(property: str, kind: str) -> str:
    return f"__substg1.0_{property}{kind}"
