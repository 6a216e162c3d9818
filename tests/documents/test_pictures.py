"""A picture is looked at before a model is asked about it: its format, its size, and whether it is
whole."""

from pathlib import Path

import pytest

from pipeline.contract.conversion import NotConverted
from pipeline.documents.pictures import MOST_MB, look_at
from pipeline.models.base import Picture, PictureChangedError
from tests.documents.drawn_pictures import EXTENDED, LOSSLESS, LOSSY, gif, jpeg, png


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (png(30, 20), "image/png"),
        (gif(30, 20), "image/gif"),
        (jpeg(30, 20), "image/jpeg"),
        (LOSSY, "image/webp"),
        (LOSSLESS, "image/webp"),
        (EXTENDED, "image/webp"),
    ],
    ids=["png", "gif", "jpeg", "lossy", "lossless", "extended"],
)
def test_format_and_size_are_read_from_the_content_whatever_the_suffix_is(
    tmp_path: Path, content: bytes, media_type: str
):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    found = look_at(path)
    assert isinstance(found, Picture)
    assert (found.media_type, found.width, found.height) == (media_type, 30, 20)


@pytest.mark.parametrize(
    "whole",
    [png(), gif(), jpeg(), LOSSY, LOSSLESS, EXTENDED],
    ids=["png", "gif", "jpeg", "lossy", "lossless", "extended"],
)
def test_a_picture_that_is_cut_off_anywhere_is_damaged(tmp_path: Path, whole: bytes):
    path = tmp_path / "picture.png"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = look_at(path)
        assert isinstance(found, NotConverted), length
        assert found.reason == "parse"


@pytest.mark.parametrize(
    "content",
    [b"", b"<svg/>", b"BM" + b"\x00" * 60, png(0, 8)],
    ids=["empty", "svg", "bmp", "no-width"],
)
def test_a_file_that_is_no_picture_of_a_known_format_is_a_reject(tmp_path: Path, content: bytes):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    assert isinstance(look_at(path), NotConverted)


def test_a_picture_that_endpoints_refuse_for_its_size_is_a_reject(tmp_path: Path):
    path = tmp_path / "picture.png"
    with path.open("wb") as file:
        file.truncate(MOST_MB * 2**20 + 1)
    found = look_at(path)
    assert isinstance(found, NotConverted)
    assert (found.reason, "over 20 MB" in found.message) == ("too_large", True)


def test_a_picture_that_is_written_to_is_not_sent(tmp_path: Path):
    path = tmp_path / "picture.png"
    path.write_bytes(png(shade=1))
    found = look_at(path)
    assert isinstance(found, Picture)
    path.write_bytes(png(shade=2))
    with pytest.raises(PictureChangedError, match="written to"):
        found.content()
    path.unlink()
    with pytest.raises(PictureChangedError, match="cannot be read"):
        found.content()
