import json
import re
import zipfile
from datetime import date, datetime
from pathlib import Path

import pytest
from openpyxl import Workbook
from pptx import Presentation

from pipeline.documents.conversion import convert
from pipeline.verbs.load_documents import LoadParams, load_documents

DOCX = {
    "[Content_Types].xml": (
        """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml"
 ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>
<Override PartName="/word/styles.xml"
 ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>"""
    ),
    "_rels/.rels": (
        """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Target="word/document.xml"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>"""
    ),
    "word/_rels/document.xml.rels": (
        """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Target="styles.xml"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles"/></Relationships>"""
    ),
    "word/styles.xml": (
        """<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>"""  # noqa: E501
    ),
}
"""A file as a German Word writes it: styles have German ids and English names."""
OPF = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>The Skarrow Lamp</dc:title><dc:creator>Ada Holm</dc:creator></metadata>
<manifest><item id="one" href="one.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="one"/></spine></package>"""
CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book.opf"/></rootfiles></container>"""


def packed(path: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def docx(path: Path, *paragraphs: tuple[str, str], title: str = "") -> Path:
    """Write a DOCX file with these paragraphs of (style, text)."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    core = f'<core xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></core>'
    document = f"<w:document {space}><w:body>{body}</w:body></w:document>"
    return packed(path, {**DOCX, "word/document.xml": document, "docProps/core.xml": core})


@pytest.mark.parametrize(
    ("paragraphs", "title", "found"),
    [
        (
            [("Titel", "Quarterly Plan"), ("berschrift1", "Goals")],
            "Old template",
            ("Quarterly Plan", "given"),
        ),
        ([("berschrift1", "Goals")], "Quarterly Plan", ("Quarterly Plan", "given")),
        ([("berschrift1", "Goals")], "Microsoft Word - plan.doc", ("Goals", "heading")),
        ([("Normal", "Dear all,")], "Document1", ("Dear all,", "first_line")),
    ],
)
def test_the_title_of_docx_is_its_title_paragraph_or_else_its_property(
    tmp_path: Path, paragraphs: list[tuple[str, str]], title: str, found: tuple[str, str]
):
    docx(tmp_path / "a.docx", *paragraphs, ("Normal", "Words of it."), title=title)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert rejects.empty
    assert (documents["title"].item(), documents["title_from"].item()) == found
    assert paragraphs[0][1] in documents["text"].item()


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            "<title>The Skarrow Lamp</title></head><body><h1>Menu</h1>",
            ("The Skarrow Lamp", "given"),
        ),
        ("<title>Untitled</title></head><body><h1>The lamp</h1>", ("The lamp", "heading")),
        ("</head><body>", ("Words.", "first_line")),
    ],
)
def test_the_title_of_html_is_preferred_to_its_headings(
    tmp_path: Path, page: str, found: tuple[str, str]
):
    (tmp_path / "a.html").write_text(f"<html><head>{page}<p>Words.</p></body></html>")
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert (documents["title"].item(), documents["title_from"].item()) == found


def test_a_workbook_has_a_table_for_each_sheet(tmp_path: Path):
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Oil"
    sheet.append(["Keeper", "Gallons", None, "On"])
    sheet.append(["Ada|Otto", 40.0, None, date(1871, 3, 1)])
    sheet.append([None, 1.5, "x\ny", datetime(1871, 3, 1, 6)])
    sheet.append([None, None, None, None])
    book.create_sheet("Empty")
    book.save(tmp_path / "books of 1871.xlsx")
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert (
        documents["text"].item()
        == "## Oil\n\n| Keeper | Gallons |  | On |\n| --- | --- | --- | --- |\n| Ada\\|Otto | 40 | "
        " | 1871-03-01 |\n|  | 1.5 | x y | 1871-03-01T06:00:00 |"
    )
    assert documents[["title", "title_from"]].to_numpy().tolist() == [
        ["books of 1871", "file_name"]
    ]
    assert json.loads(documents["metadata"].item())["converter"].startswith("openpyxl ")


def test_slides_are_pages(tmp_path: Path):
    show = Presentation()
    for name in ("Lamp", "Oil"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        title = slide.shapes.title
        assert title is not None
        title.text, slide.placeholders[1].text = (
            name,
            f"Words of {name}.",
        )  # pyright: ignore[reportAttributeAccessIssue]
    show.save(str(tmp_path / "a.pptx"))
    found = convert(tmp_path / "a.pptx")
    assert found.text == "# Lamp\nWords of Lamp.\n\n# Oil\nWords of Oil."
    assert found.pages == (0, 23)
    assert found.text[found.pages[1] :].startswith("# Oil")
    assert found.title == ""


def test_a_book_has_its_title(tmp_path: Path):
    page = (
        "<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>One</h1><p>Words.</p></body></html>"
    )
    packed(
        tmp_path / "a.epub",
        {"META-INF/container.xml": CONTAINER, "book.opf": OPF, "one.xhtml": page},
    )
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert rejects.empty
    assert documents[["title", "title_from"]].to_numpy().tolist() == [["The Skarrow Lamp", "given"]]
    assert documents["text"].item().strip() == "# One\n\nWords."
    assert json.loads(documents["metadata"].item())["authors"] == "Ada Holm"


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx", ".epub"])
def test_a_damaged_file_is_a_reject_and_other_files_are_read(tmp_path: Path, suffix: str):
    (tmp_path / f"a{suffix}").write_bytes(b"PK damaged")
    packed(tmp_path / f"b{suffix}", {"odd.xml": "<odd/>"})
    (tmp_path / "c.txt").write_text("Words.")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents["source"].tolist() == ["c.txt"]
    assert rejects[["row_id", "reason"]].to_numpy().tolist() == [
        [f"a{suffix}", "parse"],
        [f"b{suffix}", "parse"],
    ]


GROWN = [
    f'<!ENTITY {one} "{f"&{before};" * 10}">'
    for before, one in zip("abcdefgh", "bcdefghi", strict=True)
]
ENTITIES = f'<!DOCTYPE x [<!ENTITY a "{"ha" * 50}">{"".join(GROWN)}]>'


@pytest.mark.parametrize("part", ["word/document.xml", "docProps/core.xml"])
def test_entities_that_grow_are_a_reject(tmp_path: Path, part: str):
    docx(tmp_path / "a.docx", ("Normal", "Plan"))
    with zipfile.ZipFile(tmp_path / "a.docx") as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    place = re.compile("Plan|</core>")
    grown = ENTITIES + place.sub(lambda found: f"&i;{found[0]}", parts[part])
    packed(tmp_path / "a.docx", {**parts, part: grown})
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert len(documents) == 0
    assert rejects["reason"].tolist() == ["parse"]
