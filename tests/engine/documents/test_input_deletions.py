"""An input that loses most of its documents stops a run, unless it is meant or expected."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError, UsageError
from tests.engine.documents.test_deletions import LOAD_ONLY
from tests.projects import NO_STORE, ProjectFolder, new_project

OF = {name: RunOptions(allow_deletes_of=(name,)) for name in ("wiki", "code", ".", "other")}
WIKI = "input 'wiki': 20 of its 30 documents are gone"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """Return a project with three inputs of 30 documents each."""
    texts = {f"{number}.txt": f"Main {number}." for number in range(30)}
    folder = new_project(tmp_path / "mill", NO_STORE, texts, workflow="load")
    (folder.root / "workflows" / "load.yaml").write_text(LOAD_ONLY)
    for name in ("wiki", "code"):
        (folder.root / name).mkdir()
        for number in range(30):
            (folder.root / name / f"{number}.txt").write_text(f"{name} {number}.")
    with_inputs(folder)
    assert run(folder) == 90
    return folder


def with_inputs(folder: ProjectFolder, max_delete_ratio: float = 0.3, **of_wiki: Any) -> None:
    inputs = [{"name": "wiki", "url": "wiki", **of_wiki}, {"name": "code", "url": "code"}]
    folder.edit_settings(inputs=inputs, max_delete_ratio=max_delete_ratio)


def run(folder: ProjectFolder, options: RunOptions | None = None) -> int:
    """Return the number of documents after a run."""
    with folder.open() as project:
        project.index(options=options or RunOptions())
        return len(project.table("documents"))


def lose(folder: ProjectFolder, input: str, number: int) -> None:
    for path in sorted((folder.root / input).iterdir())[:number]:
        path.unlink()


def test_the_guard_of_one_input_is_opened_alone_and_the_refusal_says_how(folder: ProjectFolder):
    lose(folder, "wiki", 20)
    with pytest.raises(DeletionError, match=f"{WIKI}.* again with --allow-deletes-of wiki if"):
        run(folder)
    with pytest.raises(DeletionError, match=WIKI):
        run(folder, OF["code"])
    lose(folder, "code", 20)
    with pytest.raises(DeletionError, match="input 'code': 20 of its 30"):
        run(folder, OF["wiki"])
    both = RunOptions(allow_deletes_of=("wiki", "code"))
    assert run(folder, both) == 50, "44 % of all documents are of inputs that may lose them"
    lose(folder, "data/input", 20)
    with pytest.raises(
        DeletionError, match=r"the input folder: 20 of its 30.*--allow-deletes-of [.] "
    ):
        run(folder, OF["wiki"])
    assert run(folder, OF["."]) == 30


def test_a_share_of_its_own_holds_for_an_input_alone_whatever_its_part_of_all_documents(
    folder: ProjectFolder,
):
    with_inputs(folder, max_delete_ratio=0.1, max_deleted=0.7)
    lose(folder, "wiki", 20)
    assert run(folder) == 70
    lose(folder, "wiki", 8)
    with pytest.raises(
        DeletionError, match="8 of its 10 documents are gone, more than its max_del"
    ):
        run(folder)
    with_inputs(folder, max_delete_ratio=0.1, max_deleted=0.8)
    assert run(folder) == 62
    lose(folder, "code", 7)
    with pytest.raises(DeletionError, match=r"input 'code': 7 of its 30.*max_delete_ratio 0\.1"):
        run(folder)


def test_another_share_reads_nothing_again(folder: ProjectFolder):
    with_inputs(folder, max_deleted=0.7)
    with folder.open() as project:
        [step] = project.plan()
    assert step.action == "reuse"


def test_an_input_that_was_taken_out_of_the_settings_is_let_go_by_its_name(folder: ProjectFolder):
    folder.edit_settings(inputs=[{"name": "code", "url": "code"}])
    with pytest.raises(DeletionError, match=r"30 of 90 documents.*--allow-deletes-of wiki if"):
        run(folder)
    assert run(folder, OF["wiki"]) == 60


def test_an_unknown_input_is_refused_with_those_that_are_there(folder: ProjectFolder):
    with pytest.raises(
        UsageError, match=r"no input 'other'; have: \. \(the input folder\), code, wiki"
    ):
        run(folder, OF["other"])


@pytest.mark.parametrize("command", ["run fast", "index", "retry"])
def test_the_commands_take_the_inputs_whose_documents_may_go(folder: ProjectFolder, command: str):
    options = ["--allow-deletes-of", "wiki", "--allow-deletes-of", "other"]
    wrong = folder.invoke(*command.split(), *options)
    assert wrong.exit_code == 2
    assert "no input 'other'" in wrong.stderr
