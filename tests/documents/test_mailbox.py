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
