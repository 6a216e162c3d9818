"""Mailboxes (mbox): each mail is a document, and one that is bad costs itself alone."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.documents.test_archives import WORKFLOW
from tests.documents.test_mail import mail_of
from tests.engine.documents.test_unread import kept, night
from tests.projects import new_project

DEEP = "".join(
    f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(1500)
).encode()


def numbered(number: int, body: str = "", attached: int = 0) -> bytes:
    mail = mail_of(body or f"Letter {number} from Quill Point.", attached=attached)
    del mail["Message-ID"]
    mail["Message-ID"] = f"<{number}@example.org>"
    return mail.as_bytes()


def box_of(*mails: bytes) -> bytes:
    return b"".join(b"From m@example.org Fri May  3 2024\n" + mail + b"\n\n" for mail in mails)


def read(folder: Path, content: bytes) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    (folder / "box.mbox").write_bytes(content)
    documents, rejects = load_documents(LoadParams(path=str(folder)))
    told = rejects[["row_id", "kind", "reason"]].itertuples(index=False, name=None)
    return dict(zip(documents["source"], documents["text"], strict=True)), list(told)


def test_each_mail_is_a_document_named_by_its_message_id(tmp_path: Path):
    plain = EmailMessage()
    plain["From"] = "m@example.org"
    plain.set_content("Without an id.")
    found, rejects = read(tmp_path, box_of(numbered(1), numbered(2), plain.as_bytes()))
    assert {"box.mbox#1@example.org", "box.mbox#2@example.org"} < set(found)
    assert len(found) == 3
    assert found["box.mbox#2@example.org"].endswith("Letter 2 from Quill Point.")
    assert rejects == []


def test_a_bad_mail_costs_itself_alone(tmp_path: Path):
    mails = [numbered(1), DEEP, numbered(1), numbered(1, "Another text."), numbered(2, attached=1)]
    found, rejects = read(tmp_path, box_of(*mails))
    assert set(found) == {"box.mbox#1@example.org", "box.mbox#2@example.org"}
    assert sorted(rejects) == [
        ("box.mbox", "source", "in_part"),
        ("box.mbox:2", "row", "parse"),
        ("box.mbox:3", "row", "duplicate_row"),
        ("box.mbox:4", "row", "duplicate_id"),
        ("box.mbox:5", "skipped", "attachment"),
    ]


def test_a_line_of_a_text_that_begins_with_from_begins_no_mail(tmp_path: Path):
    text = "From Quill Point we saw it.\n\nFrom 1871 on it burned.\n"
    box = box_of(numbered(1, f"{text}>From the tower.\n>>From it."), numbered(2))
    found, rejects = read(tmp_path, box)
    assert found["box.mbox#1@example.org"].endswith(f"{text}From the tower.\n>From it.")
    assert (len(found), rejects) == (2, [])


@pytest.mark.parametrize(
    "separator",
    [
        b"From - Tue Apr 29 10:15:00 2024", b"From m@x Mon May 03 10:15:00 +0000 2024",
        b"From MAILER-DAEMON Fri May  3 10:15:00 2024 +0200\r",
    ],
)  # fmt: skip
def test_a_separator_has_a_day_in_one_of_many_forms(tmp_path: Path, separator: bytes):
    mails = b"\n".join(separator + b"\n" + numbered(number) for number in (1, 2))
    assert len(read(tmp_path, mails)[0]) == 2


def test_a_piece_without_headers_is_a_reject_and_a_box_of_such_pieces_is_one(tmp_path: Path):
    bad = b"\nNo headers."
    found, rejects = read(tmp_path, box_of(numbered(1), bad))
    assert len(found) == 1
    assert ("box.mbox:2", "row", "parse") in rejects
    assert read(tmp_path, box_of(bad, bad)) == ({}, [("box.mbox", "source", "parse")])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_mail_without_an_id_keeps_its_name_when_it_is_read_or_marked(tmp_path: Path, end: bytes):
    mail = b"From: m@example.org\nSubject: Lens\n\nStatus: the lens is ready.\n"
    marks = b"X-Mozilla-Status: 0001\nstatus: RO\nX-Keywords: a,\n b\n"
    names = {
        name
        for head in (b"", marks)
        for name in read(tmp_path, box_of(head + mail).replace(b"\n", end))[0]
    }
    other = read(tmp_path, box_of(mail.replace(b"Status: the", b"Status: a")).replace(b"\n", end))
    assert len(names) == 1
    assert names.isdisjoint(other[0])


@pytest.mark.parametrize("content", [b"", b"\0\1\2\xff" * 100, b"A letter."])
def test_a_file_that_is_no_mailbox_is_a_reject(tmp_path: Path, content: bytes):
    found, rejects = read(tmp_path, content)
    assert found == {}
    assert len(rejects) == 1


def test_a_damaged_mail_keeps_its_document_and_one_that_is_gone_does_not(tmp_path: Path):
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    box = folder.root / "data/input/box.mbox"
    box.write_bytes(box_of(numbered(1), numbered(2, attached=3), numbered(3)))
    assert len(night(folder)[0]) == 4
    box.write_bytes(box_of(numbered(1), DEEP, numbered(2, "An edited letter.")))
    documents, rejects, _ = night(folder)
    assert documents["box.mbox#2@example.org"].endswith("An edited letter.")
    assert kept(rejects) == ["box.mbox#3@example.org"]
    box.write_bytes(box_of(numbered(1)))
    assert set(night(folder)[0]) == {"a.txt", "box.mbox#1@example.org"}


def test_mails_that_are_there_twice_do_not_keep_the_others_from_the_stores(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "mill", postgres_url, {})
    box = folder.root / "data/input/box.mbox"
    box.write_bytes(box_of(numbered(1), numbered(2)))
    with folder.open() as project:
        project.run("fast")
        box.write_bytes(box_of(numbered(1), numbered(2), numbered(1)))
        (folder.root / "data/input/new.txt").write_text("Mira Vale keeps the light of Corrow.")
        report = project.run("fast")
        assert (report.outcome, report.exit_code, report.notes) == ("completed", 0, ())
        assert report.load["postgres"]["documents"]["inserted"] == 1
        assert project.verify("fast").agrees


def test_a_mail_without_a_body_keeps_its_headers_and_its_attachment_is_named(tmp_path: Path):
    mail = (
        b"From: a@example.org\nMessage-ID: <7@example.org>\n"
        b"Content-Type: application/pdf; name=report.pdf\n\n%PDF\n"
    )
    texts, rejects = read(tmp_path, box_of(mail, numbered(2)))
    assert texts["box.mbox#7@example.org"] == "From: a@example.org"
    assert [reason for _, _, reason in rejects] == ["attachment"]
