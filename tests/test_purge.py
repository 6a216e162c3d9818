"""A purged document leaves no trace: in tables, snapshots, cache, reports and stores, or in files at the endpoint."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.errors import UsageError, WaitingError
from pipeline.init import init_project
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import models
from tests.stored import stored_hashes

CANARY = "Zyxomandrel"
KEPT = {
    "a.txt": "The Harbour\n\nMira Vale built the Harrow Light. Anselm Torr ground its lens at Quill.",
    "b.txt": "The Institute\n\nIdra Senn founded the Brack Institute. Mira Vale studied there.",
    "c.txt": "The Tower\n\nGovernor Pell opened the Tollen Tower. Anselm Torr paid for it.",
}
SECRET = f"The Cellar\n\nMira Vale hid the {CANARY} Stone in the cellar. {CANARY} Stone belongs to Idra Senn."


def found_in(root: Path, word: str) -> list[str]:
    """Files below the folder that hold the word, in UTF-8 or UTF-16, also inside Parquet."""
    forms = [word.encode(), word.lower().encode(), word.encode("utf-16-le")]
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path.relative_to(root).as_posix() for path in files if any(form in _content(path) for form in forms)]


def _content(path: Path) -> bytes:
    """Parquet is compressed."""
    return str(pq.read_table(path).to_pydict()).encode() if path.suffix == ".parquet" else path.read_bytes()


def words_of_tables(folder: ProjectFolder) -> str:
    with folder.open() as project:
        manifest = project.snapshots.manifest("index")
        return " ".join(project.snapshots.read(snapshot).to_string() for snapshot in manifest.tables.values())


def embedded_project(root: Path, openai: OpenAIServer, documents: dict[str, str]) -> ProjectFolder:
    init_project(root)
    folder = ProjectFolder(root, openai.env)
    for name, text in documents.items():
        folder.write(name, text)
    folder.edit_settings(max_delete_ratio=1, models=models(openai))
    return folder


def test_no_file_holds_a_word_of_a_purged_document(tmp_path: Path, openai: OpenAIServer):
    folder = embedded_project(tmp_path / "mill", openai, {**KEPT, "secret.txt": SECRET})
    with folder.open() as project:
        project.run("index")
        folder.write("secret.txt", SECRET + f" The {CANARY} Stone was sold to Governor Pell.")
        project.run("index")  # an earlier version of it is in the history
        assert CANARY in project.table("entities")["name"].str.cat()
        assert len(found_in(folder.root, CANARY)) > 3
        report = project.purge("secret.txt")
        assert report.rebuilt
        assert report.forgotten >= 2
        assert not (folder.root / "data/input/secret.txt").exists()
        assert project.query_data("Who hid the stone?", mode="naive")["chunks"]
        project.stop_stores()
    assert CANARY not in words_of_tables(folder)
    assert found_in(folder.root, CANARY) == []
    assert found_in(folder.root, "Harrow") != []
    assert not any(CANARY in str(file) for file in openai.files)


def test_what_survives_is_as_if_the_document_had_never_been(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    purged = new_project(tmp_path / "purged", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    fresh = new_project(tmp_path / "fresh", postgres_url, KEPT, openai)
    hashes = []
    for folder in (purged, fresh):
        with folder.open(*folder.endpoint_overrides) as project:
            project.run("index")
            if folder is purged:
                project.purge("data/input/secret.txt")
            calls = openai.count("chat")
            assert project.run("index").totals["calls"] == 0
            assert openai.count("chat") == calls
            manifest = project.snapshots.manifest("index")
            hashes.append({name: snapshot.sha256 for name, snapshot in manifest.tables.items()})
            hashes.append(stored_hashes(project.stores.vectors))
    assert hashes[:2] == hashes[2:]


def test_text_that_a_surviving_document_has_too_stays(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "copy.txt": KEPT["a.txt"]}, openai)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        assert project.purge("copy.txt").forgotten == 0
        calls = openai.count("chat")
        project.cache.close()
    with folder.open(*folder.endpoint_overrides, "workspace=elsewhere") as project:
        project.index("fast")
        assert project.index("index").totals["calls"] == 0
    assert openai.count("chat") == calls


def test_a_purge_that_was_broken_off_goes_on(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        folder.delete("secret.txt")
        project.run("index")
        assert CANARY in " ".join(found_in(folder.root, CANARY)) or found_in(folder.root, CANARY)
        project.purge("secret.txt")
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def test_a_batch_under_way_goes_with_its_files(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    batch = {"poll_seconds": 0.01, "wait_minutes": 0, "least": 1}
    chat = {"base_url": openai.base_url, "api_key": openai.key, "batch": batch}
    folder.edit_settings(models={"chat": {"default": chat}})
    workflow = folder.root / "workflows/index.yaml"
    step = "    models: {chat: default}\n  - verb: merge_graphs"
    workflow.write_text(workflow.read_text().replace(step, step.replace("default}", "default}\n    execution: batch")))
    with folder.open() as project:
        project.run("fast")
        openai.batch_hold = True
        with pytest.raises(WaitingError):
            project.run("index")
        assert [file.deleted for file in openai.files] == [False]
        project.purge("secret.txt")
        assert all(file.deleted for file in openai.files)
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def test_what_cannot_be_purged_is_said(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_project(tmp_path / "mill", postgres_url, {"a.txt": KEPT["a.txt"]})
    with folder.open() as project:
        project.run("fast")
        for path, why in (("../settings.yaml", "not below"), ("a.txt", "the only document"), (".", "not below")):
            with pytest.raises(UsageError, match=why):
                project.purge(path)
    assert (folder.root / "settings.yaml").exists()
    assert (folder.root / "data/input/a.txt").exists()
