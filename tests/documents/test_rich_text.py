"""Rich Text (RTF): what becomes text, and what is no such file."""

from pathlib import Path

import pytest

from pipeline.documents.conversion import convert

LETTER = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator Word;}{\info{\title Secret}}"
    rb"\f0 The lens of M\'fcller is ready.\par It costs \u8364?5.\par"
    rb"{\pict\pngblip 89504e47}\trowd Name\cell Year\cell\row }"
)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "a.rtf"
    path.write_bytes(content)
    return path


def test_texts_are_read_and_pictures_and_properties_are_not(tmp_path: Path):
    text = convert(written(tmp_path, LETTER)).text
    assert text.splitlines()[:2] == ["The lens of Müller is ready.", "It costs €5."]
    assert "Name" in text
    for absent in ("Secret", "Word", "89504e47", "Arial"):
        assert absent not in text


@pytest.mark.parametrize("content", [b"", b"A letter.", b"\0\1\2\xff" * 100])
def test_a_file_that_is_no_rtf_is_refused(tmp_path: Path, content: bytes):
    with pytest.raises(ValueError, match="no RTF"):
        convert(written(tmp_path, content))


@pytest.mark.parametrize("content", [LETTER[:-30], b"{\\rtf1" + b"{" * 100_000 + b"A letter."])
def test_a_file_that_breaks_off_gives_what_it_has(tmp_path: Path, content: bytes):
    assert "e" in convert(written(tmp_path, content)).text
