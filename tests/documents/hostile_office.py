"""Write workbooks and slides that are made to hang their readers, to fill the memory, or to read
other files."""

import zipfile
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from pathlib import Path

from openpyxl import Workbook
from pptx import Presentation

from tests.documents.compound_files import compound_file

_MEGABYTE = 2**20
_SHEET = "xl/worksheets/sheet1.xml"
_SLIDE = "ppt/slides/slide1.xml"
_LINKS = "ppt/slides/_rels/slide1.xml.rels"
_BODY = b"Text of slide 0"
_IMAGE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"
_BEGIN = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
_ROWS, _END_OF_ROWS, _END = b"<sheetData>", b"</sheetData>", b"</worksheet>"
_GROUP = (
    b'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="9" name="g"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr>'
    b"<p:grpSpPr/>"
)
Change = Callable[[bytes], bytes | Iterable[bytes]]
"""A function that returns another content for a part of a file, in pieces if it is large."""


def workbook(
    path: Path, rows: Iterable[bytes], dtd: bytes = b"", before: bytes = b"", after: bytes = b""
) -> None:
    """Write a workbook of one sheet with these rows in XML, and what stands before and after
    them."""
    begin, end = b"".join([dtd, _BEGIN, before, _ROWS]), b"".join([_END_OF_ROWS, after, _END])
    Workbook().save(path)
    _change(path, {_SHEET: lambda _: chain([begin], rows, [end])})


def row(number: int, **cells: str) -> bytes:
    """Return a row in XML; ``cells`` has the texts by the letters of their columns."""
    found = [
        f'<c r="{column}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
        for column, text in cells.items()
    ]
    return f'<row r="{number}">{"".join(found)}</row>'.encode()


def slides(path: Path, number: int) -> None:
    show = Presentation()
    for place in range(number):
        slide = show.slides.add_slide(show.slide_layouts[1])
        title, body = slide.placeholders
        title.text = f"Slide {place}"  # pyright: ignore[reportAttributeAccessIssue]
        body.text = f"Text of slide {place}"  # pyright: ignore[reportAttributeAccessIssue]
    show.save(str(path))


def slide_bomb(path: Path, megabytes: int) -> None:
    paragraph = b"<a:p><a:r><a:t>bomb</a:t></a:r></a:p>"

    def change(slide: bytes) -> Iterable[bytes]:
        place = slide.rindex(b"<a:p>", 0, slide.index(_BODY))
        yield slide[:place]
        for _ in range(megabytes):
            yield paragraph * (_MEGABYTE // len(paragraph))
        yield slide[place:]

    slides(path, 1)
    _change(path, {_SLIDE: change})


def slide_with_text(path: Path, dtd: bytes, text: bytes) -> None:
    """Write a slide with this text, in XML with these definitions."""

    def change(slide: bytes) -> bytes:
        head, rest = slide.split(b"?>", 1)
        return head + b"?>" + dtd + rest.replace(_BODY, text)

    slides(path, 1)
    _change(path, {_SLIDE: change})


def nested_groups(path: Path, depth: int) -> None:
    def change(slide: bytes) -> bytes:
        groups = _GROUP * depth + b"</p:grpSp>" * depth
        return slide.replace(b"</p:spTree>", groups + b"</p:spTree>")

    slides(path, 1)
    _change(path, {_SLIDE: change})


def linked_picture(path: Path, address: str) -> None:
    """Write a slide with a picture that lies at an address on the network."""
    relation = f'<Relationship Id="rId9" Type="{_IMAGE}" Target="{address}" TargetMode="External"/>'
    picture = (
        b'<p:pic><p:nvPicPr><p:cNvPr id="7" name="P"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr>'
        b'<p:blipFill><a:blip r:link="rId9"/></p:blipFill><p:spPr/></p:pic></p:spTree>'
    )
    end = b"</Relationships>"
    slides(path, 1)
    _change(path, {
        _LINKS: lambda links: links.replace(end, relation.encode() + end),
        _SLIDE: lambda slide: slide.replace(b"</p:spTree>", picture),
    })  # fmt: skip


def with_macros(path: Path, part: str) -> None:
    """Add a program to a file that is there."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(part, compound_file({"VBA": {"Module1": b"Sub AutoOpen()" * 500}}))


def protected(path: Path) -> None:
    path.write_bytes(
        compound_file({"EncryptionInfo": b"\x04\x00" * 300, "EncryptedPackage": b"y" * 9000})
    )


def growing_entities(root: str) -> bytes:
    """Return definitions of ten entities, each ten of the one before."""
    lines = [f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in pairwise("abcdefghij")]
    return f'<!DOCTYPE {root} [<!ENTITY a "bomb ">{"".join(lines)}]>'.encode()


def entity_of_file(root: str, file: Path) -> bytes:
    return f'<!DOCTYPE {root} [<!ENTITY s SYSTEM "{file.as_uri()}">]>'.encode()


def _change(path: Path, changes: dict[str, Change]) -> None:
    """Write the file anew with other contents of some parts."""
    before = path.rename(path.with_suffix(".before"))
    with (
        zipfile.ZipFile(before) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            changed = changes[name](content) if name in changes else content
            with new.open(name, "w", force_zip64=True) as part:
                for piece in [changed] if isinstance(changed, bytes) else changed:
                    part.write(piece)
    before.unlink()
