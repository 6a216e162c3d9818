"""Corrections in a project: each run follows them, whatever becomes of documents."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.errors import SettingsError, UsageError
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, write_yaml

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. Mira Vale lived at Quill.",
    "b.txt": "Anselm Torr met M. Vale at the Harrow Light. Anselm Torr drew it.",
    "c.txt": "The Brack Institute taught Anselm Torr.",
}
MERGE = {"kind": "rename", "entity": "M. Vale", "to": "Mira Vale"}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, DOCUMENTS)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project after a run without corrections, that no test changes."""
    folder = new_project(tmp_path_factory.mktemp("first") / "p", NO_STORE, DOCUMENTS)
    with folder.open() as project:
        assert project.index("fast").exit_code == 0
    return folder


@pytest.fixture
def indexed(first_run: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    return first_run.copy(tmp_path / "p")


def names(project: Project) -> set[str]:
    return set(project.table("entities", "fast")["name"])


def test_a_project_without_the_file_has_no_further_steps(folder: ProjectFolder):
    with folder.open() as project:
        verbs = [step.verb.name for step in project.workflow("fast").steps]
    assert "correct_extractions" not in verbs


def test_a_type_that_differs_only_in_case_is_noted_with_the_one_that_is_there(
    indexed: ProjectFolder,
):
    with indexed.open() as project:
        type = project.table("entities", "fast")["type"].iloc[0]
        fields = {"kind": "set_type", "entity": "Mira Vale", "to": type.swapcase()}
        for dry_run in (True, False):
            (note,) = project.add_correction(fields, "fast", dry_run=dry_run).notes
            assert f"'{type.swapcase()}' is a new type" in note
            assert f"write --to '{type}'" in note
        for right in (type, "HERON"):
            other = {**fields, "entity": "Anselm Torr", "to": right}
            assert project.add_correction(other, "fast", dry_run=True).notes == ()


def test_a_type_is_written_as_the_ontology_spells_it(indexed: ProjectFolder):
    ontology = {"entity_types": [{"name": "LOCATION", "synonyms": ["town"]}, {"name": "PERSON"}]}
    write_yaml(indexed.root / "ontology.yaml", ontology)
    fields = {"kind": "set_type", "entity": "Mira Vale", "to": "location"}
    with indexed.open() as project:
        for given in ("location", "Locations", "TOWN"):
            added = project.add_correction({**fields, "to": given}, "fast", dry_run=True)
            assert added.effect.decision.model_dump()["to"] == "LOCATION"
            assert f"type '{given}' is written 'LOCATION', its name in ontology.yaml" in added.notes
        added = project.add_correction({**fields, "to": "HERON"}, "fast", dry_run=True)
        assert added.effect.decision.model_dump()["to"] == "HERON"


def test_a_correction_holds_until_it_is_undone(indexed: ProjectFolder):
    with indexed.open() as project:
        first = names(project)
        assert "M. Vale" in first
        tried = project.add_correction(MERGE, "fast", dry_run=True)
        assert (tried.effect.records or 0) > 0
        assert not tried.file.exists()
        added = project.add_correction(MERGE, "fast")
        assert added.effect.records == tried.effect.records
        project.index("fast")
        assert "M. Vale" not in names(project)

        indexed.write("b.txt", "Nobody was there.")
        report = project.index("fast")
        assert any(f"{added.effect.decision.id} matches nothing" in note for note in report.notes)
        (effect,) = project.corrections("fast")
        assert effect.records == 0
        indexed.write("b.txt", DOCUMENTS["b.txt"])
        project.index("fast")
        assert "M. Vale" not in names(project)

        project.undo_correction(added.effect.decision.id[:4], "fast")
        project.index("fast")
        assert names(project) == first


@pytest.fixture(scope="module")
def turned_by_the_ontology(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project after a run in which the ontology turned a relationship; no test changes it."""
    folder = new_project(tmp_path_factory.mktemp("turned") / "p", NO_STORE, DOCUMENTS)
    patterns = [["PERSON", "RAISED", "TOWER"], ["PERSON", "DREW", "TOWER"]]
    ontology = {
        "entity_types": ["PERSON", "TOWER"],
        "relationship_types": ["RAISED", "DREW"],
        "patterns": patterns,
    }
    write_yaml(folder.root / "ontology.yaml", ontology)
    facts = folder.root / "facts.csv"
    facts.write_text(
        "source,type,target,source_type,target_type\nOld Mill,RAISED,Rhoda Kell,TOWER,PERSON\n",
        encoding="utf-8",
    )
    with folder.open() as project:
        project.import_triples(facts)
        project.index("fast")
    return folder


@pytest.mark.parametrize("kind", ["delete_statement", "retype_statement", "turn_statement"])
def test_a_statement_that_the_ontology_has_turned_is_named_as_the_graph_shows_it(
    turned_by_the_ontology: ProjectFolder, tmp_path: Path, kind: str
):
    folder = turned_by_the_ontology.copy(tmp_path / "p")
    line = {"kind": kind, "source": "Rhoda Kell", "target": "Old Mill"}
    line |= {"to": "DREW"} if kind == "retype_statement" else {}
    with folder.open() as project:
        stated = project.table("statements", "fast")
        shown = (
            project.table("relationships", "fast").set_index("id").loc[stated["relationship_id"]]
        )
        assert shown[["source", "target"]].to_numpy().tolist() == [["Rhoda Kell", "Old Mill"]]
        added = project.add_correction(line, "fast")
        assert added.effect.records == 1
        assert any("the ontology has turned the relationship" in note for note in added.notes)
        with pytest.raises(UsageError, match="is there already"):
            project.add_correction(line, "fast")
        project.index("fast")
        types = project.table("statements", "fast")["type"]
        # The ontology turns a turned statement of this pattern back: the graph is as it was.
        expected = {
            "delete_statement": [],
            "retype_statement": ["DREW"],
            "turn_statement": ["RAISED"],
        }
        assert list(types) == expected[kind]


def test_thousands_of_lines_without_effect_have_few_notes(folder: ProjectFolder):
    lines = [
        {"kind": "set_type", "entity": f"Nobody {number}", "to": "HERON"} for number in range(2000)
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder.root / "corrections.jsonl").write_text(text, encoding="utf-8")
    with folder.open() as project:
        report = project.index("fast")
    told = [note for note in report.notes if note.startswith("corrections.jsonl")]
    assert len(told) == 21
    assert "1980 more match nothing" in told[-1]


def test_extractions_keep_what_was_said_and_a_deleted_entity_is_a_reject(indexed: ProjectFolder):
    with indexed.open() as project:
        said = project.table("extractions", "fast")
        project.add_correction({"kind": "delete_entity", "entity": "anselm torr"}, "fast")
        report = project.index("fast")
        assert report.exit_code == 0
        assert project.table("extractions", "fast").equals(said)
        assert "Anselm Torr" not in names(project)
        assert set(project.table("rejects", "fast")["reason"]) == {"corrected"}


def test_lines_that_contradict_each_other_end_a_plan(folder: ProjectFolder):
    lines = [MERGE, {**MERGE, "to": "Somebody"}]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder.root / "corrections.jsonl").write_text(text, encoding="utf-8")
    with folder.open() as project, pytest.raises(SettingsError, match="contradict each other"):
        project.plan("fast")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_new_line_that_contradicts_another_names_the_one_to_take_back(
    folder: ProjectFolder, dry_run: bool
):
    with folder.open() as project:
        first = project.add_correction(MERGE, "fast").effect.decision
        with pytest.raises(SettingsError) as refused:
            project.add_correction({**MERGE, "to": "Anselm Torr"}, "fast", dry_run=dry_run)
        assert "line 1 (" in str(refused.value)
        assert "and the new line (" in str(refused.value)
        assert f"graphmill corrections undo {first.id}" in str(refused.value)
        assert len(project.corrections("fast")) == 1


def test_a_decision_twice_and_an_unknown_id_are_refused(folder: ProjectFolder):
    with folder.open() as project:
        project.add_correction(MERGE, "fast")
        with pytest.raises(UsageError, match="there already"):
            project.add_correction(MERGE, "fast")
        with pytest.raises(UsageError, match="no correction has the id ''"):
            project.undo_correction("", "fast")
        with pytest.raises(UsageError, match="no correction has the id"):
            project.undo_correction("zzz", "fast")


def test_a_rename_of_a_name_that_a_rename_gave_leads_the_first_one_on(indexed: ProjectFolder):
    with indexed.open() as project:
        project.add_correction({**MERGE, "to": "Mira V."}, "fast")
        project.add_correction({**MERGE, "entity": "Mira V.", "to": "Mira Vee"}, "fast")
        project.index("fast")
        assert "Mira Vee" in names(project)
        assert not {"Mira V.", "M. Vale"} & names(project)


def renamings(project: Project) -> dict[str, str]:
    """Where each line leads."""
    decisions = [effect.decision.model_dump() for effect in project.corrections("fast")]
    return {each["entity"]: each["to"] for each in decisions}


def rename(project: Project, one: str, two: str) -> str:
    fields = {"kind": "rename", "entity": one, "to": two}
    return project.add_correction(fields, "fast").effect.decision.id


def test_an_undone_renaming_leads_the_lines_back_that_it_led_on(folder: ProjectFolder):
    with folder.open() as project:
        rename(project, "M. Vale", "Mira V.")
        first = renamings(project)
        rename(project, "Mira V.", "Mira Vee")
        second = renamings(project)
        rename(project, "Mira Vee", "Vale")
        assert set(renamings(project).values()) == {"Vale"}
        last = project.corrections("fast")[-1].decision.id
        project.undo_correction(last, "fast")
        assert renamings(project) == second
        project.undo_correction(project.corrections("fast")[-1].decision.id, "fast")
        assert renamings(project) == first


def test_a_renaming_in_the_middle_of_a_chain_can_be_undone(folder: ProjectFolder):
    with folder.open() as project:
        rename(project, "M. Vale", "Mira V.")
        middle = rename(project, "Mira V.", "Mira Vee")
        rename(project, "Mira Vee", "Vale")
        middle = next(
            one.decision.id
            for one in project.corrections("fast")
            if one.decision.model_dump()["entity"] == "Mira V."
        )
        project.undo_correction(middle, "fast")
        assert renamings(project) == {"M. Vale": "Mira V.", "Mira Vee": "Vale"}


def test_a_renaming_back_leaves_a_file_that_can_be_read_and_can_be_undone(folder: ProjectFolder):
    with folder.open() as project:
        rename(project, "M. Vale", "Mira V.")
        back = rename(project, "Mira V.", "M. Vale")
        assert renamings(project) == {"Mira V.": "M. Vale"}
        project.undo_correction(back, "fast")
        assert renamings(project) == {"M. Vale": "Mira V."}


def test_a_chain_that_came_back_to_its_beginning_is_undone_step_by_step(folder: ProjectFolder):
    with folder.open() as project:
        states = []
        for one, two in (("M. Vale", "Mira V."), ("Mira V.", "Mira Vee"), ("Mira Vee", "M. Vale")):
            states.append(renamings(project))
            rename(project, one, two)
        for before in reversed(states):
            # Each renaming stands behind those that it led on, so the last line is undone first.
            newest = {"Mira Vee", "Mira V.", "M. Vale"} & set(renamings(project)) - set(before)
            (id,) = [
                one.decision.id
                for one in project.corrections("fast")
                if one.decision.model_dump()["entity"] in newest
            ]
            project.undo_correction(id, "fast")
            assert renamings(project) == before


def test_a_decision_is_pending_until_a_run_and_so_is_its_undo(indexed: ProjectFolder):
    with indexed.open() as project:
        id = project.add_correction(MERGE, "fast").effect.decision.id
        assert [one.pending for one in project.corrections("fast")] == [True]
        project.index("fast")
        assert [one.pending for one in project.corrections("fast")] == [False]
        assert project.undone_corrections("fast") == []
        project.undo_correction(id, "fast")
        (undone,) = project.undone_corrections("fast")
        assert undone == {"id": id, "kind": "rename", "source": "M. Vale", "to": "Mira Vale"}
        project.index("fast")
        assert project.undone_corrections("fast") == []


def test_a_name_that_is_kept_changes_no_table(folder: ProjectFolder):
    with folder.open() as project:
        project.add_correction(MERGE, "fast")
        project.index("fast")
        manifest = project.snapshots.manifest("fast")
        project.add_correction({"kind": "keep", "entity": "Quill"}, "fast")
        report = project.index("fast")
        assert project.snapshots.manifest("fast") == manifest
        assert {step.action for step in report.steps} == {"reused"}


KILLED = """
import sys
from pipeline.project import Project

with Project.open(sys.argv[1]) as project:
    print("begins", flush=True)
    for number in range(10_000):
        fields = {"kind": "set_type", "entity": f"Name {number}", "to": "T" * 900}
        project.add_correction(fields, "fast")
"""


@pytest.mark.parametrize("wait", [0, 0.004])
def test_a_kill_in_the_middle_of_an_addition_leaves_a_whole_file(
    folder: ProjectFolder, wait: float
):
    path = folder.root / "corrections.jsonl"
    command = [sys.executable, "-c", KILLED, str(folder.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begins\n"
        while not path.exists() or path.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            time.sleep(0.001)
        # Each addition writes the file anew, so that most instants are within one.
        time.sleep(wait)
        process.kill()
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    written = [json.loads(line) for line in text.splitlines()]
    assert [one["entity"] for one in written] == [f"Name {n}" for n in range(len(written))]
    with folder.open() as project:
        # The lock of the killed process holds up nobody.
        project.add_correction(MERGE, "fast")
        assert len(project.corrections("fast")) == len(written) + 1


def test_a_purge_takes_along_the_lines_that_name_or_quote_the_document(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "loaded", postgres_url, DOCUMENTS)
    with folder.open() as project:
        project.index("fast")
        project.add_correction({**MERGE, "document": "b.txt"}, "fast")
        project.add_correction({**MERGE, "entity": "Quill", "to": "Q", "quote": "lived at"}, "fast")
        kept = project.add_correction({**MERGE, "entity": "Brack Institute", "to": "BI"}, "fast")
        project.index("fast")
        report = project.purge("b.txt")
        assert any("1 correction named or quoted" in note for note in report.notes)
        assert project.purge("a.txt").notes
        assert [one.decision for one in project.corrections("fast")] == [kept.effect.decision]
        assert "BI" in names(project)


def test_the_commands_add_list_and_undo(indexed: ProjectFolder):
    added = indexed.invoke(
        "corrections", "add", "merge", "--entity", "M. Vale", "--entity", "Mira Vale",
        "--to", "Mira Vale", "--workflow", "fast", "--json",
    ).json  # fmt: skip
    (row,) = added["corrections"]
    assert (row["kind"], row["entity"], row["to"]) == ("rename", "M. Vale", "Mira Vale")
    assert row["id"] in indexed.invoke("corrections", "list", "fast").stdout
    unknown = indexed.invoke("corrections", "add", "renam", "--entity", "A", "--to", "B")
    assert unknown.exit_code == 2
    assert "did you mean 'rename'" in unknown.stderr
    assert indexed.invoke("corrections", "undo", row["id"]).exit_code == 0
    assert indexed.invoke("corrections", "list", "--json").json == []


def test_a_merge_of_a_name_with_itself_alone_is_refused(indexed: ProjectFolder):
    merge = indexed.invoke(
        "corrections", "add", "merge", "--entity", "Mira Vale", "--to", "Mira Vale"
    )
    assert merge.exit_code == 2
    assert "merge needs an entity that becomes 'Mira Vale'" in merge.stderr


def test_a_merge_whose_second_line_is_refused_tells_that_the_first_is_written(
    indexed: ProjectFolder,
):
    add = ("corrections", "add", "merge", "--workflow", "fast", "--to", "Mira Vale")
    assert indexed.invoke(*add, "--entity", "M. Vale").exit_code == 0
    merge = indexed.invoke(*add, "--entity", "Miss Vale", "--entity", "M. Vale")
    assert merge.exit_code == 2
    assert "entity='Miss Vale'" in merge.stdout
    assert "the next run follows it" in merge.stdout
    assert "is there already" in merge.stderr
    as_json = indexed.invoke(*add, "--entity", "Lady Vale", "--entity", "M. Vale", "--json")
    assert "is there already" in str(json.loads(as_json.stdout))
    assert "written before the refusal" in as_json.stderr
