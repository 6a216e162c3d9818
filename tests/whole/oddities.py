"""A folder of some three hundred oddities, made by a seed: what a shared drive holds after ten
years."""

import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

PEOPLE = (
    "Mira Vale",
    "Anselm Torr",
    "Idra Senn",
    "Oskar Pell",
    "Runa Hask",
    "Bram Tollen",
    "Edda Marsh",
    "Ivo Kest",
)
PLACES = ("Quill Point", "Brack Island", "Harrow Bay", "Tollen Hill", "Skarn Valley", "Osk River")
LEGACY = {
    "cp1252": (
        "Les élèves de l'école étaient déjà arrivés à la forêt. Où est passé le château, demande la"
        " garçonne. "
    ),
    "cp1251": (
        "Сегодня утром корабль вышел из гавани и направился к северному маяку. Смотритель записал"
        " время. "
    ),
    "koi8-r": (
        "Старый мост через реку закрыли на ремонт, поэтому все повозки ехали через соседнюю"
        " деревню. "
    ),
    "gb18030": "今天早上一艘船离开港口向北方的灯塔驶去。守塔人把时间写进了日记，然后去喝茶。",
    "big5": "今天早上一艘船離開港口向北方的燈塔駛去。守塔人把時間寫進了日記，然後去喝茶。",
    "shift_jis": (
        "今朝、船は港を出て北の灯台に向かいました。灯台守はその時間を日記に書いて、お茶を飲みました。"
    ),
    "euc-jp": (
        "古い橋は修理のために閉まっています。だから、すべての車は隣の村を通らなければなりません。"
    ),
    "euc-kr": (
        "오늘 아침 배가 항구를 떠나 북쪽 등대로 향했습니다. 등대지기는 그 시간을 일기에 적었습니다. "  # noqa: E501
    ),
    "cp1253": "Σήμερα το πρωί το πλοίο έφυγε από το λιμάνι και κατευθύνθηκε προς τον βόρειο φάρο. ",
    "cp1250": (
        "Dziś rano statek wypłynął z portu i popłynął w stronę północnej latarni. Źródło światła"
        " zgasło. "
    ),
}
ODD_NAMES = (
    "two  spaces.txt", " leading.txt", "-dash.txt", "semi;colon.txt", "quote'.txt", 'double".txt',
    "back`tick.txt",
    "dollar$HOME.txt", "percent%s.txt", "hash#tag.txt", "braces{0}.txt", "star[1].txt",
    "new\nline.txt", "tab\t.txt",
    "ümlaut.txt", "日本.txt", "emoji🌊.txt", "שלום.txt", "'; DROP TABLE lightrag_chunks; --.txt",
    "a" * 200 + ".txt",
    "UPPER.TXT", "dots.in.name.txt", "no_suffix.", "comma,name.txt", "plus+name.txt",
    "amp&name.txt", "ctrl\x01.txt",
    "rtl\u202e.txt", "combining e\u0301.txt", "question?.txt",
)  # fmt: skip


@dataclass(frozen=True)
class Oddity:
    """A file below the input folder. ``documents``: by source the text that it must be read as,
    None for any text; where it is not, a reject has to name the file. ``told``: a reject has to
    name it even so. ``mended``: what its owner makes of it, and the documents then."""

    name: str
    make: Callable[[Path], object]
    documents: Mapping[str, str | None] = field(default_factory=dict)
    told: bool = False
    mended: bytes | None = None
    then: Mapping[str, str | None] = field(default_factory=dict)


def oddities(seed: int) -> list[Oddity]:
    """300 or so, each under a name of its own."""
    draw = random.Random(seed)
    return [
        *_plain(draw), *_encoded(draw), *_tables(draw), *_objects(draw), *_strangers(draw),
        *_converted(draw),
        *_links(draw), *_named(draw), *_hostile(draw),
    ]  # fmt: skip


def make(folder: Path, found: list[Oddity]) -> None:
    for oddity in found:
        path = folder / oddity.name
        path.parent.mkdir(parents=True, exist_ok=True)
        oddity.make(path)


def story(draw: random.Random, sentences: int = 3) -> str:
    """No two are alike."""
    return " ".join(
        f"{draw.choice(PEOPLE)} wrote to {draw.choice(PEOPLE)} from {draw.choice(PLACES)} about"
        f" ledger {draw.randrange(10**6)}."
        for _ in range(sentences)
    )


def bytes_of(data: bytes | str) -> Callable[[Path], object]:
    content = data.encode() if isinstance(data, str) else data
    return lambda path: path.write_bytes(content)


def _text(name: str, text: str, data: bytes | None = None, mended: str | None = None) -> Oddity:
    then = {name: mended} if mended is not None else {}
    return Oddity(
        name, bytes_of(text.encode() if data is None else data), {name: text}, False,
        None if mended is None else mended.encode(), then,
    )  # fmt: skip


def _plain(draw: random.Random) -> Iterator[Oddity]:
    for number in range(56):
        suffix = ("txt", "md", "markdown", "log")[number % 4]
        text = (
            f"# Letter {number}\n\n{story(draw)}"
            if suffix.startswith("m")
            else f"Letter {number}\n\n{story(draw)}"
        )
        edited = f"{text} {story(draw, 1)}" if number % 3 == 0 else None
        yield _text(f"letters/{number}.{suffix}", text, mended=edited)
    for number in range(10):  # the same words in another file are another document
        yield _text(
            f"copies/{number}.txt", "Minutes\n\nMira Vale opened the meeting at Quill Point."
        )
    for depth in range(5):
        yield _text("/".join(["deep"] * (8 * depth + 1)) + f"/{depth}.txt", story(draw))
    for number in range(4):
        yield _text(f"long/{number}.txt", story(draw, 400 * (number + 1)))


def _encoded(draw: random.Random) -> Iterator[Oddity]:
    for encoding, sentence in LEGACY.items():
        for times in (1, 5, 20):
            text = sentence * times
            yield _text(f"legacy/{encoding}-{times}.txt", text, text.encode(encoding))
    for encoding in ("utf-16", "utf-8-sig"):
        for number in range(4):
            text = f"Memo\n\n{story(draw)} Œuvre, Łódź, 灯台."
            yield _text(f"marked/{encoding}-{number}.txt", text, text.encode(encoding))


def _tables(draw: random.Random) -> Iterator[Oddity]:
    for number in range(36):
        kind = ("good", "quote", "wide", "open", "headless", "tabs")[number % 6]
        rows = [(str(row), story(draw)) for row in range(8)]
        mark = "\t" if kind == "tabs" else ","
        good = [f'{row}{mark}"{text}"' for row, text in rows]
        lines = list(good)
        if kind == "quote":
            lines[3] = '3,"The judge said "no" to the owners, and left."'
        if kind == "wide":
            lines[5] = f"5,{rows[5][1]},what,is,this"
        if kind == "open":
            lines[6] = f'6,"{rows[6][1]}'
        head = f"id{mark}text"
        name = f"tables/{kind}-{number}.{'tsv' if kind == 'tabs' else 'csv'}"
        data = "\n".join(lines if kind == "headless" else [head, *lines])
        whole = {f"{name}#{row}": text for row, text in rows}
        broken = kind in {"quote", "wide", "open", "headless"}
        mended = "\n".join([head, *good]).encode() if broken and number % 12 < 6 else None
        yield Oddity(
            name,
            bytes_of(data),
            {} if kind == "headless" else whole,
            broken,
            mended,
            whole if mended else {},
        )


def _objects(draw: random.Random) -> Iterator[Oddity]:
    for number in range(32):
        kind = ("good", "cut", "junk", "lines", "badlines", "nan", "twice", "nested")[number % 8]
        records = [
            {"id": f"r{row}", "text": story(draw), "owner": {"name": draw.choice(PEOPLE)}}
            for row in range(6)
        ]
        lines = [json.dumps(record) for record in records]
        name = f"objects/{kind}-{number}.{'ndjson' if number % 16 == 3 else 'jsonl' if 'lines' in kind else 'json'}"  # noqa: E501
        whole = {f"{name}#{record['id']}": str(record["text"]) for record in records}
        data = {
            "good": json.dumps(records),
            "cut": json.dumps(records)[:-200],
            "junk": json.dumps([*records, 7, None, "text"]),
            "lines": "\n".join(lines),
            "badlines": "\n".join([*lines[:3], "{not json", *lines[3:]]),
            "nan": json.dumps([*records, {"id": "n", "text": "x", "n": float("nan")}]),
            "twice": json.dumps(
                [*records, {**records[0], "text": "Another text under the same id."}]
            ),
            "nested": json.dumps({"docs": records}),
        }[kind]
        told = kind not in {"good", "lines"}
        mended = json.dumps(records).encode() if kind == "cut" else None
        known = {} if kind == "nested" else whole
        yield Oddity(name, bytes_of(data), known, told, mended, whole if mended else {})


def _strangers(draw: random.Random) -> Iterator[Oddity]:
    """What is no document: pictures, archives, lock files of editors, files without a word."""
    heads = {
        "png": b"\x89PNG\r\n\x1a\n",
        "zip": b"PK\x03\x04",
        "mp3": b"ID3\x03",
        "exe": b"MZ\x90",
        "db": b"SQLite format 3\0",
    }
    for number in range(20):
        suffix = list(heads)[number % len(heads)]
        yield Oddity(
            f"strangers/{number}.{suffix}", bytes_of(heads[suffix] + draw.randbytes(300)), told=True
        )
    for number, name in enumerate(
        ["~$report.docx", "notes.txt~", "notes.swp", "~$plan.xlsx", "#notes.md#"]
    ):
        yield Oddity(
            f"strangers/{number}/{name}",
            bytes_of(draw.randbytes(160)),
            told=not name.startswith("#"),
        )
    for number, data in enumerate(
        [b"", b" \n\t ", b"\xef\xbb\xbf", b"\x00\x01\x02", "\u3000".encode()] * 2
    ):
        filled = f"Late entry {number}. {story(draw)}" if number < 4 else None
        name = f"empty/{number}.txt"
        then = {name: filled} if filled else {}
        yield Oddity(name, bytes_of(data), {}, True, filled.encode() if filled else None, then)
    for number in range(6):
        name = f"strangers/noise-{number}.txt"
        yield Oddity(name, bytes_of(b"\xff\xfe\xfd" + draw.randbytes(997)), {name: None})


def _converted(draw: random.Random) -> Iterator[Oddity]:
    for number in range(8):
        name = f"pages/{number}.{'htm' if number % 2 else 'html'}"
        page = (
            "<html><head><title>Page"
            f" {number}</title></head><body><h1>Page</h1><p>{story(draw)}</p></body></html>"
        )
        yield Oddity(name, bytes_of(page), {name: None})
    for number in range(6):
        name = f"office/{number}.docx"
        whole = _docx(story(draw))
        cut = number % 2 == 1
        mended = whole if number == 1 else None
        yield Oddity(name, bytes_of(whole[:-300] if cut else whole), {} if cut else {name: None}, cut, mended,  # noqa: E501
                     {name: None} if mended else {})  # fmt: skip
    for number in range(6):
        yield Oddity(
            f"office/broken-{number}.pdf", bytes_of(b"%PDF-1.7\n" + draw.randbytes(400)), told=True
        )


def _docx(text: str) -> bytes:
    kinds = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    space = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}/package/2006/content-types"><Default Extension="rels" '  # noqa: E501
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '  # noqa: E501
        f'ContentType="{kinds}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{space}/package/2006/relationships"><Relationship Id="r1" Type='  # noqa: E501
        f'"{space}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',  # noqa: E501
        "word/document.xml": f'<w:document xmlns:w="{space}/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>{text}'  # noqa: E501
        "</w:t></w:r></w:p></w:body></w:document>",
    }  # fmt: skip
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return packed.getvalue()


def _links(draw: random.Random) -> Iterator[Oddity]:
    yield Oddity("links/out.txt", lambda path: path.symlink_to("/etc/hostname"), told=True)
    yield Oddity("links/dead.txt", lambda path: path.symlink_to("nowhere.txt"), told=True)
    yield Oddity("links/loop.txt", lambda path: path.symlink_to("loop.txt"), told=True)
    yield Oddity("links/pipe.txt", os.mkfifo, told=True)
    yield _text("links/target.txt", text := story(draw))
    yield Oddity(
        "links/within.txt", lambda path: path.symlink_to("target.txt"), {"links/within.txt": text}
    )


def _named(draw: random.Random) -> Iterator[Oddity]:
    for number, odd in enumerate(ODD_NAMES):
        name = f"names/{odd}"
        text = f"Name {number}\n\n{story(draw)}"
        if odd.endswith("."):
            yield Oddity(name, bytes_of(text), told=True)
        else:
            yield Oddity(name, bytes_of(text), {_escaped(name): text})


def _escaped(name: str) -> str:
    """As the input folder's reader writes what no table and no terminal should be given."""
    return "".join(f"\\x{ord(letter):02x}" if ord(letter) < 32 else letter for letter in name)


def _hostile(draw: random.Random) -> Iterator[Oddity]:
    for number in range(20):
        name = f"hostile/{number}.txt"
        noise = (
            "\x00",
            "\x1b[31m",
            "`) DETACH DELETE n //",
            "<SEP>##<|>",
            "{{ 7 * 7 }}",
            "\\u0000",
            "\x85",
            "\u2028",
            "%s",
            "$1",
        )
        yield Oddity(
            name,
            bytes_of(f"Case {number}. {story(draw, 1)} {noise[number % len(noise)]} {story(draw)}"),
            {name: None},
        )
