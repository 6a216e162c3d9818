"""Write small files that are made to hang their readers, or to fill the memory."""

import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

_MEGABYTE = 2**20
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels"'
    ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    "<Relationships"
    ' xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r"'
    ' Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
    ' Target="word/document.xml"/></Relationships>'
)
_DOCUMENT = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
)
_END = "</w:body></w:document>"
_PARAGRAPH = "<w:p><w:r><w:t>bomb</w:t></w:r></w:p>"


def docx(path: Path, write: Callable[[Callable[[bytes], object]], object]) -> None:
    """Write an archive; ``write`` receives the stream of its main part."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("_rels/.rels", _RELATIONS)
        with archive.open("word/document.xml", "w", force_zip64=True) as part:
            write(part.write)


def zip_bomb(path: Path, megabytes: int) -> None:
    piece = (_PARAGRAPH * (_MEGABYTE // len(_PARAGRAPH))).encode()

    def write(out: Callable[[bytes], object]) -> None:
        out(_DOCUMENT.encode())
        for _ in range(megabytes):
            out(piece)
        out(_END.encode())

    docx(path, write)


def entities(path: Path) -> None:
    """Return XML with ten entities, each ten of the one before: a text of 10^10 words."""
    names = "abcdefghij"
    lines = [f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in pairwise(names)]
    dtd = f'<!DOCTYPE w:document [<!ENTITY a "bomb ">{"".join(lines)}]>'
    text = f"{dtd}{_DOCUMENT}<w:p><w:r><w:t>&j;</w:t></w:r></w:p>{_END}"
    docx(path, lambda out: out(text.encode()))


def another_file(path: Path, secret: Path) -> None:
    dtd = f'<!DOCTYPE w:document [<!ENTITY secret SYSTEM "{secret.as_uri()}">]>'
    text = f"{dtd}{_DOCUMENT}<w:p><w:r><w:t>said: &secret;</w:t></w:r></w:p>{_END}"
    docx(path, lambda out: out(text.encode()))


def nested(path: Path, depth: int) -> None:
    path.write_text(
        "<html><body>" + "<div><b>" * depth + "deep" + "</b></div>" * depth + "</body></html>"
    )


def pdf_bomb(path: Path, megabytes: int) -> None:
    """Write a page whose content is megabytes of words, one upon the other."""
    piece = b"(bomb) Tj 0 1 Td\n" * (_MEGABYTE // 17)
    packed = zlib.compressobj(9)
    content = b"".join(
        [packed.compress(b"BT /F1 9 Tf\n"), *(packed.compress(piece) for _ in range(megabytes))]
    )
    content += packed.compress(b"ET") + packed.flush()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <<"
            b" /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        ),
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(
        b"%010d 00000 n \n" % place for place in places
    )
    out += b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % table
    path.write_bytes(bytes(out))


def line_of(path: Path, megabytes: int, begin: str = "", end: str = "") -> None:
    """Write a file of one line."""
    with path.open("wb") as file:
        file.write(begin.encode())
        for _ in range(megabytes):
            file.write(b"word" * (_MEGABYTE // 4))
        file.write(end.encode())
