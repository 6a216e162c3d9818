"""A folder of some three hundred oddities loads in one run: no document is lost or wrong without a
reject."""

import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from tests.projects import ProjectFolder, new_project
from tests.sizes import size
from tests.states import postgres_rows
from tests.whole.oddities import Oddity, make, oddities, story

DELETED = 13
"""Beside those that are mended or edited."""
CHANGING = [f"changing/{number}.txt" for number in range(4)]


@contextmanager
def rewritten(folder: Path, texts: Mapping[str, tuple[str, str]]) -> Iterator[None]:
    """Each file says the one or the other, over and over, until the block ends: then the last."""
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            for name, (one, other) in texts.items():
                for text in (one, other):
                    (folder / f"{name}.new").write_text(text)
                    os.replace(folder / f"{name}.new", folder / name)

    for name, (one, _) in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(one)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()
    for name in texts:
        (folder / f"{name}.new").unlink(missing_ok=True)


def tables(project_folder: ProjectFolder) -> tuple[dict[str, str], pd.DataFrame]:
    """source -> text, and the rejects."""
    with project_folder.open() as project:
        documents, rejects = project.table("documents"), project.table("rejects")
    return dict(zip(documents["source"], documents["text"], strict=True)), rejects


def faults(found: list[Oddity], texts: Mapping[str, str], rejects: pd.DataFrame) -> list[str]:
    """What was lost, or is wrong, without a word."""
    told = "\n".join(rejects["row_id"] + " " + rejects["message"])
    expected = {
        source: (oddity, text) for oddity in found for source, text in oddity.documents.items()
    }
    wrong = [
        f"{source}: nobody's"
        for source in texts
        if source.split("#")[0] not in {s.split("#")[0] for s in expected}
    ]
    for source, (oddity, text) in expected.items():
        if source not in texts:
            if oddity.name not in told:
                wrong.append(f"{source}: lost")
        elif text is not None and texts[source].strip() != text.strip() and source not in told:
            wrong.append(f"{source}: {texts[source][:80]!r} instead of {text[:80]!r}")
    return wrong + [
        f"{oddity.name}: not told" for oddity in found if oddity.told and _shown(oddity) not in told
    ]


def _shown(oddity: Oddity) -> str:
    return oddity.name.split("\n")[0]


@pytest.mark.parametrize("seed", range(size(1, 4)))
def test_nothing_is_lost_or_wrong_without_a_word(tmp_path: Path, postgres_url: str, seed: int):
    draw = random.Random(seed)
    found = oddities(seed)
    folder = new_project(tmp_path / "mill", postgres_url, {})
    below = folder.root / "data" / "input"
    make(below, found)
    texts = {name: (story(draw), story(draw, 40)) for name in CHANGING}
    with rewritten(below, texts), folder.open() as project:
        first = project.run("fast")
    assert first.load, first.message
    read, rejects = tables(folder)
    assert {read.pop(name) for name in CHANGING if name in read} <= {
        text for pair in texts.values() for text in pair
    }
    assert faults(found, read, rejects) == []

    after = next_night(below, found, draw)
    changed = [Oddity(name, str, {name: other}) for name, (_, other) in texts.items()]
    with folder.open() as project:
        assert project.run("fast").load
    read, rejects = tables(folder)
    assert faults([*after, *changed], read, rejects) == []

    fresh = new_project(tmp_path / "fresh", postgres_url, {})
    below.rename(below.with_name("elsewhere"))
    (fresh.root / "data" / "input").rmdir()
    below.with_name("elsewhere").rename(fresh.root / "data" / "input")
    with fresh.open() as project:
        assert project.run("fast").load
    assert corpus_rows(folder, postgres_url) == corpus_rows(fresh, postgres_url)


def next_night(below: Path, found: list[Oddity], draw: random.Random) -> list[Oddity]:
    """Fifty of them mended, edited or deleted."""
    kept = []
    gone = set(draw.sample([oddity.name for oddity in found if oddity.mended is None], DELETED))
    for oddity in found:
        if oddity.name in gone:
            (below / oddity.name).unlink()
        elif oddity.mended is None:
            kept.append(oddity)
        else:
            (below / oddity.name).write_bytes(oddity.mended)
            kept.append(Oddity(oddity.name, oddity.make, oddity.then))
    return kept


def corpus_rows(folder: ProjectFolder, postgres_url: str) -> dict[str, object]:
    """What of the stores follows from the corpus."""
    with folder.open() as project:
        rows = postgres_rows(postgres_url, project.settings.workspace)
    return {name: found for name, found in rows.items() if name != "graphmill_live"}
