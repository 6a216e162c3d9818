"""Files that are made to hang or fill what reads them: each is a reject, the others are read,
memory stays bounded."""

import subprocess
from pathlib import Path

import psutil

from pipeline.contract.conversion import ConversionRules, FileToConvert, NotConverted
from pipeline.documents.limited_converter import LimitedConverter
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.documents.hostile_files import (
    another_file,
    entities,
    line_of,
    nested,
    pdf_bomb,
    zip_bomb,
)
from tests.projects import NO_STORE, new_project
from tests.sizes import only_whole

BOMBS = {"too_much_memory", "too_slow", "crashed"}
MOST_MEMORY = 1_500_000_000


def fill(folder: Path, megabytes: int, depth: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    zip_bomb(folder / "bomb.docx", megabytes)
    pdf_bomb(folder / "bomb.pdf", megabytes // 2)
    entities(folder / "entities.docx")
    secret = folder.parent / "secret.txt"
    secret.write_text("Zyxomandrel")
    another_file(folder / "outside.docx", secret)
    nested(folder / "nested.html", depth)
    (folder / "fine.html").write_text("<p>Mira Vale built the Harrow Light.</p>")


def test_a_file_that_is_made_to_fill_its_reader_is_a_reject_and_the_others_are_read(tmp_path: Path):
    fill(tmp_path / "input", 160, 5000)
    names = sorted(path.name for path in (tmp_path / "input").iterdir())
    files = [FileToConvert(tmp_path / "input" / name, name) for name in names]
    found = dict(
        zip(names, LimitedConverter().convert(files, ConversionRules(60, 300)), strict=True)
    )
    reasons = {
        name: result.reason for name, result in found.items() if isinstance(result, NotConverted)
    }
    # A library that gets no memory may also call the file damaged or unreadable.
    assert "bomb.docx" in reasons, found["bomb.docx"]
    assert reasons["bomb.pdf"] in BOMBS, found["bomb.pdf"]
    assert reasons["entities.docx"] == "parse"
    assert "fine.html" not in reasons
    assert "Zyxomandrel" not in str(found)


def test_a_line_of_a_gigabyte_is_a_reject_before_it_is_read(tmp_path: Path):
    for name in ("a.txt", "b.jsonl", "c.csv"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**30)
    (tmp_path / "d.txt").write_text("Mira Vale built the Harrow Light.")
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert documents["source"].tolist() == ["d.txt"]
    assert dict(zip(rejects["row_id"], rejects["reason"], strict=True)) == dict.fromkeys(
        ["a.txt", "b.jsonl", "c.csv"], "too_large"
    )


@only_whole("writes and reads gigabytes")
def test_memory_of_a_run_over_hostile_files_stays_bounded(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, max_reject_ratio=1)
    documents = folder.root / "data/input"
    fill(documents, 2000, 100_000)
    line_of(documents / "huge.txt", 1100)
    line_of(documents / "large.txt", 90)
    line_of(documents / "large.jsonl", 90, '{"text": "', '"}')
    line_of(documents / "large.csv", 90, 'id,text\n1,"', '"')
    (folder.root / "workflows/short.yaml").write_text(
        "name: short\nsteps:\n  - verb: load_documents\n"
    )
    run = subprocess.Popen(
        folder.command_line("index", "short"), env=folder.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    most = 0
    while run.poll() is None:
        most = max(most, memory_of(run.pid))
    assert run.returncode == 0
    assert 0 < most < MOST_MEMORY
    with folder.open() as project:
        rejects = project.table("rejects", "short")
        read = set(project.table("documents", "short")["source"])
    reasons = dict(zip(rejects["row_id"], rejects["reason"], strict=True))
    assert read >= {"fine.html", "large.csv", "large.jsonl", "large.txt"}
    assert reasons["huge.txt"] == "too_large"
    assert {reasons["bomb.docx"], reasons["bomb.pdf"]} <= BOMBS


def memory_of(process: int) -> int:
    """Of it and what runs below it."""
    total = 0
    try:
        root = psutil.Process(process)
        for one in [root, *root.children(recursive=True)]:
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total
