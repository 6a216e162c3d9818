"""Workbooks and slides that are made to hang or fill what reads them, or that hold what is no text:
each is read or has a reason, and takes little time for its size."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from openpyxl import Workbook

from pipeline.contract.conversion import (
    Conversion,
    ConversionRules,
    Converted,
    FileToConvert,
    NotConverted,
)
from pipeline.documents.limited_converter import LimitedConverter
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.documents.hostile_office import (
    entity_of_file,
    growing_entities,
    linked_picture,
    nested_groups,
    protected,
    row,
    slide_bomb,
    slide_with_text,
    slides,
    with_macros,
    workbook,
)
from tests.sizes import size

SECRET = "Zyxomandrel"
FIRST = row(1, A="first")


@pytest.fixture(scope="module")
def connections() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def converted(
    tmp_path_factory: pytest.TempPathFactory, connections: socket.socket
) -> dict[str, Converted]:
    """All files, converted together."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "secret.txt").write_text(SECRET)
    fill_workbooks(folder)
    fill_slides(folder, f"http://127.0.0.1:{connections.getsockname()[1]}/x.png")
    for suffix in ("docx", "pptx", "xlsx"):
        protected(folder / f"protected.{suffix}")
    names = sorted(path.name for path in folder.iterdir() if path.suffix != ".txt")
    files = [FileToConvert(folder / name, name) for name in names]
    results = LimitedConverter().convert(files, ConversionRules(300, 300))
    return dict(zip(names, results, strict=True))


def fill_workbooks(folder: Path) -> None:
    pieces = (row(number, A="bomb " * 6000) for number in range(1, 8000))
    workbook(folder / "bomb.xlsx", pieces)
    last = size(30_000, 1_000_000)
    empty = (f'<row r="{number}"/>'.encode() for number in range(2, last))
    workbook(folder / "empty rows.xlsx", [FIRST, *empty, row(last, A="last")])
    corner = [FIRST, row(2**20, XFD="last")]
    workbook(folder / "far corner.xlsx", corner)
    workbook(folder / "beyond.xlsx", [FIRST, row(2 * 10**9, A="last")])
    wide = [row(number, A="left", XFD="right") for number in range(1, 300)]
    workbook(folder / "wide.xlsx", wide)
    said = [row(1, A="said: &j;")]
    workbook(folder / "entities.xlsx", said, growing_entities("worksheet"))
    outside = entity_of_file("worksheet", folder / "secret.txt")
    workbook(folder / "outside.xlsx", [row(1, A="said: &s;")], outside)
    book = Workbook()
    sheet = book.active
    assert sheet
    for formula in ("=SUM(C1:C9)", "=[1]Sheet1!A1", '=WEBSERVICE("http://127.0.0.1:1/")',
                    "=cmd|' /C calc'!A0"):  # fmt: skip
        sheet.append(["Name", formula])
    book.save(folder / "formulas.xlsx")
    merged = b'<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>'
    workbook(folder / "merged.xlsx", [FIRST, row(2, A="below")], after=merged)
    workbook(folder / "macros.xlsx", [FIRST])
    with_macros(folder / "macros.xlsx", "xl/vbaProject.bin")


def fill_slides(folder: Path, address: str) -> None:
    slide_bomb(folder / "bomb.pptx", 100)
    slides(folder / "slides.pptx", size(200, 2000))
    slide_with_text(folder / "entities.pptx", growing_entities("p:sld"), b"said: &j;")
    outside = entity_of_file("p:sld", folder / "secret.txt")
    slide_with_text(folder / "outside.pptx", outside, b"said: &s;")
    nested_groups(folder / "nested.pptx", 200)
    nested_groups(folder / "deeply nested.pptx", 50_000)
    linked_picture(folder / "linked.pptx", address)
    slides(folder / "macros.pptx", 1)
    with_macros(folder / "macros.pptx", "ppt/vbaProject.bin")


@pytest.mark.parametrize(
    ("name", "reasons", "said"),
    [
        ("bomb.xlsx", {"too_much_memory", "crashed"}, "MB"),
        ("bomb.pptx", {"too_much_memory", "crashed", "parse"}, ""),
        ("beyond.xlsx", {"parse"}, "rows beyond 1,048,576"),
        ("entities.xlsx", {"parse"}, "Entities"),
        ("entities.pptx", {"parse"}, "entity"),
        ("outside.xlsx", {"parse"}, "Entities"),
        ("deeply nested.pptx", {"parse"}, "depth"),
        ("protected.docx", {"parse"}, "protected by a password"),
        ("protected.pptx", {"parse"}, "protected by a password"),
        ("protected.xlsx", {"parse"}, "protected by a password"),
    ],
)
def test_a_file_that_cannot_be_read_has_its_reason(
    converted: dict[str, Converted], name: str, reasons: set[str], said: str
):
    found = converted[name]
    assert isinstance(found, NotConverted)
    assert found.reason in reasons
    assert said in found.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty rows.xlsx", "## Sheet\n\n| first |\n| --- |\n| last |"),
        ("far corner.xlsx", "## Sheet\n\n| first |  |\n| --- | --- |\n|  | last |"),
        ("merged.xlsx", "## Sheet\n\n| first |\n| --- |\n| below |"),
        ("macros.xlsx", "## Sheet\n\n| first |\n| --- |"),
        ("formulas.xlsx", "## Sheet\n\n| Name |\n| --- |\n| Name |\n| Name |\n| Name |"),
        ("macros.pptx", "# Slide 0\nText of slide 0"),
        ("nested.pptx", "# Slide 0\nText of slide 0"),
        ("outside.pptx", "# Slide 0\nsaid:"),
    ],
)
def test_a_file_with_what_is_no_text_gives_its_text(
    converted: dict[str, Converted], name: str, text: str
):
    found = converted[name]
    assert isinstance(found, Conversion)
    assert found.text == text


def test_a_cell_at_the_far_right_adds_no_thousands_of_empty_cells(converted: dict[str, Converted]):
    found = converted["wide.xlsx"]
    assert isinstance(found, Conversion)
    assert found.text.splitlines()[2:5] == ["| left | right |", "| --- | --- |", "| left | right |"]


def test_all_of_many_slides_are_pages(converted: dict[str, Converted]):
    found = converted["slides.pptx"]
    assert isinstance(found, Conversion)
    assert len(found.pages) == size(200, 2000)
    assert found.text[found.pages[-1] :].startswith(f"# Slide {size(200, 2000) - 1}\n")


def test_nothing_is_fetched_and_no_other_file_is_read(
    converted: dict[str, Converted], connections: socket.socket
):
    assert isinstance(converted["linked.pptx"], Conversion)
    with pytest.raises(BlockingIOError):
        connections.accept()
    assert SECRET not in str(converted)


def test_cells_outside_of_the_range_that_a_sheet_declares_are_read(tmp_path: Path):
    rows = [row(1, A="one", B="two"), row(2, A="three")]
    workbook(tmp_path / "a.xlsx", rows, before=b'<dimension ref="A1"/>')
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert documents["text"].item() == "## Sheet\n\n| one | two |\n| --- | --- |\n| three |  |"


def test_a_text_beyond_the_largest_file_is_a_reject_however_small_its_file(tmp_path: Path):
    workbook(tmp_path / "a.xlsx", (row(number, A="word " * 200) for number in range(1, 1200)))
    (tmp_path / "b.txt").write_text("Words.")
    assert (tmp_path / "a.xlsx").stat().st_size < 100_000
    documents, rejects = load_documents(LoadParams(path=str(tmp_path), max_file_mb=1))
    assert documents["source"].tolist() == ["b.txt"]
    assert rejects[["row_id", "reason"]].to_numpy().tolist() == [["a.xlsx", "too_large"]]
