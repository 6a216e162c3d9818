"""Mails (EML): what becomes text, title, date and metadata, and what is named but not read."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from pipeline.documents.conversion import convert
from pipeline.documents.mail import ATTACHMENT
from pipeline.verbs.load_documents import LoadParams, load_documents


def mail_of(body: str = "The lens is ready.", html: str = "", attached: int = 0) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Mira Vale <mira@example.org>"
    mail["To"] = "Anselm Torr <torr@example.org>, governor@example.org"
    mail["Date"] = "Fri, 03 May 2024 23:30:00 +0200"
    mail["Subject"] = "Die Linse für Quill Point 灯塔"
    mail["Message-ID"] = "<1@example.org>"
    if body:
        mail.set_content(body)
    if html:
        mail.add_alternative(html, subtype="html")
    for number in range(attached):
        name = f"{number}.pdf"
        mail.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename=name)
    return mail


def written(folder: Path, mail: EmailMessage | bytes, name: str = "a.eml") -> Path:
    path = folder / name
    path.write_bytes(mail if isinstance(mail, bytes) else mail.as_bytes())
    return path


def test_headers_stand_above_the_plain_body_and_give_title_date_and_metadata(tmp_path: Path):
    found = convert(written(tmp_path, mail_of(html="<p>Another form</p>")))
    assert found.text.splitlines() == [
        "From: Mira Vale <mira@example.org>",
        "To: Anselm Torr <torr@example.org>, governor@example.org",
        "Date: Fri, 03 May 2024 23:30:00 +0200",
        "",
        "The lens is ready.",
    ]
    assert (found.title, found.date) == ("Die Linse für Quill Point 灯塔", "2024-05-03")
    assert found.metadata == {
        "from": "Mira Vale <mira@example.org>",
        "to": "Anselm Torr <torr@example.org>, governor@example.org",
        "message_id": "<1@example.org>",
    }
    assert found.faults == ()


def test_a_body_in_html_alone_becomes_markdown(tmp_path: Path):
    found = convert(written(tmp_path, mail_of("", "<h1>Linse</h1><p>Sie ist <b>fertig</b>: 灯塔.")))
    assert "# Linse" in found.text
    assert "Sie ist **fertig**: 灯塔." in found.text


@pytest.mark.parametrize("charset", ["utf-8", "no-such-charset"])
def test_a_body_in_another_encoding_than_declared_is_read(tmp_path: Path, charset: str):
    head = f"From: m@example.org\nContent-Type: text/plain; charset={charset}\n"
    body = "Die Prüfung der Türme wäre für später.".encode("cp1252")
    content = head.encode() + b"Content-Transfer-Encoding: 8bit\n\n" + body
    assert "Prüfung der Türme wäre" in convert(written(tmp_path, content)).text


@pytest.mark.parametrize(
    "headers",
    ["To: <<a@@b>,;:\n", "Date: yesterday\n", "Date: Fri, 99 May 2024 10:00\n", "From: =?x?q?=\n"],
)
def test_a_header_that_cannot_be_read_costs_itself_alone(tmp_path: Path, headers: str):
    content = f"{headers}Subject: Lens\n\nThe lens is ready.".encode()
    found = convert(written(tmp_path, content))
    assert (found.title, found.date) == ("Lens", "")
    assert found.text.endswith("The lens is ready.")


HEAD = b"From: a@example.org\nSubject: s\nMIME-Version: 1.0\n"


def multipart(kind: str, *parts: bytes) -> bytes:
    """Return a multipart of this kind, without the headers of a mail."""
    boundary = kind.encode()
    within = b"".join(b"--" + boundary + b"\n" + part + b"\n" for part in parts)
    head = b"Content-Type: multipart/" + boundary + b"; boundary=" + boundary
    return head + b"\n\n" + within + b"--" + boundary + b"--\n"


def leaf(kind: str, content: str, name: str = "") -> bytes:
    named = f"; name={name}" if name else ""
    return f"Content-Type: {kind}{named}\n\n{content}".encode()


PLAIN = leaf("text/plain", "plain")
HTML = leaf("text/html", "<p>html</p>")
PDF = leaf("application/pdf", "%PDF", "contract.pdf")
LOGO = leaf("image/png", "png", "logo.png")
SHOWN = b"Content-ID: <1@example.org>\n" + LOGO
LOG = leaf("text/plain", "log", "log.txt")
RFC822 = "message/rfc822"
INNER = leaf(RFC822, "From: b@example.org\nContent-Type: text/plain\n\nInner")
FILES = "log.txt, logo.png"
BODY = "From: a@example.org"


@pytest.mark.parametrize(
    ("content", "texts", "named"),
    [
        (multipart("alternative", PLAIN, multipart("mixed", HTML, PDF)), ["plain"], "contract.pdf"),
        (multipart("mixed", multipart("related", HTML, PDF)), ["html"], "contract.pdf"),
        (multipart("mixed", multipart("alternative", PLAIN, HTML), PDF), ["plain"], "contract.pdf"),
        (multipart("alternative", PLAIN, multipart("related", HTML, SHOWN)), ["plain"], ""),
        (multipart("related", HTML, LOGO), ["html"], "logo.png"),
        (multipart("mixed", PLAIN, PDF, HTML), ["plain", "html"], "contract.pdf"),
        (multipart("alternative", PDF, LOGO), [], "contract.pdf, logo.png"),
        (PDF, [], "contract.pdf"),
        (multipart("alternative", PLAIN, multipart("mixed", HTML, LOG, LOGO)), ["plain"], FILES),
        (multipart("alternative", leaf("text/plain", " "), HTML), ["html"], ""),
        (multipart("alternative", leaf("text/plain", " ")), [], ""),
        (multipart("alternative", PLAIN, multipart("mixed", HTML, INNER)), ["plain"], RFC822),
        (multipart("alternative", INNER, HTML), ["html"], RFC822),
        (leaf("text/markdown", "# Lens"), ["# Lens"], ""),
        (INNER, [], RFC822),
    ],
)
def test_each_part_of_a_mail_is_text_or_named(
    tmp_path: Path, content: bytes, texts: list[str], named: str
):
    found = convert(written(tmp_path, HEAD + content))
    assert found.text.split("\n\n") == [BODY, *texts]
    messages = [fault.message for fault in found.faults]
    expected = f"its attachments are not read ({named}); save them beside it to have them read"
    assert messages == ([expected] if named else [])


@pytest.mark.parametrize("kind", [b"multipart/mixed", b"multipart/mixed; boundary=other"])
def test_a_mail_whose_parts_cannot_be_told_apart_is_a_reject(tmp_path: Path, kind: bytes):
    written(tmp_path, HEAD + b"Content-Type: " + kind + b"\n\n--x\n" + PLAIN + b"\n--x--\n")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents.empty
    [reject] = rejects.to_dict("records")
    assert reject["reason"] == "parse"
    assert "the line between them" in reject["message"]


def test_many_attachments_are_one_reject_that_names_some(tmp_path: Path):
    written(tmp_path, mail_of(attached=1000))
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert list(documents["title"]) == ["Die Linse für Quill Point 灯塔"]
    assert list(documents["date"]) == ["2024-05-03"]
    [reject] = rejects.to_dict("records")
    assert (reject["row_id"], reject["kind"], reject["reason"]) == ("a.eml", "skipped", ATTACHMENT)
    assert "0.pdf, 1.pdf" in reject["message"]
    assert "and 980 more" in reject["message"]


@pytest.mark.parametrize("content", [b"", b"\0\1\2\xff" * 100, b"\n\n"])
def test_a_file_that_is_no_mail_is_a_reject(tmp_path: Path, content: bytes):
    written(tmp_path, content)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents.empty
    assert len(rejects) == 1


def test_parts_within_parts_without_end_are_a_reject_and_no_crash(tmp_path: Path):
    depth = 3000
    parts = [f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(depth)]
    written(tmp_path, "".join(parts).encode())
    written(tmp_path, mail_of(), "good.eml")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert list(documents["source"]) == ["good.eml"]
    assert list(rejects["row_id"]) == ["a.eml"]
