"""A command of its own deletes the history; replies that the present tables need stay."""

from pathlib import Path

from tests.projects import new_project
from tests.purge.test_purge import CANARY, KEPT, SECRET, found_in
from tests.servers.openai_server import OpenAIServer
from tests.states import table_hashes


def test_the_history_of_earlier_runs_is_deleted(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET}, openai)
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        folder.delete("secret.txt")
        project.run("index")
        before = table_hashes(project)
        assert found_in(folder.root, CANARY) != []
        said = project.purge_history()
        assert (said.dry_run, said.reports) == (True, 1)
        assert "1 earlier run, " in said.lines()[0]
        assert found_in(folder.root, CANARY) != []
        report = project.purge_history(dry_run=False)
        assert (len(report.snapshots.manifests["index"]), report.reports) == (1, 1)
        assert report.replies >= 1
        project.cache.close()
        assert found_in(folder.root, CANARY) == []
        calls = openai.count("chat")
        assert project.run("index").totals["calls"] == 0
        assert (table_hashes(project), openai.count("chat")) == (before, calls)
        assert project.verify("index").agrees
        again = project.purge_history(dry_run=False)
        assert (again.replies, again.snapshots.total.files) == (0, 0)


def test_the_command_asks_and_counts(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET})
    with folder.open() as project:
        project.run("fast")
        folder.delete("secret.txt")
        project.run("fast")
    done = folder.invoke("purge", "--history", "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "cannot be loaded any more" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("deleted: ")
    for arguments in ((), ("--history", "--document", "a.txt")):
        assert folder.command("purge", *arguments).returncode == 2
