"""Mails that Outlook has saved become documents as other mails do; damaged ones are rejects."""

import struct
from pathlib import Path

import pytest

from pipeline.contract.conversion import Conversion, ConversionRules, FileToConvert, NotConverted
from pipeline.documents.conversion import convert
from pipeline.documents.limited_converter import LimitedConverter
from tests.documents.compound_files import Tree, compound_file, properties, text

pytest.importorskip("olefile")

SENT = 133_592_004_000_000_000  # 2024-05-03 09:00 UTC
HEAD: Tree = {
    **text("0037", "The lamp at Skarrow"),
    **text("0C1A", "Mira Vale"),
    **text("5D01", "mira@example.org"),
    **text("0E04", "Anselm Torr; Idra Senn"),
    **text("1035", "<lamp-1@example.org>"),
    **properties(x0039=SENT),
}
BODY = text("1000", "Dear Anselm,\r\n\r\nthe lamp burns. Grüße\r\nMira")


def attachment(name: str, size: int = 7000) -> Tree:
    return {**text("3707", name), "__substg1.0_37010102": b"c" * size}


def converted(tmp_path: Path, tree: Tree) -> Conversion:
    path = tmp_path / "mail.msg"
    path.write_bytes(compound_file(tree))
    return convert(path)


def test_a_mail_has_its_headers_its_body_and_its_attachments_named(tmp_path: Path):
    found = converted(
        tmp_path,
        {
            **HEAD,
            **BODY,
            "__attach_version1.0_#00000000": attachment("plan.pdf"),
            "__attach_version1.0_#00000001": {**text("3001", "an older mail"), "x": BODY},
        },
    )
    assert found.title == "The lamp at Skarrow"
    assert found.text.splitlines() == [
        "From: Mira Vale <mira@example.org>",
        "To: Anselm Torr; Idra Senn",
        "Date: Fri, 03 May 2024 09:00:00 +0000",
        "",
        "Dear Anselm,",
        "",
        "the lamp burns. Grüße",
        "Mira",
    ]
    assert found.date == "2024-05-03"
    assert found.metadata["message_id"] == "<lamp-1@example.org>"
    (fault,) = found.faults
    assert (fault.reason, "plan.pdf, an older mail" in fault.message) == ("attachment", True)


def test_a_body_in_html_alone_is_read(tmp_path: Path):
    pytest.importorskip("markitdown")
    html = b"<p>The <b>lamp</b> burns.</p>"
    found = converted(tmp_path, {**HEAD, "__substg1.0_10130102": html})
    assert found.text.endswith("The **lamp** burns.")


def test_texts_of_a_code_page_are_decoded_by_it(tmp_path: Path):
    found = converted(
        tmp_path,
        {
            "__substg1.0_0037001E": "Лампа".encode("cp1251"),
            "__substg1.0_1000001E": "Лампа горит.".encode("cp1251"),
            **properties(x3FDE=1251),
        },
    )
    assert (found.title, found.text.strip()) == ("Лампа", "Лампа горит.")


def test_a_body_in_rtf_alone_is_told(tmp_path: Path):
    found = converted(tmp_path, {**HEAD, "__substg1.0_10090102": b"compressed"})
    assert [fault.reason for fault in found.faults] == ["in_part"]


def test_of_a_thousand_attachments_some_are_named(tmp_path: Path):
    many = {f"__attach_version1.0_#{number:08X}": attachment(f"{number}.txt", 10)
            for number in range(1000)}  # fmt: skip
    (fault,) = converted(tmp_path, {**HEAD, **BODY, **many}).faults
    assert "and 980 more" in fault.message


@pytest.mark.parametrize(
    ("storage", "within"),
    [
        ("__attach_version1.0_#00000000", "__attach_version1.0_#00000000"),
        ("__substg1.0_3701000D", "__attach_version1.0_#00000000"),
        ("__substg1.0_3701000D", "Root Entry"),
    ],
)
def test_an_attachment_that_contains_itself_is_named_once(
    tmp_path: Path, storage: str, within: str
):
    inner = {**text("3001", "inner"), "__substg1.0_3701000D": BODY}
    content = bytearray(compound_file({**HEAD, **BODY, "__attach_version1.0_#00000000": inner}))
    first, changed, target = (
        content.index(name.encode("utf-16-le")) for name in ("Root Entry", storage, within)
    )
    struct.pack_into("<I", content, changed + 76, (target - first) // 128)
    path = tmp_path / "mail.msg"
    path.write_bytes(bytes(content))
    (fault,) = convert(path).faults
    assert fault.reason == "attachment"
    assert "more" not in fault.message


def rejects_of(tmp_path: Path, contents: dict[str, bytes]) -> dict[str, str]:
    """The reasons of the files that could not be converted, each within 10 seconds."""
    files: list[FileToConvert] = []
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        files.append(FileToConvert(tmp_path / name, name))
    results = LimitedConverter().convert(files, ConversionRules(seconds=10))
    pairs = zip(contents, results, strict=True)
    return {name: one.reason for name, one in pairs if isinstance(one, NotConverted)}


def test_damaged_files_are_rejects_and_hinder_no_other(tmp_path: Path):
    whole = compound_file({**HEAD, **BODY})
    entry = whole.index("__substg1.0_0037001F".encode("utf-16-le"))
    names_itself = bytearray(whole)
    own_number = (entry - 512) // 128 % 4
    struct.pack_into("<III", names_itself, entry + 68, own_number, own_number, own_number)
    contents = {
        "good.msg": whole,
        "empty.msg": b"",
        "text.msg": b"From: Mira Vale\n\nThe lamp burns.",
        "header.msg": whole[:512],
        "other.msg": compound_file({"WordDocument": b"text" * 2000}),
        "cyclic.msg": bytes(names_itself),
    }
    reasons = rejects_of(tmp_path, contents)
    assert "good.msg" not in reasons
    wrong = {"empty.msg", "text.msg", "header.msg", "other.msg"}
    assert {name: reasons.get(name) for name in wrong} == dict.fromkeys(wrong, "parse")
    assert reasons.get("cyclic.msg") in (None, "parse")


def test_a_file_that_is_cut_anywhere_ends_soon(tmp_path: Path):
    whole = compound_file({**HEAD, **BODY, "__attach_version1.0_#00000000": attachment("a.txt")})
    contents = {f"{length}.msg": whole[:length] for length in range(0, len(whole), 1531)}
    reasons = rejects_of(tmp_path, contents)
    assert set(reasons.values()) == {"parse"}


def test_without_the_extra_the_reject_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "pipeline.documents.limited_converter.converter_for", lambda suffix, articles=False: ""
    )
    path = tmp_path / "mail.msg"
    path.write_bytes(compound_file({**HEAD, **BODY}))
    (found,) = LimitedConverter().convert([FileToConvert(path, "mail.msg")], ConversionRules())
    assert isinstance(found, NotConverted)
    assert (found.reason, "olefile" in found.message) == ("needs_docs", True)
    assert "'graphmill[docs]'" in found.message or "docs" in found.message
