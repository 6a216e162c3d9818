"""What a project holds about a person is listed, exported and erased."""

import json
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.persons.find import Spellings
from pipeline.persons.intention import FILE, ErasureIntent, ErasureIntents
from pipeline.purge.intention import PurgeIntents
from pipeline.runs.audit import FOLDER, AuditLog
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.purge.test_purge import found_in
from tests.states import postgres_rows

TEXTS = {
    "cellar.txt": "The Cellar\n\nYrsa Quillon hid the Harrow Stone. Yrsa Quillon left Brack Mill.",
    "news.txt": "The News\n\nGovernor Pell opened the Tollen Tower. Yrsa Quillon met Idra Senn.",
    "tower.txt": "The Tower\n\nGovernor Pell opened the Tollen Tower. Anselm Torr paid for it.",
    "mill.txt": "The Mill\n\nAnselm Torr built Brack Mill. Idra Senn founded the Brack Institute.",
}


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path / "mine", postgres_url, TEXTS)
    with folder.open() as project:
        project.run("fast")
        project.add_correction(
            {"kind": "describe_entity", "entity": "Yrsa Quillon", "description": "A thief."}, "fast"
        )
    (folder.root / "data/questions.jsonl").write_text(
        '{"id": "1", "question": "Where is Yrsa  Quillon?"}\n{"id": "2", "question": "Who?"}\n'
    )
    AuditLog(folder.root / FOLDER, hashed=False).add("question", "Who was yrsa quillon?")
    return folder


def test_all_places_are_listed_and_exported(folder: ProjectFolder, tmp_path: Path):
    file = tmp_path / "export.json"
    done = folder.invoke("subject", "yrsa quillon", "--export", str(file))
    assert done.exit_code == 0, done.stderr
    assert "not known: texts that mean the person by another spelling" in done.stderr
    assert "document cellar.txt (fast): 1 text unit" in done.stdout
    found = json.loads(file.read_text())
    assert [one["source"] for one in found["documents"]] == ["cellar.txt", "news.txt"]
    assert [one["name"] for one in found["entities"]] == ["Yrsa Quillon"]
    assert found["relationships"]
    assert found["statements"]
    assert [one["description"] for one in found["corrections"]] == ["A thief."]
    assert [one["id"] for one in found["questions"]] == ["1"]
    assert found["audit_lines"] == 1
    assert file.stat().st_mode & 0o077 == 0
    assert folder.invoke("subject", "Yrsa Quillon", "--export", str(file)).exit_code == 2
    assert "0 relationships" in folder.invoke("subject", "Nobody Here").stdout


def test_a_name_in_metadata_is_found_and_erased_with_its_document(folder: ProjectFolder):
    folder.write("lens.md", "---\nauthor: Zora Mell\n---\n\n# The Lens\n\nIdra Senn ground a lens.")
    folder.write("quay.md", "---\nby:\n  - name: Zoë Ünal\n---\n\n# The Quay\n\nIdra Senn swam.")
    with folder.open() as project:
        assert project.run("fast").exit_code == 0
        (nested,) = project.find_person("Zoë Ünal").documents
        assert (nested.source, nested.text_units, nested.in_metadata) == ("quay.md", 0, True)
    assert (
        "document lens.md (fast): 0 text units, metadata"
        in folder.invoke("subject", "Zora Mell").stdout
    )
    with folder.open() as project:
        assert project.erase_person("Zora Mell").purged == ("lens.md",)
        assert project.find_person("Zora Mell").is_empty
        project.cache.close()
    assert found_in(folder.root, "Zora Mell") == []


def test_a_name_across_the_cut_of_two_text_units_is_found(tmp_path: Path):
    folder = new_project(tmp_path / "mine", NO_STORE, TEXTS)
    workflow = folder.root / "workflows/fast.yaml"
    cut = "{strategy: stable, size: 1200}"
    assert cut in workflow.read_text()
    workflow.write_text(
        workflow.read_text().replace(cut, "{strategy: tokens, size: 1, overlap: 0}")
    )
    with folder.open() as project:
        project.index("fast")
        found = project.find_person("Anselm Torr").documents
    assert [(one.source, one.text_units) for one in found] == [("mill.txt", 0), ("tower.txt", 0)]


def test_nothing_is_erased_without_a_terminal_or_yes(folder: ProjectFolder):
    done = folder.invoke("subject", "Yrsa Quillon", "--erase")
    assert (done.exit_code, "if this is meant, add --yes" in done.stderr) == (2, True)
    with folder.open() as project:
        assert len(project.find_person("Yrsa Quillon").documents) == 2
        with pytest.raises(UsageError, match="too short"):
            project.find_person("Y.")
        with pytest.raises(UsageError, match=r"tower\.txt is none of the documents"):
            project.erase_person("Yrsa Quillon", keep=["tower.txt"])


def test_an_erasure_leaves_no_trace_in_files_and_stores(folder: ProjectFolder, postgres_url: str):
    done = folder.invoke("subject", "Yrsa Quillon", "--erase", "--yes", "--json")
    assert done.exit_code == 0, done.stderr
    assert done.json["purged"] == ["cellar.txt", "news.txt"]
    with folder.open() as project:
        assert project.find_person("Yrsa Quillon").is_empty
        assert project.verify("fast").agrees
        assert project.run("fast").exit_code == 0
        rows = postgres_rows(postgres_url, project.settings.workspace)
        project.cache.close()
    assert "quillon" not in repr(rows).lower()
    assert found_in(folder.root, "Quillon") == []


def test_of_a_document_that_stays_the_person_leaves_the_graph(folder: ProjectFolder):
    with folder.open() as project:
        erased = project.erase_person("Yrsa Quillon", keep=["news.txt"])
        assert (erased.purged, erased.kept) == (("cellar.txt",), ("news.txt",))
        assert erased.deleted == ("Yrsa Quillon",)
        assert [one.source for one in erased.left.documents] == ["news.txt"]
        assert not erased.left.entities
        assert project.verify("fast").agrees
        assert project.run("fast").exit_code == 0
        assert not project.find_person("Yrsa Quillon").entities
        names = project.table("entities", "fast")["name"].tolist()
    assert "Yrsa Quillon" not in names
    assert "Idra Senn" in names


def test_names_that_corrections_have_joined_are_one_person(folder: ProjectFolder):
    with folder.open() as project:
        project.add_correction(
            {"kind": "rename", "entity": "Governor Pell", "to": "Yrsa Quillon"}, "fast"
        )
        project.add_correction(
            {"kind": "rename", "entity": "Anselm Torr", "to": "Yrsa Quillon",
             "document": "mill.txt"}, "fast",
        )  # fmt: skip
        project.run("fast")
        found = project.find_person("governor pell")
        assert set(found.names) == {"governor pell", "Yrsa Quillon"}
        assert set(found.sources) == {"cellar.txt", "news.txt", "tower.txt"}
        erased = project.erase_person("Yrsa Quillon", keep=found.sources)
        assert set(erased.deleted) == {"Governor Pell", "Yrsa Quillon"}
        assert not erased.left.entities
        assert project.run("fast").exit_code == 0
        names = set(project.table("entities", "fast")["name"])
        # The same call finds its corrections there, and adds none.
        again = project.erase_person("Yrsa Quillon", keep=["cellar.txt", "news.txt"])
        assert again.corrections == 0
    assert not names & {"Governor Pell", "Yrsa Quillon"}


def test_nothing_is_removed_before_a_refusal(folder: ProjectFolder):
    questions = folder.root / "data/questions.jsonl"
    corrections = folder.root / "corrections.jsonl"
    before = (questions.read_bytes(), corrections.read_bytes())
    for name in ("mill.txt", "tower.txt"):
        folder.write(name, f"{TEXTS[name]} Yrsa Quillon came.")
    with folder.open() as project:
        project.run("fast")
        with pytest.raises(UsageError, match="every document of workflow 'fast' names the person"):
            project.erase_person("Yrsa Quillon")
        assert len(project.find_person("Yrsa Quillon").documents) == 4
    assert (questions.read_bytes(), corrections.read_bytes()) == before


def test_an_erasure_that_was_broken_off_goes_on_with_its_purges(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    with folder.open() as project:
        with monkeypatch.context() as patching:
            patching.setattr("pipeline.purge.document.workspaces.clean", broken_off)
            with pytest.raises(KeyboardInterrupt):
                project.erase_person("Yrsa Quillon")
        assert PurgeIntents(folder.root).all()
        assert project.erase_person("Yrsa Quillon").exit_code == 0
        assert project.find_person("Yrsa Quillon").is_empty
        project.cache.close()
    assert not PurgeIntents(folder.root).all()
    assert found_in(folder.root, "Quillon") == []


@pytest.mark.parametrize(
    ("place", "keep"),
    [
        ("erase._apply_corrections", []),
        ("erase._delete_entities", ["cellar.txt"]),
        ("erase.purge_history", []),
    ],
)
def test_a_killed_erasure_goes_on_with_all_names_of_the_person(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, place: str, keep: list[str]
):
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    note = folder.root / FILE
    with folder.open() as project:
        project.add_correction({"kind": "same", "a": "Yrsa Quillon", "b": "Governor Pell"}, "fast")
        with monkeypatch.context() as patching:
            patching.setattr(f"pipeline.persons.{place}", killed)
            with pytest.raises(KeyboardInterrupt):
                project.erase_person("Yrsa Quillon", keep=keep)
        assert note.stat().st_mode & 0o077 == 0
        with pytest.raises(UsageError, match="an erasure of Yrsa Quillon was broken off"):
            project.erase_person("Yrsa Quillon", keep=["mill.txt"])
        erased = project.erase_person("Yrsa Quillon", keep=keep)
        assert set(erased.purged) == {"cellar.txt", "news.txt", "tower.txt"} - set(keep)
        assert set(erased.deleted) == ({"Yrsa Quillon", "Governor Pell"} if keep else set())
        assert [one.source for one in erased.left.documents] == keep
        assert not erased.left.entities
        project.cache.close()
    assert not note.exists()
    if not keep:
        assert found_in(folder.root, "Governor Pell") == []


def test_a_run_says_that_an_erasure_has_not_ended_and_names_nobody(folder: ProjectFolder):
    intent = ErasureIntent("Yrsa Quillon", ("Yrsa Quillon",), (), ("tower.txt",))
    intents = ErasureIntents(folder.root)
    intents.save(intent)
    said = folder.invoke("run", "fast")
    assert said.exit_code == 0
    assert "an erasure has not ended" in said.stderr
    assert "Quillon" not in said.stderr
    intents.end(intent)
    assert "erasure" not in folder.invoke("run", "fast").stderr


def test_a_line_of_questions_ends_at_a_line_feed_alone(folder: ProjectFolder):
    questions = folder.root / "data/questions.jsonl"
    kept = '{"id": "1", "question": "Who\u2028built \x85 it?"}\n'
    named = '{"id": "2", "question": "Who is\u2028Yrsa Quillon?"}\n'
    questions.write_text(kept + named, encoding="utf-8")
    with folder.open() as project:
        assert [one["id"] for one in project.find_person("Yrsa Quillon").questions] == ["2"]
        assert project.erase_person("Yrsa Quillon").questions == 1
    assert questions.read_text(encoding="utf-8") == kept


@pytest.mark.parametrize(
    ("name", "text", "is_named"),
    [
        ("王小明", "昨天王小明去了北京。", True),
        ("王明", "昨天王小明去了北京。", False),
        ("Yrsa Quillon", "thief:\nYrsa Quillon", True),
        ("Zoë Quillon", "of ZOË QUILLON's house", True),
        ("Ann Lee", "Joann Lee", False),
    ],
)
def test_names_are_found_as_whole_words_and_in_han_anywhere(name: str, text: str, is_named: bool):
    spellings = Spellings((name,))
    assert spellings.are_in(text) == is_named
    assert spellings.are_in_line(json.dumps({"said": [text]})) == is_named
