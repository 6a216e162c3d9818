import json
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw

from pipeline.documents import pdf_pages
from pipeline.documents.conversion import convert
from pipeline.documents.markdown import cells_of
from pipeline.documents.pdf import NO_TEXT
from pipeline.engine.losses import count_no_input
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.documents.table_pdfs import PROSE, TablePdf, table_pdfs

WITHOUT_OCR = pytest.mark.skipif(
    find_spec("rapidocr") is not None, reason="the extra 'ocr' is installed"
)
WITH_OCR = pytest.mark.skipif(
    find_spec("rapidocr") is None, reason="the extra 'ocr' is not installed"
)


def written(pdf: FPDF, path: Path) -> Path:
    path.write_bytes(bytes(pdf.output()))
    return path


def prose(*pages: str, title: str = "") -> FPDF:
    pdf = FPDF()
    pdf.set_title(title)
    pdf.set_font("helvetica", size=11)
    for page in pages:
        pdf.add_page()
        pdf.multi_cell(0, 6, page)
    return pdf


def picture(words: str = "") -> BytesIO:
    image = Image.new("L", (1240, 1754), 255)
    ImageDraw.Draw(image).text((120, 200), words, fill=0, font_size=44)
    image.save(content := BytesIO(), "PNG")
    return content


def scanned(pdf: FPDF, words: str, stamp: str = "") -> FPDF:
    pdf.add_page()
    pdf.image(picture(words), 0, 0, 210, 297)
    pdf.set_font("helvetica", size=8)
    pdf.text(10, 290, stamp)
    return pdf


def test_each_page_begins_where_the_conversion_says(tmp_path: Path):
    pages = [f"Page of {name}.\n{PROSE}" for name in ("Ada", "Berta", "Cora")]
    found = convert(written(prose(*pages), tmp_path / "a.pdf"))
    assert len(found.pages) == 3
    for start, name in zip(found.pages, ("Ada", "Berta", "Cora"), strict=True):
        assert found.text[start:].startswith(f"Page of {name}.")
    assert found.converter.startswith("pypdfium2 ")


def test_an_empty_page_is_a_page_without_a_fault(tmp_path: Path):
    found = convert(written(prose("First.", "", "Third."), tmp_path / "a.pdf"))
    assert (found.text, found.pages, found.faults) == ("First.\n\n\n\nThird.", (0, 8, 10), ())


@pytest.mark.parametrize(
    ("line", "text"),
    [("a light-\nhouse", "a lighthouse"), ("Sayn-\nWittgenstein", "Sayn-Wittgenstein")],
)
def test_a_word_over_two_lines_is_one_word(tmp_path: Path, line: str, text: str):
    assert convert(written(prose(line), tmp_path / "a.pdf")).text == text


@pytest.mark.parametrize("made", list(table_pdfs()), ids=lambda made: made.name)
def test_tables_are_read_no_worse_than_by_markitdown(tmp_path: Path, made: TablePdf):
    from markitdown import MarkItDown

    (tmp_path / "a.pdf").write_bytes(made.content)
    before = rows_found(MarkItDown().convert_local(str(tmp_path / "a.pdf")).text_content, made.rows)
    assert before <= rows_found(convert(tmp_path / "a.pdf").text, made.rows) == len(made.rows)


def rows_found(text: str, rows: list[list[str]]) -> int:
    there = [cells_of(line) for line in text.split("\n")]
    return sum(row in there for row in rows)


def test_text_around_tables_is_read_once_and_in_order(tmp_path: Path):
    made = next(made for made in table_pdfs() if made.name == "ruled_in_prose")
    (tmp_path / "a.pdf").write_bytes(made.content)
    words = " ".join(convert(tmp_path / "a.pdf").text.split())
    before, table, after = words.partition("| Column 0 | Column 1 | Column 2 |")
    assert table
    assert before.count("The harbour board met") == after.count("The harbour board met") == 2


def test_pages_of_prose_are_not_searched_for_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked = []
    monkeypatch.setattr(
        "pipeline.documents.pdf.with_tables",
        lambda pdf, place, layout: asked.append((place, layout)) or "",
    )
    convert(written(prose(PROSE * 12, PROSE * 12), tmp_path / "prose.pdf"))
    assert asked == []
    made = next(table_pdfs())
    (tmp_path / "ruled.pdf").write_bytes(made.content)
    assert convert(tmp_path / "ruled.pdf").text
    assert asked == [(0, "ruled")]


def test_a_page_has_its_text_if_the_readers_of_tables_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pdf_pages, "_alone", lambda pdf, place: b"damaged")
    made = next(table_pdfs())
    (tmp_path / "a.pdf").write_bytes(made.content)
    assert "Keeper 0-1" in convert(tmp_path / "a.pdf").text


@pytest.mark.parametrize(
    ("title", "title_from"),
    [
        ("The Skarrow Lamp", "given"),
        ("Microsoft Word - lamp.doc", "first_line"),
        ("untitled", "first_line"),
        ("", "first_line"),
    ],
)
def test_the_title_property_is_given_unless_a_program_put_it_there(
    tmp_path: Path, title: str, title_from: str
):
    written(prose("# CONFIDENTIAL\nText", title=title), tmp_path / "a.pdf")
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert documents["title_from"].tolist() == [title_from]
    assert documents["title"].tolist() == [title if title_from == "given" else "CONFIDENTIAL"]


def test_the_metadata_have_pages_and_converter(tmp_path: Path):
    written(prose("First.", "Second."), tmp_path / "a.pdf")
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    metadata = json.loads(documents["metadata"].item())
    assert metadata["pages"] == [0, 8]
    assert metadata["converter"].startswith("pypdfium2 ")


@WITHOUT_OCR
def test_pages_without_a_text_layer_are_rejects_that_name_the_extra(tmp_path: Path):
    mixed = scanned(prose("Words on a page, and enough of them."), "Ada Holm")
    written(scanned(mixed, "Otto", stamp="CamScanner"), tmp_path / "mixed.pdf")
    written(scanned(scanned(FPDF(), "Ada"), "Otto"), tmp_path / "scans.pdf")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents["source"].tolist() == ["mixed.pdf"]
    assert "CamScanner" in documents["text"].item()
    assert rejects[["row_id", "kind", "reason"]].to_numpy().tolist() == [
        ["mixed.pdf#page=2", "record", NO_TEXT],
        ["mixed.pdf#page=3", "record", NO_TEXT],
        ["scans.pdf", "skipped", NO_TEXT],
    ]
    assert all("install the extra 'ocr'" in message for message in rejects["message"])
    assert count_no_input(rejects) == {"pdf (a scan; needs the extra 'ocr')": 1}


@WITH_OCR
def test_scans_are_read_with_the_extra_and_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*given: object) -> None:
        raise AssertionError("a scan needs no network")

    monkeypatch.setattr("socket.socket.connect", refused)
    written(
        scanned(prose("Words."), "Ada Holm built the Skarrow Lamp in 1871."), tmp_path / "a.pdf"
    )
    found = convert(tmp_path / "a.pdf")
    assert found.text[found.pages[1] :] == "Ada Holm built the Skarrow Lamp in 1871."
    assert "rapidocr" in found.converter
    assert found.faults == ()


@WITH_OCR
def test_a_picture_without_words_is_a_fault_with_the_extra_too(tmp_path: Path):
    written(scanned(FPDF(), ""), tmp_path / "a.pdf")
    _, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert rejects["reason"].tolist() == [NO_TEXT]
    assert "none that can be read" in rejects["message"].item()


def test_words_of_a_scan_are_joined_to_lines(monkeypatch: pytest.MonkeyPatch):
    from pipeline.documents import ocr

    def box(left: float, top: float) -> list[list[float]]:
        return [[left, top], [left + 50, top], [left + 50, top + 10], [left, top + 10]]

    class Read:
        boxes = np.array([box(80, 2), box(0, 0), box(0, 20), box(90, 20)])
        txts, scores = ("Holm", "Ada", "built", "dust"), (0.9, 0.9, 0.9, 0.2)

    monkeypatch.setattr(ocr, "_reader", lambda: lambda picture: Read)
    assert ocr.read_picture(np.zeros((9, 9, 3), np.uint8)) == "Ada Holm\nbuilt"
