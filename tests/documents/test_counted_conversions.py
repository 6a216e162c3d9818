"""Check that a run counts the files that it converted apart from those that it could not
convert."""

from pathlib import Path

import pytest

from tests.projects import NO_STORE, ProjectFolder, new_project


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """A converter that works for .odt and fails for .rtf."""
    folder = new_project(
        tmp_path / "p", NO_STORE, {"plain.txt": "Mira Vale built the Harrow Light.\n"}
    )
    folder.edit_settings(
        input={"converter": {"odt": ["cat", "{file}"], "rtf": ["false", "{file}"]}}
    )
    for name in ("a.odt", "b.rtf", "c.rtf"):
        folder.write(name, f"The Harrow Light of {name} stands at Quill Point.\n")
    return folder


def test_files_that_could_not_be_converted_are_not_counted_as_converted(folder: ProjectFolder):
    done = folder.invoke("index", "fast", "--set", "max_reject_ratio=1")
    assert "files: 1 converted, 2 could not be converted;" in done.stderr
    assert folder.report("status")["steps"][0]["conversions"] == {
        "converted": 1,
        "not_converted": 2,
    }


def test_a_failure_that_is_known_from_an_earlier_run_is_no_kept_conversion(folder: ProjectFolder):
    folder.invoke("index", "fast", "--set", "max_reject_ratio=1")
    again = folder.report(
        "index", "fast", "--set", "max_reject_ratio=1", "--force", "load_documents"
    )
    assert again["steps"][0]["conversions"] == {"kept": 1, "not_converted": 2}
