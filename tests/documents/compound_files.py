"""A writer of compound files (MS-CFB), as Outlook has them: olefile reads them alone."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SECTOR, SMALL_SECTOR, SMALL = 512, 64, 4096
"""Streams below SMALL bytes lie in small sectors, which together are a stream of the root."""
END, FREE, OF_TABLE, NOBODY = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
STORAGE, STREAM, ROOT = 1, 2, 5
Tree = Mapping[str, "bytes | Tree"]
"""The names of streams and storages, with what is in them."""


@dataclass
class Entry:
    """A row of the directory. ``left`` and ``right``: further entries of the same storage, as a
    binary tree; ``child``: the top of the tree of those in it."""

    name: str
    kind: int
    content: bytes = b""
    left: int = NOBODY
    right: int = NOBODY
    child: int = NOBODY
    start: int = END
    size: int = 0

    def packed(self) -> bytes:
        name = (self.name + "\x00").encode("utf-16-le")
        head = name.ljust(64, b"\x00") + struct.pack("<HBB", len(name), self.kind, 1)
        links = struct.pack("<III", self.left, self.right, self.child)
        return head + links + b"\x00" * 36 + struct.pack("<IQ", self.start, self.size)


@dataclass
class Sectors:
    """Sectors of one size, and the table that tells for each which one follows."""

    size: int
    content: bytearray = field(default_factory=bytearray)
    table: list[int] = field(default_factory=list)

    def add(self, content: bytes) -> int:
        """Return the number of the first sector with this content."""
        count = -(-len(content) // self.size)
        if not count:
            return END
        first = len(self.table)
        self.content += content.ljust(count * self.size, b"\x00")
        self.table += [*range(first + 1, first + count), END]
        return first


def compound_file(tree: Tree) -> bytes:
    """The bytes of a compound file with these streams and storages."""
    entries = [Entry("Root Entry", ROOT)]
    add_entries(entries, 0, tree)
    large, small = Sectors(SECTOR), Sectors(SMALL_SECTOR)
    for entry in entries:
        if entry.kind == STREAM:
            entry.size = len(entry.content)
            entry.start = (small if entry.size < SMALL else large).add(entry.content)
    entries[0].start, entries[0].size = large.add(bytes(small.content)), len(small.content)
    small_table = large.add(numbers(small.table))
    directory = large.add(b"".join(entry.packed() for entry in entries))
    first = len(large.table)
    count = 1
    while count * SECTOR // 4 < first + count:
        count += 1
    table = numbers([*large.table, *[OF_TABLE] * count])
    places = [*range(first, first + count), *[FREE] * (109 - count)]
    small_sectors = -(-4 * len(small.table) // SECTOR)
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6,
        0, count, directory, 0, SMALL, small_table, small_sectors, END, 0, places[0],
    )  # fmt: skip
    return header + struct.pack("<108I", *places[1:]) + bytes(large.content) + table


def add_entries(entries: list[Entry], parent: int, tree: Tree) -> None:
    """Add what is in a storage to the directory, below the entry ``parent``."""
    added: list[int] = []
    for name, content in tree.items():
        added.append(len(entries))
        if isinstance(content, bytes):
            entries.append(Entry(name, STREAM, content))
        else:
            entries.append(Entry(name, STORAGE))
            add_entries(entries, added[-1], content)
    entries[parent].child = link(entries, added)


def link(entries: list[Entry], added: Sequence[int]) -> int:
    """Link these entries to a balanced tree, and return its top."""
    if not added:
        return NOBODY
    middle = len(added) // 2
    top = entries[added[middle]]
    top.left, top.right = link(entries, added[:middle]), link(entries, added[middle + 1 :])
    return added[middle]


def numbers(values: Sequence[int]) -> bytes:
    """A table as bytes, filled up to whole sectors."""
    content = struct.pack(f"<{len(values)}I", *values)
    return content.ljust(-(-len(content) // SECTOR) * SECTOR, b"\xff")


def text(property: str, value: str) -> dict[str, bytes]:
    """A property of a mail, in Unicode."""
    return {f"__substg1.0_{property}001F": value.encode("utf-16-le")}


def properties(**values: int) -> dict[str, bytes]:
    """The stream of numbers and times; names are those of properties, such as ``x0039``."""
    rows = [
        struct.pack("<HHIQ", 0x40, int(name[1:], 16), 0, value) for name, value in values.items()
    ]
    return {"__properties_version1.0": b"\x00" * 32 + b"".join(rows)}
