"""OpenDocument texts (ODT): headings, lists, tables, notes, and what is no part of the text."""

import zipfile
from pathlib import Path

import pytest

from pipeline.documents.conversion import convert
from pipeline.verbs.load_documents import LoadParams, load_documents

SPACES = " ".join(
    f'xmlns:{short}="{name}"'
    for short, name in {
        "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
        "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
        "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
        "dc": "http://purl.org/dc/elements/1.1/",
    }.items()
)
BODY = """
<text:tracked-changes><text:p>deleted words</text:p></text:tracked-changes>
<text:h text:outline-level="2">The harbour</text:h>
<text:section><text:p>Built<text:s text:c="2"/>in <text:span>1871</text:span><text:note>
<text:note-citation>1</text:note-citation>
<text:note-body><text:p>Some say 1872.</text:p></text:note-body></text:note>.</text:p>
</text:section>
<text:list><text:list-item><text:p>lens</text:p><text:list><text:list-item><text:p>glass</text:p>
</text:list-item></text:list></text:list-item></text:list>
<table:table><table:table-row><table:table-cell><text:p>Year</text:p></table:table-cell>
<table:table-cell><text:p>Ships</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>7</text:p>
</table:table-cell>
<table:table-cell table:number-columns-repeated="1048576"/></table:table-row></table:table>
""".replace("\n", "")


def written(folder: Path, body: str, meta: str = "", head: str = "") -> Path:
    path = folder / "a.odt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        content = f"<office:body><office:text>{body}</office:text></office:body>"
        file.writestr("content.xml", f"{head}<office:document {SPACES}>{content}</office:document>")
        file.writestr("meta.xml", f"<office:document {SPACES}>{meta}</office:document>")
    return path


def test_the_text_keeps_its_form(tmp_path: Path):
    assert convert(written(tmp_path, BODY)).text.split("\n\n") == [
        "## The harbour",
        "Built  in 1871 (Some say 1872.).",
        "- lens\n  - glass",
        "| Year | Ships |\n| --- | --- |\n| 7 | 7 |",
    ]


def test_title_and_date_are_those_that_the_file_declares(tmp_path: Path):
    meta = "<dc:title>Of harbours</dc:title><dc:date>2024-05-03T10:45:00.12</dc:date>"
    written(tmp_path, "<text:p>Built in 1871.</text:p>", meta)
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert documents[["title", "date"]].to_numpy().tolist() == [["Of harbours", "2024-05-03"]]


ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("body", "head"),
    [("<text:p>&x;</text:p>", ENTITY), ("<text:p>", ""), ("", ""), ("<text:p/>" * 1000, "")],
)
def test_entities_damage_and_empty_texts_are_rejects(tmp_path: Path, body: str, head: str):
    written(tmp_path, body, head=head)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents.empty
    assert list(rejects["row_id"]) == ["a.odt"]


def test_a_file_that_unpacks_to_gigabytes_is_a_reject(tmp_path: Path):
    written(tmp_path, "<text:p>" + "a" * 400_000_000 + "</text:p>")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path), convert_mb=256))
    assert documents.empty
    assert list(rejects["reason"]) == ["too_much_memory"]
