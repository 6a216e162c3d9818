"""A purged document leaves no trace: in tables, snapshots, cache, reports and stores, or in files
at the endpoint."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.errors import DeletionError, UsageError, WaitingError
from pipeline.export.kinds import KINDS
from pipeline.runs.audit import AuditLog
from pipeline.settings.init import init_project
from pipeline.snapshots import tables
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import models
from tests.stored import stored_hashes

CANARY = "Zyxomandrel"
KEPT = {
    "a.txt": (
        "The Harbour\n\nMira Vale built the Harrow Light. Anselm Torr ground its lens at Quill."
    ),
    "b.txt": "The Institute\n\nIdra Senn founded the Brack Institute. Mira Vale studied there.",
    "c.txt": "The Tower\n\nGovernor Pell opened the Tollen Tower. Anselm Torr paid for it.",
}
SECRET = (
    f"The Cellar\n\nMira Vale hid the {CANARY} Stone in the cellar. {CANARY} Stone belongs to Idra"
    " Senn."
)


def found_in(root: Path, word: str) -> list[str]:
    """Return the files below the folder that hold the word, in UTF-8 or UTF-16, also inside
    Parquet."""
    forms = [word.encode(), word.lower().encode(), word.encode("utf-16-le")]
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [
        path.relative_to(root).as_posix()
        for path in files
        if any(form in _content(path) for form in forms)
    ]


def _content(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is Parquet.

    SQLite deletes its log when the last connection closes.
    """
    try:
        return (
            str(pq.read_table(path).to_pydict()).encode()
            if path.suffix == ".parquet"
            else path.read_bytes()
        )
    except FileNotFoundError:
        return b""


def words_of_tables(folder: ProjectFolder) -> str:
    with folder.open() as project:
        manifest = project.snapshots.manifest("index")
        return " ".join(
            project.snapshots.tables.read(snapshot).to_string()
            for snapshot in manifest.tables.values()
        )


def embedded_project(root: Path, openai: OpenAIServer, documents: dict[str, str]) -> ProjectFolder:
    init_project(root)
    folder = ProjectFolder(root, openai.env)
    for name, text in documents.items():
        folder.write(name, text)
    folder.edit_settings(max_delete_ratio=1, models=models(openai))
    return folder


def test_no_file_holds_a_word_of_a_purged_document(
    tmp_path: Path, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        tables, "WHOLE_BELOW", 1
    )  # so that rows which are gone stay in the files of a night
    monkeypatch.setattr(tables, "OUTGROWN", 1)
    folder = embedded_project(tmp_path / "mill", openai, {**KEPT, "secret.txt": SECRET})
    with folder.open() as project:
        project.run("index")
        folder.write("secret.txt", SECRET + f" The {CANARY} Stone was sold to Governor Pell.")
        project.run("index")  # an earlier version of it is in the history
        assert CANARY in project.table("entities")["name"].str.cat()
        audit = AuditLog(folder.root / "data/audit", hashed=False)
        audit.add("question", f"Who hid the {CANARY} Stone?", passages=[{"source": "secret.txt"}])
        assert len(found_in(folder.root, CANARY)) > 4
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


def test_no_file_holds_a_header_of_a_purged_document(tmp_path: Path, openai: OpenAIServer):
    titled = (
        f"---\ntitle: {CANARY} Stone\naliases: [{CANARY} Rock]\ndate: 1871-05-02\n---\n\n"
        f"# The {CANARY} case\n\nIt was hidden in the mill.\n"
    )
    folder = embedded_project(tmp_path / "mill", openai, {**KEPT, "secret.md": titled})
    with folder.open() as project:
        project.run("fast")
        assert CANARY in project.table("text_unit_headers", "fast")["header"].str.cat()
        project.purge("secret.md")
        assert project.query_data("Who hid the stone?", mode="naive")["chunks"]
        project.stop_stores()
    assert found_in(folder.root, CANARY) == []
    assert found_in(folder.root, "Harrow") != []


def test_no_file_or_export_holds_a_statement_of_a_purged_document(
    tmp_path: Path, openai: OpenAIServer
):
    """Other documents have the entities and the relationship, so these stay."""
    said = f"Mira Vale {CANARY.lower()}led the Harrow Light."
    folder = embedded_project(tmp_path / "mill", openai, {**KEPT, "said.txt": said})

    def export_all(night: str) -> Path:
        for kind in KINDS:
            project.export(kind, tmp_path / night / kind)
        return tmp_path / night

    with folder.open() as project:
        project.run("index")
        assert CANARY.lower() in project.table("statements")["description"].str.cat()
        before = export_all("before")
        assert {Path(name).parts[0] for name in found_in(before, CANARY)} == set(KINDS)
        ids = {name: set(project.table(name)["id"]) for name in ("entities", "relationships")}
        project.purge("said.txt")
        assert {name: set(project.table(name)["id"]) for name in ids} == ids
        after = export_all("after")
        project.stop_stores()
    assert found_in(after, CANARY) == []
    assert found_in(folder.root, CANARY) == []
    assert found_in(folder.root, "Harrow") != []


def test_no_file_holds_a_correction_that_quotes_a_purged_document(
    tmp_path: Path, postgres_url: str
):
    documents = {**KEPT, "secret.txt": SECRET}
    folder = new_project(tmp_path / "p", postgres_url, documents, workflow="fast")
    quote = f"{CANARY} Stone belongs"
    said = {"description": f"Of the {CANARY}.", "document": "secret.txt"}
    lines = [
        {"kind": "rename", "entity": "Mira Vale", "to": "Mira V", "quote": quote},
        {"kind": "rename", "entity": "Nobody Here", "to": "Mira W", "quote": quote},
        {"kind": "add_statement", "source": "Mira Vale", "target": "Idra Senn", **said},
    ]
    with folder.open() as project:
        project.run()
        for line in lines:
            project.add_correction(line)
        taken_back = project.add_correction({**lines[0], "entity": "Anselm Torr"})
        project.run()
        project.undo_correction(taken_back.effect.decision.id)
        folder.delete("secret.txt")
        project.purge("secret.txt")
        assert not project.corrections()
        assert not found_in(folder.root, CANARY)
        assert project.run().exit_code == 0


def test_the_rest_is_as_if_the_document_had_never_existed(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
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
            hashes.append(stored_hashes(project.stores.all[0]))
    assert hashes[:2] == hashes[2:]


def test_text_that_a_surviving_document_has_too_stays(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(
        tmp_path / "mill", postgres_url, {**KEPT, "copy.txt": KEPT["a.txt"]}, openai
    )
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        assert project.purge("copy.txt").forgotten == 0
        calls = openai.count("chat")
        project.cache.close()
    with folder.open(*folder.endpoint_overrides, "workspace=elsewhere") as project:
        project.index("fast")
        assert project.index("index").totals["calls"] == 0
    assert openai.count("chat") == calls


def test_a_purge_that_was_broken_off_goes_on(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        folder.delete("secret.txt")
        project.run("index")
        assert CANARY in " ".join(found_in(folder.root, CANARY)) or found_in(folder.root, CANARY)
        project.purge("secret.txt")
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def in_batches(folder: ProjectFolder, openai: OpenAIServer) -> None:
    """Set the extraction to run in a batch, which is not waited for."""
    batch = {"poll_seconds": 0.01, "wait_minutes": 0, "least": 1}
    chat = {"base_url": openai.base_url, "api_key": openai.key, "batch": batch}
    folder.edit_settings(models={"chat": {"default": chat}})
    workflow = folder.root / "workflows/index.yaml"
    step = "    models: {chat: default}\n  - verb: add_links"
    workflow.write_text(
        workflow.read_text().replace(
            step, step.replace("default}", "default}\n    execution: batch")
        )
    )


def test_a_batch_under_way_goes_with_its_files_also_with_those_it_writes_late(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    in_batches(folder, openai)
    with folder.open() as project:
        project.run("fast")
        openai.batch_hold, openai.batch_cancel_polls, openai.batch_cancelled_after = True, 1, 4
        with pytest.raises(WaitingError):
            project.index("index")
        assert [file.deleted for file in openai.files] == [False]
        with pytest.raises(WaitingError, match="run the same command later"):
            project.purge("secret.txt")
        assert (folder.root / "data/input/secret.txt").exists()
        project.purge("secret.txt")
        assert len(openai.files) == 2
        assert all(file.deleted for file in openai.files)
        usage = project.usage()
        assert usage["input_tokens"].sum() == sum(
            request.prompt_tokens for request in openai.requests
        )
        assert set(usage["step"]) == {"purge"}
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def test_a_purge_asks_directly_so_that_the_next_one_has_no_batch_to_cancel(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    in_batches(folder, openai)
    with folder.open("models.chat.default.batch.wait_minutes=1") as project:
        project.run("index")
        project.cache.close()
    folder.write("a.txt", KEPT["a.txt"] + " Governor Pell came to see it.")
    openai.batch_hold = True
    with folder.open() as project:
        project.purge("secret.txt")
        assert len(openai.batches) == 1
        project.cache.close()
    assert found_in(folder.root, CANARY) == []


def test_a_purge_that_is_refused_abandons_no_batch(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    in_batches(folder, openai)
    openai.batch_hold = True
    with folder.open() as project:
        project.run("fast")
        with pytest.raises(WaitingError):
            project.index("index")
    # A step that the last run did not have: the purge does not know its tables.
    workflow = folder.root / "workflows/fast.yaml"
    step = "verb: extract_graph_fast"
    workflow.write_text(workflow.read_text().replace(step, f"{step}\n    id: other"))
    said = r"'fast' has been changed since its last run \(extract_graph_fast\), and a workspace"
    with folder.open() as project:
        for refused in (project.purge, project.survey):
            with pytest.raises(UsageError, match=said):
                refused("secret.txt")
    assert [batch.status for batch in openai.batches] == ["in_progress"]


def inputs(folder: ProjectFolder) -> set[str]:
    return {path.name for path in (folder.root / "data/input").iterdir()}


def test_a_half_mounted_folder_is_refused_before_anything_is_lost(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    documents = {
        f"d{n}.txt": f"The Light {n}\n\nMira Vale built the Harrow Light in 187{n}."
        for n in range(6)
    }
    folder = new_project(tmp_path / "mill", postgres_url, documents, openai, max_delete_ratio=0.3)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        calls, history = openai.count("chat"), project.snapshots.history("index")
        for n in range(1, 4):
            folder.delete(f"d{n}.txt")
        with pytest.raises(
            DeletionError,
            match=r"3 of 5 documents are gone \(d1.*--allow-deletes' first, then purge",
        ):
            project.purge("d0.txt")
        assert inputs(folder) == {"d0.txt", "d4.txt", "d5.txt"}
        assert project.snapshots.history("index") == history
        assert len(project.table("documents", "index")) == 6
        for name, text in documents.items():
            folder.write(name, text)
        folder.delete("d1.txt")
        folder.write("renamed.txt", documents["d1.txt"])
        folder.delete("d2.txt")
        project.purge("d0.txt")
        # A purge reads nothing: what else has changed in the folder is left to the next run.
        assert set(project.table("documents", "index")["source"]) == {
            f"d{n}.txt" for n in range(1, 6)
        }
        assert openai.count("chat") == calls


def test_all_records_of_the_purged_file_may_go(tmp_path: Path, postgres_url: str):
    records = "".join(
        f'{{"id": "{n}", "text": "Mira Vale met Anselm Torr in 187{n}."}}\n' for n in range(8)
    )
    folder = new_project(
        tmp_path / "mill", postgres_url, {"a.txt": KEPT["a.txt"], "log.jsonl": records}
    )
    folder.edit_settings(max_delete_ratio=0)
    with folder.open() as project:
        project.run("fast")
        assert len(project.table("documents")) == 9
        project.purge("log.jsonl")
        assert list(project.table("documents")["source"]) == ["a.txt"]


def test_while_another_run_goes_on_nothing_is_touched(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    in_batches(folder, openai)
    openai.batch_hold = True
    with folder.open() as project, pytest.raises(WaitingError):
        project.run("index")
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*") if path.is_file()}
    with folder.open() as other, other.runs.alone():
        done = folder.invoke("purge", "--document", "secret.txt", "--yes")
        assert (done.exit_code, "another run holds this project" in done.stderr) == (1, True)
    after = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*") if path.is_file()}
    locks = {
        folder.root / "data" / place / name
        for place in ("runs", "snapshots")
        for name in ("lock", "holder")
    }
    assert {path for path in before | after if before.get(path) != after.get(path)} <= locks
    assert [batch.status for batch in openai.batches] == ["in_progress"]
    assert [file.deleted for file in openai.files] == [False]


def test_projects_that_share_a_cache_keep_their_replies_and_batches(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    shared = f"sqlite:///{tmp_path / 'cache.sqlite'}"
    texts = {f"{name}-2.txt": f"{text} It was in 1871." for name, text in KEPT.items()}
    mine = new_project(
        tmp_path / "a", postgres_url, {**KEPT, "secret.txt": SECRET}, openai, cache=shared
    )
    theirs = new_project(tmp_path / "b", postgres_url, texts, openai, cache=shared)
    for folder in (mine, theirs):
        folder.edit_settings(workspace="default")
        in_batches(folder, openai)
    openai.batch_hold = True
    with theirs.open() as project, pytest.raises(WaitingError):
        project.index("index")
    with mine.open("models.chat.default.batch.least=99") as project:
        project.index("index")
        project.purge("secret.txt")
        project.cache.close()
    assert [batch.status for batch in openai.batches] == ["in_progress"]
    openai.batch_hold = False
    with theirs.open() as project:
        project.index("index")
        calls = openai.count("chat")
        project.cache.close()
    assert [len(openai.batches), openai.count("batch")] == [1, 3]
    with mine.open() as project:
        project.purge("a.txt")
        project.cache.close()
    shutil.rmtree(theirs.root / "data/snapshots")
    with theirs.open() as project:
        assert project.index("index").totals["calls"] == 0
        project.cache.close()
    assert openai.count("chat") == calls
    assert CANARY.encode() not in (tmp_path / "cache.sqlite").read_bytes()


def test_the_error_says_why_a_name_cannot_be_purged(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {"a.txt": KEPT["a.txt"]})
    with folder.open() as project:
        project.run("fast")
        for path, why in (
            ("../settings.yaml", "not below"),
            ("a.txt", "one has to stay; add another document and run, then purge again"),
            (".", "not below"),
        ):
            with pytest.raises(UsageError, match=why):
                project.purge(path)
    assert (folder.root / "settings.yaml").exists()
    assert (folder.root / "data/input/a.txt").exists()
