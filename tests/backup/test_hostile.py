"""A damaged or hostile backup is refused, and nothing of it stays on the disk."""

import hashlib
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.backup.archive import MANIFEST, VERSION
from pipeline.backup.restore import restore_files
from pipeline.errors import DataError, DiskFullError, GraphmillError, UsageError
from pipeline.files import CHECK, json_text

SETTINGS = b"workspace: default\n"
ORIGIN = {
    "created": "",
    "graphmill": "0",
    "owner": "nobody",
    "folder": "/nowhere",
    "workspace": "default",
    "workflow": "",
    "with_keys": False,
    "keys": [],
    "left_out": {},
    "mode": 0o755,
    "version": VERSION,
}


def entry(path: str, content: bytes, **other: Any) -> dict[str, Any]:
    sha256 = hashlib.sha256(content).hexdigest()
    member = {"path": path, "member": f"files/{path}", "bytes": len(content), "sha256": sha256}
    return {**member, "mode": 0o644, "mtime": 0.0, **other}


def write(file: Path, entries: list[dict[str, Any]], contents: dict[str, bytes]) -> Path:
    """Write a backup of these members, whatever its manifest says of them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.writestr(MANIFEST, json_text({**ORIGIN, "files": entries}))
    return file


def refuse(file: Path, folder: Path, message: str, kind: type[GraphmillError] = DataError) -> None:
    before = sorted(folder.parent.iterdir())
    with pytest.raises(kind, match=message):
        restore_files(file, folder)
    assert sorted(folder.parent.iterdir()) == before


@pytest.mark.parametrize(
    "path", ["../evil", "/tmp/evil", "data/../../evil", "a//b", "", "./a", "a\0b", "data/.."]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, path: str):
    file = write(tmp_path / "b.zip", [entry(path, b"x", member="m")], {"m": b"x"})
    refuse(file, tmp_path / "new", "is no name of a file of a project")
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("entries", "contents", "message"),
    [
        ([entry("a", b"x")], {"files/a": b"y"}, "a is not what was written"),
        ([entry("a", b"x")], {"files/a": b"x" * 1_000_000}, "a is not what manifest.json says"),
        ([entry("a", b"x", bytes=2**60)], {"files/a": b"x"}, "a is not what manifest.json says"),
        ([entry("a", b"x", bytes=-1)], {"files/a": b"x"}, "is no name of a file"),
        ([entry("a", b"x")], {}, "a is not what manifest.json says"),
        ([entry("a", b"x"), entry("a", b"x", member="b")], {"files/a": b"x", "b": b"x"}, "twice"),
        ([entry("a", b"x"), entry("b", b"x", member="files/a")], {"files/a": b"x"}, "twice"),
        ([entry("a", b""), entry("a/b", b"")], {"files/a": b"", "files/a/b": b""}, "written"),
        ([entry("a", b"x", member=["a"])], {"files/a": b"x"}, "manifest.json cannot be read"),
        ([entry("a", b"x", mode=0o4755)], {"files/a": b"x"}, "no permissions of a file"),
        ([entry("a", b"x", mode=-5)], {"files/a": b"x"}, "no permissions of a file"),
        ([entry("a", b"x", mtime=float("nan"))], {"files/a": b"x"}, "a time is none"),
        ([entry("a", b"x", mode="all")], {"files/a": b"x"}, "manifest.json cannot be read"),
        ([{"path": "a"}], {"files/a": b"x"}, "manifest.json cannot be read"),
    ],
)  # fmt: skip
def test_what_the_manifest_does_not_say_is_refused(
    tmp_path: Path, entries: list[dict[str, Any]], contents: dict[str, bytes], message: str
):
    refuse(write(tmp_path / "b.zip", entries, contents), tmp_path / "new", message)


@pytest.mark.parametrize(
    ("name", "value"), [("folder", 5), ("owner", None), ("keys", 1), ("mode", 0o4700)]
)
def test_a_manifest_with_values_of_other_types_is_refused(tmp_path: Path, name: str, value: Any):
    file = tmp_path / "b.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MANIFEST, json_text({**ORIGIN, "files": [], name: value}))
    refuse(file, tmp_path / "new", "manifest.json cannot be read")


def test_a_manifest_that_was_edited_is_refused_without_advice_to_delete(tmp_path: Path):
    file = tmp_path / "b.zip"
    edited = {**ORIGIN, "files": [], CHECK: "0" * 64}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MANIFEST, json_text(edited))
    refuse(file, tmp_path / "new", "manifest.json: not what was written; use another backup")


def test_a_member_is_read_no_further_than_its_size(tmp_path: Path):
    """The directory of the zip lies about the size of a member that grows when it is read."""
    file = write(tmp_path / "b.zip", [entry("a", b"0" * 10)], {"files/a": b"0" * 10_000_000})
    content = file.read_bytes()
    true, told = (10_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert content.count(true) == 2
    file.write_bytes(content.replace(true, told))
    refuse(file, tmp_path / "new", "a cannot be read|a is not what was written")


def test_a_link_in_the_zip_becomes_a_plain_file(tmp_path: Path):
    file = tmp_path / "b.zip"
    entries = [entry("settings.yaml", SETTINGS), entry("link", b"/etc/passwd")]
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("files/settings.yaml", SETTINGS)
        info = zipfile.ZipInfo("files/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
        archive.writestr(MANIFEST, json_text({**ORIGIN, "files": entries}))
    restore_files(file, tmp_path / "new")
    assert not (tmp_path / "new/link").is_symlink()
    assert (tmp_path / "new/link").read_bytes() == b"/etc/passwd"


def test_more_than_the_disk_has_room_for_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = write(tmp_path / "b.zip", [entry("a", b"x" * 999)], {"files/a": b"x" * 999})
    room = type("Room", (), {"free": 10})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: room)
    refuse(file, tmp_path / "new", "make space, or restore to another disk", DiskFullError)


def test_a_file_that_is_cut_off_or_is_no_backup_is_refused(tmp_path: Path):
    file = write(tmp_path / "b.zip", [entry("a", b"x" * 999)], {"files/a": b"x" * 999})
    content = file.read_bytes()
    file.write_bytes(content[:-30])
    refuse(file, tmp_path / "new", "no whole backup")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a", "b")
    refuse(other, tmp_path / "new", "no backup of graphmill", UsageError)
    refuse(tmp_path / "none.zip", tmp_path / "new", "no such file", UsageError)
    file.write_bytes(content.replace(b"PK\1\2", b"PK\1\3", 1))
    refuse(file, tmp_path / "new", "no whole backup")


def test_a_changed_bit_anywhere_is_refused_or_changes_nothing(tmp_path: Path):
    text = b"The Harrow Light. " * 20
    entries = [entry("settings.yaml", SETTINGS), entry("a", text)]
    contents = {"files/settings.yaml": SETTINGS, "files/a": text}
    file = write(tmp_path / "b.zip", entries, contents)
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 4
        file.write_bytes(flipped)
        folder = tmp_path / f"new-{place}"
        try:
            restore_files(file, folder)
        except GraphmillError:
            assert not folder.exists()
        else:
            assert (folder / "a").read_bytes() == text
            assert (folder / "settings.yaml").read_bytes() == SETTINGS
