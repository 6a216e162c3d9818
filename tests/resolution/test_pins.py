from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.resolution.pins import pins_digest, read_pins


def written(folder: Path, text: str) -> Path:
    path = folder / "resolutions.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_missing_file_has_no_pins(tmp_path: Path):
    assert read_pins(tmp_path / "none.csv") == []


def test_header_and_note_are_optional_and_cells_may_be_quoted(tmp_path: Path):
    pins = read_pins(
        written(tmp_path, '\ufeffsame,IBM,"Machines, Business"\n\ndifferent, A ,B,looked up\n')
    )
    assert [(pin.decision, pin.a, pin.b, pin.note) for pin in pins] == [
        ("same", "IBM", "Machines, Business", ""),
        ("different", "A", "B", "looked up"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alike,A,B\n", "is no pin"),
        ("same,A\n", "is no pin"),
        ("same,A,a.\n", "one name"),
        ("same,A,B\nsame,B,C\ndifferent,C,A\n", "pinned different, and the same"),
    ],
)
def test_an_invalid_or_contradictory_pin_is_refused(tmp_path: Path, text: str, said: str):
    with pytest.raises(SettingsError, match=said):
        read_pins(written(tmp_path, text))


def test_a_file_in_another_encoding_is_refused(tmp_path: Path):
    path = tmp_path / "resolutions.csv"
    path.write_bytes("same,Müller,Mueller\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="UTF-8"):
        read_pins(path)


def test_the_digest_depends_on_the_decisions_only(tmp_path: Path):
    def digest(text: str) -> str:
        return pins_digest(read_pins(written(tmp_path, text)))

    before = digest("decision,a,b,note\nsame,A,B,\ndifferent,C,D,\n")
    assert digest("different,d,C,a note\nsame,b,A\n") == before
    assert digest("same,C,D\nsame,A,B\n") != before
