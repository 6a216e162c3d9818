"""Small pictures in each format, written by hand: no library is needed to look at them."""

import struct
import zlib


def png(width: int = 8, height: int = 8, shade: int = 0) -> bytes:
    """A grey picture in which each pixel has this shade."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\x00" + bytes([shade]) * width) * height
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def gif(width: int = 8, height: int = 8) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00" * 20 + b";"


def jpeg(width: int = 8, height: int = 8) -> bytes:
    """With a preview in its properties, which ends as the picture itself does."""
    preview = b"\xff\xe1" + struct.pack(">H", 12) + b"Exif....\xff\xd9"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 8, 8, height, width, 0)
    scan = b"\xff\xda" + struct.pack(">H", 4) + b"\x00\x00" + b"\x5a" * 30
    return b"\xff\xd8" + preview + frame + scan + b"\xff\xd9"


def webp(kind: bytes, size: bytes) -> bytes:
    """``size``: what the chunk of this kind says of it, and what stands before that."""
    body = b"WEBP" + kind + struct.pack("<I", len(size)) + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


LOSSY = webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 30, 20 | 0x4000))
LOSSLESS = webp(b"VP8L", b"\x2f" + struct.pack("<I", 29 | 19 << 14))
EXTENDED = webp(b"VP8X", b"\x00\x00\x00\x00" + (29).to_bytes(3, "little") + b"\x13\x00\x00")
