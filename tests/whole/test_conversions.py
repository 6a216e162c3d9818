"""What was converted is not converted again: nights, plans, a kill, a purge, an upgrade."""

import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from pipeline.contract.conversion import ConversionRules, FileToConvert
from pipeline.documents.kept_conversions import KeepingConverter, conversion_key
from pipeline.models.cache.conversions import ConversionCache, KeptConversion
from pipeline.models.cache.replies import ReplyCache
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.purge.test_purge import CANARY, found_in

OWN = """
import os, time
from pathlib import Path

def convert(path):
    said = path.read_text()
    with open(Path(__file__).with_name("log.txt"), "a") as log:
        log.write(path.name + "\\n")
    while "wait" in said:
        time.sleep(0.05)
    if "bad" in said:
        raise ValueError("a bad page; mend it")
    return said
"""
WORKFLOW = "name: short\nsteps:\n  - verb: load_documents\n  - verb: chunk_documents\n"
TEXTS = {
    "notes.txt": "Mira Vale built the Harrow Light.",
    "a.pdf": "Anselm Torr taught optics at the Brack Institute.",
    "b.pdf": "Idra Senn founded the Brack Institute.",
    "c.pdf": "Governor Pell opened the Tollen Tower.",
}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    project = new_project(
        tmp_path / "p", NO_STORE, TEXTS, input={"converter": "own.py:convert"}, max_reject_ratio=1
    )
    (project.root / "own.py").write_text(OWN)
    (project.root / "workflows/short.yaml").write_text(WORKFLOW)
    return project


def converted(folder: ProjectFolder) -> list[str]:
    """Names of what was converted since the last look."""
    log = folder.root / "log.txt"
    names = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(names)


def index(folder: ProjectFolder, *arguments: str) -> tuple[list[str], dict[str, int]]:
    """What was converted, and what the run says of it."""
    report = folder.report("index", "short", *arguments)
    return converted(folder), report["steps"][0]["conversions"]


def documents(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        table = project.table("documents", "short")
    return dict(zip(table["source"], table["text"], strict=True))


def test_a_conversion_is_kept_until_the_content_changes(folder: ProjectFolder):
    assert index(folder) == (["a.pdf", "b.pdf", "c.pdf"], {"converted": 3})
    folder.write("d.txt", "A new letter.")
    assert index(folder) == ([], {})
    (folder.root / "data/input/a.pdf").rename(folder.root / "data/input/renamed.pdf")
    folder.write("b.pdf", "Idra Senn endowed the Tollen Tower.")
    assert index(folder) == (["b.pdf"], {"kept": 1, "converted": 1})
    assert documents(folder)["renamed.pdf"] == TEXTS["a.pdf"]
    assert documents(folder)["b.pdf"] == "Idra Senn endowed the Tollen Tower."
    assert index(folder, "--reconvert") == (["b.pdf", "c.pdf", "renamed.pdf"], {"converted": 3})


def test_a_plan_and_whoever_else_only_looks_convert_nothing(folder: ProjectFolder):
    planned = folder.report("plan", "short")
    assert planned["documents"] == {"new": 4, "edited": 0, "gone": 0}
    assert any(
        note.startswith("3 files to be converted (less than 0.1 MB): the time")
        for note in planned["notes"]
    )
    for name in ("notes.txt", "b.pdf", "c.pdf"):
        folder.delete(name)
    assert "1 file to be converted" in str(
        folder.report("plan", "short")["notes"]
    )  # there is no document yet
    assert index(folder) == (["a.pdf"], {"converted": 1})
    read = folder.report("status")["steps"][0]
    assert read["converted_bytes"] == len(TEXTS["a.pdf"])
    assert read["conversion_seconds"] > 0
    folder.write("a.pdf", "Anselm Torr ground a lens.")
    folder.write("b.pdf", TEXTS["b.pdf"])
    notes = str(folder.report("plan", "short")["notes"])
    # How long it takes depends on the machine; that it is known from the run before does not.
    assert re.search(r"2 files to be converted \(less than 0\.1 MB\): (less than 1|\d+) s", notes)
    assert "at the speed of earlier runs" in notes
    assert folder.report("plan", "short")["documents"] == {"new": 1, "edited": 1, "gone": 0}
    with folder.open() as project:
        changed = project.changed_documents("short")
    assert dict(zip(changed["source"], changed["change"], strict=True)) == {
        "a.pdf": "edited",
        "b.pdf": "new",
    }
    assert converted(folder) == []


def test_another_converter_makes_what_failed_and_nothing_else(folder: ProjectFolder):
    folder.write("b.pdf", "a bad one")
    assert index(folder)[0] == ["a.pdf", "b.pdf", "c.pdf"]
    folder.write("d.txt", "A new letter.")
    assert index(folder) == ([], {"not_converted": 1})
    assert "b.pdf" not in documents(folder)
    (folder.root / "own.py").write_text(OWN.replace('if "bad" in said', 'if "worse" in said'))
    report = folder.report("index", "short")
    assert converted(folder) == ["b.pdf"]
    assert documents(folder)["b.pdf"] == "a bad one"
    message = "2 files with the text that own.py:convert"
    assert [note for note in report["notes"] if message in note], report["notes"]


def test_what_failed_is_tried_again_within_other_limits_and_by_retry(folder: ProjectFolder):
    folder.write("b.pdf", "a bad one")
    index(folder)
    folder.edit_settings(input={"converter": "own.py:convert", "convert_seconds": 200})
    assert index(folder) == (["b.pdf"], {"kept": 2, "not_converted": 1})
    folder.report("retry", "short")
    assert converted(folder) == ["b.pdf"]


def test_a_killed_run_keeps_what_it_has_converted(folder: ProjectFolder):
    folder.write("z.pdf", "wait")
    run = subprocess.Popen(
        folder.command_line("index", "short"), env=folder.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            run, lambda: kept_in(folder) == 3 and "z.pdf" in (folder.root / "log.txt").read_text()
        )
        below = psutil.Process(run.pid).children(recursive=True)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert converted(folder) == ["a.pdf", "b.pdf", "c.pdf", "z.pdf"]
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    folder.write("z.pdf", "Now it says something.")
    assert index(folder) == (["z.pdf"], {"kept": 3, "converted": 1})


def wait_until(run: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    while not holds():
        assert run.poll() is None


def kept_in(folder: ProjectFolder) -> int:
    path = folder.root / "data/cache.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as cache:
        try:
            return cache.execute("SELECT count(*) FROM conversions").fetchone()[0]
        except sqlite3.OperationalError:  # it is being made
            return 0


def test_a_purge_leaves_no_conversion_of_the_document(folder: ProjectFolder):
    folder.edit_settings(stores={})
    folder.write("secret.pdf", f"Mira Vale hid the {CANARY} Stone.")
    index(folder)
    assert [name for name in found_in(folder.root, CANARY) if name.startswith("data/cache.sqlite")]
    with folder.open() as project:
        report = project.purge("secret.pdf")
    assert report.forgotten == 1
    assert found_in(folder.root, CANARY) == []
    assert kept_in(folder) == 3
    assert converted(folder) == []


def test_a_damaged_conversion_is_made_again(folder: ProjectFolder):
    index(folder)
    with closing(sqlite3.connect(folder.root / "data/cache.sqlite")) as cache, cache:
        cache.execute("UPDATE conversions SET content = replace(content, 'Anselm', 'Ansalm')")
    assert index(folder, "--force", "load_documents") == (["a.pdf"], {"kept": 2, "converted": 1})
    assert documents(folder)["a.pdf"] == TEXTS["a.pdf"]


def test_a_conversion_as_another_version_keeps_it_is_made_again(tmp_path: Path):
    (tmp_path / "a.html").write_text("<p>Mira Vale built the Harrow Light.</p>")
    cache = ConversionCache(ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite"))
    file = FileToConvert(tmp_path / "a.html", "a.html")
    cache.store(conversion_key(file), KeptConversion("markitdown 9", "", '{"pieces": []}'))
    converter = KeepingConverter(cache)
    assert converter.known([file], ConversionRules()) == [None]
    [made] = converter.convert([file], ConversionRules())
    assert converter.known([file], ConversionRules()) == [made]
    cache.cache.close()


def test_a_file_that_is_written_to_while_it_is_converted_is_not_kept_as_what_it_was(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_text("before")
    (tmp_path / "own.py").write_text(
        "def convert(path):\n    said = path.read_text()\n    path.write_text('after')\n    return"
        " said\n"
    )
    cache = ConversionCache(ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite"))
    file = FileToConvert(path, "a.pdf")
    rules = ConversionRules(own={"": "own.py:convert"}, folder=str(tmp_path))
    before = conversion_key(file)
    assert KeepingConverter(cache).convert([file], rules)
    assert not list(cache.find([before, conversion_key(file)]))
    cache.cache.close()
