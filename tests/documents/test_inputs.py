"""Inputs beside the input folder: folders, git repositories and databases, each with its guards."""

import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.documents import database_rows
from pipeline.documents import inputs as inputs_of_listing
from pipeline.documents.git import BlobReader, GitError
from pipeline.engine.run_options import RunOptions, Selection
from pipeline.errors import DataError, DeletionError, SettingsError
from pipeline.settings.schema import Settings
from pipeline.snapshots import objects
from pipeline.verbs.load_documents import LoadParams, find_files, load_documents, read_files
from tests.buckets import Bucket
from tests.documents.test_archives import WORKFLOW, pack
from tests.engine.documents.test_unread import kept, night
from tests.projects import ProjectFolder, new_project
from tests.servers.s3_server import between

SECRET = "Zyxomandrel"


def read(folder: Path, *inputs: Mapping[str, Any], **params: Any) -> tuple[dict[str, str], Any]:
    documents, rejects = load_documents(params_of(folder, *inputs, **params))
    reasons = dict(zip(rejects["row_id"], rejects["reason"], strict=True))
    return dict(zip(documents["source"], documents["text"], strict=True)), reasons


def params_of(folder: Path, *inputs: Mapping[str, Any], **params: Any) -> LoadParams:
    main = folder / "main"
    main.mkdir(exist_ok=True)
    return LoadParams.model_validate({"path": str(main), "inputs": inputs, **params})


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def git(repository: Path, *words: str) -> str:
    identity = ["-c", "user.name=m", "-c", "user.email=m@example.org"]
    command = ["git", "-C", str(repository), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(repository: Path, tag: str = "") -> None:
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "change")
    if tag:
        git(repository, "tag", tag)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "code"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    write(place, {"README.md": "# Mill\n\nOne.", "docs/a.md": "A", "docs/b.csv": "id,text\n1,B\n"})
    commit(place, "v1")
    return place


def database(place: Path, rows: Sequence[tuple[object, ...]]) -> str:
    with sqlite3.connect(place) as connection:
        connection.execute("DROP TABLE IF EXISTS cases")
        connection.execute("CREATE TABLE cases (nr, subject, body, owner, updated)")
        connection.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{place}"


def rename_column(place: Path, old: str, new: str) -> None:
    with sqlite3.connect(place) as connection:
        connection.execute(f"ALTER TABLE cases RENAME COLUMN {old} TO {new}")
    connection.close()


CASES = [(1, "Lens", "The lens: ready.", "ann", 1), (2, "Light", "The light.", "bob", 1)]


def crm(url: str, **other: object) -> dict[str, object]:
    query = "SELECT *, '10:15' AS hour FROM cases;"
    columns = {"id": "nr", "title": "subject", "text": "body", "metadata": ["owner"]}
    return {"name": "crm", "type": "sql", "url": url, "query": query, **columns, **other}


def test_files_of_the_input_folder_have_the_ids_that_they_had(tmp_path: Path):
    write(tmp_path / "main", {"a.txt": "One."})
    write(tmp_path / "wiki", {"a.txt": "Two."})
    alone, _ = load_documents(LoadParams(path=str(tmp_path / "main")))
    wiki = {"name": "wiki", "url": str(tmp_path / "wiki")}
    both, _ = load_documents(params_of(tmp_path, wiki))
    found = both.set_index("source")["id"]
    assert found["a.txt"] == alone["id"].iloc[0]
    assert found["@wiki/a.txt"] != found["a.txt"]


def test_a_folder_has_patterns_columns_and_an_order_of_titles_of_its_own(tmp_path: Path):
    write(tmp_path / "wiki", {
        "x/a.md": "# Heading\n\nA.", "drafts/b.md": "B", "c.txt": "C",
        "list.csv": "nr,body\n1,One.\n",
    })  # fmt: skip
    pack(tmp_path / "wiki/z.zip", {"d.md": "D"})
    wiki = {
        "name": "wiki", "url": str(tmp_path / "wiki"), "exclude": ["drafts/**/*", "*.txt"],
        "columns": {"*.csv": {"id": "nr", "text": "body"}}, "title_order": ["file_name"],
    }  # fmt: skip
    documents, rejects = load_documents(params_of(tmp_path, wiki))
    assert documents.set_index("source")["title"].to_dict() == {
        "@wiki/x/a.md": "a", "@wiki/list.csv#1": "@wiki/list.csv#1", "@wiki/z.zip/d.md": "d",
    }  # fmt: skip
    assert rejects.empty
    only, _ = read(tmp_path, {"name": "wiki", "url": str(tmp_path / "wiki"), "include": "x/*"})
    assert set(only) == {"@wiki/x/a.md"}


def test_a_folder_of_the_input_folder_may_not_look_like_an_input(tmp_path: Path):
    write(tmp_path / "main", {"@wiki/a.txt": "One."})
    with pytest.raises(SettingsError, match="give the input another name"):
        read(tmp_path, {"name": "wiki", "url": str(tmp_path)})


def test_a_repository_is_read_at_a_ref_without_its_checkout(tmp_path: Path, repository: Path):
    write(repository, {"README.md": "# Mill\n\nTwo.", "docs/new.md": "New"})
    (repository / "docs/a.md").unlink()
    (repository / "link.md").symlink_to("README.md")
    write(repository, {".hidden.md": "x", "huge.txt": "a" * (2**20 + 1)})
    commit(repository)
    write(repository, {"README.md": "Not committed"})
    code = {"name": "code", "type": "git", "url": str(repository)}
    then, _ = read(tmp_path, {**code, "ref": "v1"})
    assert then == {
        "@code/README.md": "# Mill\n\nOne.", "@code/docs/a.md": "A", "@code/docs/b.csv#1": "B",
    }  # fmt: skip
    now, reasons = read(tmp_path, code, max_file_mb=1)
    assert now["@code/README.md"] == "# Mill\n\nTwo."
    assert set(now) == {"@code/README.md", "@code/docs/new.md", "@code/docs/b.csv#1"}
    assert reasons == {"@code/link.md": "outside", "@code/huge.txt": "too_large"}


def test_what_git_calls_changed_is_what_the_files_have_changed(tmp_path: Path, repository: Path):
    """Twenty versions; ``git diff`` is the oracle."""

    def contents(tag: str) -> dict[str, str]:
        code = {"name": "code", "type": "git", "url": str(repository), "ref": tag}
        files = find_files(params_of(tmp_path, code))
        return dict(zip(files["name"], files["content"], strict=True))

    before = contents("v1")
    for number in range(2, 21):
        write(repository, {f"docs/{number}.md": f"{number}", "README.md": f"# {number // 3}"})
        (repository / f"docs/{number - 2}.md").unlink(missing_ok=True)
        commit(repository, f"v{number}")
        after = contents(f"v{number}")
        changes = git(repository, "diff", "--name-only", f"v{number - 1}", f"v{number}")
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        assert changed == {f"@code/{name}" for name in changes.split()}
        before = after


@pytest.mark.parametrize("changed", ["", "updated"])
def test_each_row_of_a_query_is_a_document(tmp_path: Path, changed: str):
    url = database(tmp_path / "crm.sqlite", CASES)
    documents, rejects = load_documents(params_of(tmp_path, crm(url, changed=changed)))
    rows = documents.set_index("source").sort_index()
    assert rows["text"].to_dict() == {"@crm/1": "The lens: ready.", "@crm/2": "The light."}
    assert list(rows["title"]) == ["Lens", "Light"]
    assert list(rows["metadata"]) == ['{"owner": "ann"}', '{"owner": "bob"}']
    assert rejects.empty


@pytest.mark.parametrize(("changed", "stamp"), [("", 1), ("updated", 2)])
def test_an_edited_row_changes_its_own_document_alone(tmp_path: Path, changed: str, stamp: int):
    place = tmp_path / "crm.sqlite"
    source = crm(database(place, CASES), changed=changed)
    before = find_files(params_of(tmp_path, source)).set_index("name")["content"]
    database(place, [CASES[0], (2, "Light", "The light is out.", "bob", stamp)])
    after = find_files(params_of(tmp_path, source)).set_index("name")["content"]
    assert list(after[after != before].index) == ["@crm/2"]


def test_bad_rows_are_rejects_and_the_others_are_read(tmp_path: Path):
    rows = [*CASES, (2, "Again", "Another.", "x", 1), (None, "None", "No key.", "x", 1),
            (3, "Empty", "  ", "x", 1), ("x.pdf", "Name", "Fine: é.", "x", 1)]  # fmt: skip
    found, reasons = read(tmp_path, crm(database(tmp_path / "crm.sqlite", rows)))
    assert found["@crm/x.pdf"] == "Fine: é."
    assert found["@crm/2"] == "The light."
    assert reasons == {
        "@crm": "in_part", "@crm/2:nr": "duplicate_id", "@crm:1": "parse", "@crm/3:body": "empty",
    }  # fmt: skip


@pytest.mark.parametrize("changed", ["", "updated"])
@pytest.mark.parametrize("gone", ["nr", "subject", "body", "owner"])
def test_a_column_that_vanishes_leaves_the_input_unread(tmp_path: Path, gone: str, changed: str):
    params = params_of(tmp_path, crm(database(tmp_path / "crm.sqlite", CASES), changed=changed))
    before = params.following({}).with_listing().noted()
    rename_column(tmp_path / "crm.sqlite", gone, "other")
    after = params.following(before).with_listing()
    _, rejects = load_documents(after)
    assert after.noted() == before
    assert list(rejects["row_id"]) == ["@crm"]
    assert f"no column '{gone}' but" in rejects["message"].iloc[0]


@pytest.mark.parametrize("changed", ["", "updated"])
def test_a_column_of_metadata_that_never_was_there_is_told_and_the_rows_are_read(
    folder: ProjectFolder, changed: str
):
    source = crm("sqlite:///crm.sqlite", metadata=["owner", "region"], changed=changed)
    folder.edit_settings(inputs=[source])
    for _ in range(2):
        documents, rejects, code = night(folder)
        assert documents["@crm/1"] == "The lens: ready."
        assert list(rejects[["row_id", "kind", "reason"]].itertuples(index=False, name=None)) == [
            ("@crm:region", "recovered", "no_column")
        ]
        assert code == 0


@pytest.mark.parametrize("changed", ["", "updated"])
def test_a_column_of_metadata_that_vanishes_takes_no_value_along_until_the_settings_say_so(
    folder: ProjectFolder, changed: str
):
    source = crm("sqlite:///crm.sqlite", changed=changed)
    folder.edit_settings(inputs=[source])
    night(folder)
    rename_column(folder.root / "crm.sqlite", "owner", "keeper")
    for _ in range(2):
        _, rejects, _ = night(folder)
        assert metadata_of(folder)["@crm/1"] == '{"owner": "ann"}'
        assert sorted(kept(rejects)) == ["@crm/1", "@crm/2"]
    folder.edit_settings(inputs=[{**source, "metadata": ["keeper"]}])
    _, rejects, _ = night(folder)
    assert metadata_of(folder)["@crm/1"] == '{"keeper": "ann"}'
    assert rejects.empty
    rename_column(folder.root / "crm.sqlite", "keeper", "owner")
    assert sorted(kept(night(folder)[1])) == ["@crm/1", "@crm/2"]


def metadata_of(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        documents = project.table("documents")
    return dict(zip(documents["source"], documents["metadata"], strict=True))


def test_a_column_that_vanishes_between_list_and_reading_leaves_the_rows_unread(tmp_path: Path):
    source = crm(database(tmp_path / "crm.sqlite", CASES), changed="updated")
    params = params_of(tmp_path, source).with_listing()
    files = find_files(params)
    rename_column(tmp_path / "crm.sqlite", "owner", "keeper")
    documents, rejects = read_files(files, params)
    assert documents.empty
    assert set(rejects["reason"]) == {"io_error"}


def test_sqlite_gives_no_names_of_columns_in_place_of_cells(tmp_path: Path):
    """SQLite takes a name in quotes for a text where it knows no such column."""
    source = crm(database(tmp_path / "crm.sqlite", CASES), id="Case", changed="updated")
    assert read(tmp_path, source) == ({}, {"@crm": "io_error"})
    source = crm(database(tmp_path / "crm.sqlite", CASES), changed="Changed on")
    assert read(tmp_path, source) == ({}, {"@crm": "io_error"})


def test_another_column_is_noticed_in_rows_whose_stamp_stays(tmp_path: Path):
    source = crm(database(tmp_path / "crm.sqlite", CASES), changed="updated", metadata=[])
    params = params_of(tmp_path, source)
    before = find_files(params)["content"]
    assert list(find_files(params)["content"]) == list(before)
    with sqlite3.connect(tmp_path / "crm.sqlite") as connection:
        connection.execute("ALTER TABLE cases ADD COLUMN region DEFAULT 'north'")
    connection.close()
    assert not set(find_files(params)["content"]) & set(before)


def test_a_query_is_worked_out_once_where_most_of_its_rows_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database_rows, "_KEYS_PER_QUERY", 2)
    rows = [(number, "Case", f"Text {number}.", "x", 1) for number in range(20)]
    source = crm(database(tmp_path / "crm.sqlite", rows), changed="updated")
    params = params_of(tmp_path, source).with_listing()
    conditions: list[object] = []
    read_rows = database_rows._read_whole_rows

    def noted(connection: Any, source: Any, before: Any, condition: Any = None) -> Any:
        conditions.append(condition)
        return read_rows(connection, source, before, condition)

    monkeypatch.setattr(database_rows, "_read_whole_rows", noted)
    files = find_files(params)
    documents, _ = read_files(files, params)
    assert len(documents) == 20
    assert conditions == [None]
    conditions.clear()
    documents, _ = read_files(files.iloc[:4], params)
    assert len(documents) == 4
    assert len(conditions) == 2
    assert all(condition is not None for condition in conditions)


def test_rows_without_a_stamp_are_read_by_one_query_where_they_are_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database_rows, "_KEYS_PER_QUERY", 2)
    rows = [(number, "Case", f"Text {number}.", "x", None) for number in range(20)]
    source = crm(database(tmp_path / "crm.sqlite", rows), changed="updated")
    statements: list[str] = []
    make_statement = database_rows._statement

    def noted(source: Any, columns: Sequence[str]) -> Any:
        statements.append(",".join(columns))
        return make_statement(source, columns)

    monkeypatch.setattr(database_rows, "_statement", noted)
    (input,) = params_of(tmp_path, source).inputs
    assert len(database_rows.list_rows(input).rows) == 20
    # The first finds the columns, the second the stamps, the third the rows.
    assert statements == ["*", "nr,updated", "*"]


def test_rows_with_one_key_and_no_stamp_are_listed_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database_rows, "_KEYS_PER_QUERY", 1)
    others = [(number, "Case", f"Text {number}.", "x", 1) for number in range(20)]
    rows = [*others, (77, "A", "A", "x", None), (77, "B", "B", "x", None)]
    source = crm(database(tmp_path / "crm.sqlite", rows), changed="updated")
    assert list(find_files(params_of(tmp_path, source))["name"]).count("@crm/77") == 2


def test_a_short_value_of_an_option_is_hidden_as_a_word_alone(tmp_path: Path):
    url = database(tmp_path / "crm.sqlite", CASES)
    source = crm(f"{url}?timeout=5", query="SELECT * FROM cases5")
    _, reasons = load_documents(params_of(tmp_path, source))
    (message,) = reasons["message"]
    assert "no such table: cases5" in message


@pytest.mark.parametrize("changed", ["", "updated"])
@pytest.mark.parametrize("stamps", [(1, 2), (2, 1), (1, 1), (None, 1), (None, None)])
def test_rows_with_one_key_give_the_same_document_in_any_order(
    tmp_path: Path, changed: str, stamps: tuple[object, object]
):
    first, second = [
        (7, "Case", text, "x", stamp) for text, stamp in zip("AB", stamps, strict=True)
    ]
    found = []
    for rows in ([first, second], [second, first]):
        source = crm(database(tmp_path / "crm.sqlite", rows), changed=changed)
        params = params_of(tmp_path, source)
        contents = sorted(find_files(params)["content"])
        documents, rejects = load_documents(params)
        assert list(documents["source"]) == ["@crm/7"]
        assert "another row with nr 7 is read" in rejects["message"].iloc[0]
        found.append((contents, documents["text"].iloc[0]))
    assert found[0] == found[1]


def test_another_query_or_an_edited_row_without_a_stamp_is_noticed(tmp_path: Path):
    rows = [CASES[0], (2, "Light", "The light.", "bob", None), (None, "x", "x", "x", None)]
    source = crm(database(tmp_path / "crm.sqlite", rows), changed="updated")
    before = find_files(params_of(tmp_path, source)).set_index("name")["content"]
    assert set(before.index) == {"@crm", "@crm/1", "@crm/2", "@crm:1"}
    rows[1] = (2, "Light", "The light is out.", "bob", None)
    database(tmp_path / "crm.sqlite", rows)
    after = find_files(params_of(tmp_path, source)).set_index("name")["content"]
    assert list(after[after != before].index) == ["@crm/2"]
    assert read(tmp_path, source)[0]["@crm/2"] == "The light is out."
    query = "SELECT nr, upper(body) AS body, subject, owner, updated FROM cases -- in capitals"
    other = find_files(params_of(tmp_path, {**source, "query": query})).set_index("name")
    assert set(other.index[other["content"] != after]) == {"@crm/1", "@crm/2"}


def test_a_database_that_is_written_to_changes_no_version(tmp_path: Path, repository: Path):
    write(tmp_path / "main", {"a.txt": "One."})
    code = {"name": "code", "type": "git", "url": str(repository)}
    source = crm(database(tmp_path / "crm.sqlite", CASES))
    before = params_of(tmp_path, code, source).watched.version
    database(tmp_path / "crm.sqlite", CASES[:1])
    write(repository, {"docs/a.md": "Another A"})
    commit(repository)
    assert params_of(tmp_path, code, source).watched.version == before
    write(tmp_path / "main", {"a.txt": "Another one."})
    assert params_of(tmp_path, code, source).watched.version != before


def test_a_run_lists_each_database_and_repository_once(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    listed: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        do = getattr(inputs_of_listing, name)

        def call(*arguments: Any) -> Any:
            listed.append(name)
            return do(*arguments)

        return call

    for name in ("list_rows", "list_blobs"):
        monkeypatch.setattr(inputs_of_listing, name, noted(name))
    for text in ("The first.", "The second.", "The second."):
        database(folder.root / "crm.sqlite", [(1, "Lens", text, "ann", 1)])
        assert night(folder)[0]["@crm/1"] == text
        assert sorted(listed) == ["list_blobs", "list_rows"]
        listed.clear()


def test_an_input_that_is_away_leaves_the_contents_of_the_others_known(tmp_path: Path):
    write(tmp_path / "main", {"a.txt": "One."})
    source = crm(f"sqlite:///{tmp_path}/none.sqlite")
    listing = params_of(tmp_path, source).listing
    assert listing.contents[0] == "io_error"
    assert listing.digest
    assert not (tmp_path / "none.sqlite").exists()


def test_a_folder_within_a_repository_is_none_and_git_is_led_to_no_other(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
):
    write(repository, {"a:b/c/x.md": "X"})
    for inner in ("docs", "a:b/c"):
        code = {"name": "code", "type": "git", "url": str(repository / inner)}
        assert read(tmp_path, code) == ({}, {"@code": "unreadable"})
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    for place in (repository, bare):
        found, reasons = read(tmp_path, {"name": "code", "type": "git", "url": str(place)})
        assert (len(found), reasons) == (3, {})


def test_a_file_of_git_has_the_content_that_its_hash_names(tmp_path: Path, repository: Path):
    write(tmp_path, {"other": "Another README"})
    other = git(repository, "hash-object", "-w", str(tmp_path / "other")).strip()
    git(repository, "replace", "HEAD:README.md", other)
    found, _ = read(tmp_path, {"name": "code", "type": "git", "url": str(repository)})
    assert found["@code/README.md"] == "# Mill\n\nOne."


def test_a_file_of_git_that_breaks_off_is_no_content():
    reader = BlobReader(BytesIO(), BytesIO(b"1234 blob 10\nhalf"))
    with pytest.raises(GitError, match="git ended"):
        reader.read("1234")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://m:{SECRET}@127.0.0.1:9/none?application_name={SECRET}",
        f"postgresql+psycopg://m:no@{SECRET}@127.0.0.1:9/none",
        f"postgresql+psycopg://m:no@{SECRET}?x@127.0.0.1:9/none",
        f"postgresql+psycopg://m@:9/none?host=/a{SECRET}&host=/b{SECRET}&application_name=/a",
        f"nonsense {SECRET}",
        f"oracle+nodriver://m:{SECRET}@x/y",
    ],
)
def test_no_message_table_or_digest_has_the_secret_of_a_url(tmp_path: Path, url: str):
    params = params_of(tmp_path, crm(url))
    documents, rejects = load_documents(params)
    assert documents.empty
    assert list(rejects["row_id"]) == ["@crm"]
    shown = f"{params!r}{params}{params.model_dump_json()}{rejects.to_json()}"
    assert SECRET not in shown


def test_the_name_of_a_user_may_have_an_at_sign(tmp_path: Path):
    params = params_of(tmp_path, crm("postgresql+psycopg://m@server:word@127.0.0.1:9/none"))
    _, rejects = load_documents(params)
    [message] = rejects["message"]
    assert "@ too many" not in message
    assert "127.0.0.1" in message


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "A b"}, {"name": ""}, {"type": "ftp"}, {"url": ""}, {"query": "SELECT 1"},
        {"type": "sql"}, {"ref": "--upload-pack=x"}, {"nonsense": 1},
        {"type": "s3", "url": f"s3://m:{SECRET}@bucket/x"}, {"type": "gs", "url": "s3://bucket/x"},
        {"type": "git", "url": f"https://m:{SECRET}@example.org/code"},
        {"changed": "updated"}, {"type": "git", "metadata": ["owner"]},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_without_the_secret(wrong: dict[str, str]):
    entry = {"name": "wiki", "url": SECRET, **wrong}
    with pytest.raises(ValidationError) as error:
        Settings.model_validate({"inputs": [entry]})
    told = [each["msg"] for each in error.value.errors()]
    assert SECRET not in str(told)
    with pytest.raises(ValidationError, match="is there twice"):
        Settings.model_validate({"inputs": [{"name": "wiki", "url": "a"}] * 2})


def fill(bucket: Bucket, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        bucket.objects.overwrite(name, text.encode())


def test_the_objects_of_a_bucket_are_files(tmp_path: Path, bucket: Bucket):
    fill(bucket, {"a.md": "A", "x/b.csv": "id,text\n1,B\n", "x/no.png": "-", ".hidden.md": "-"})
    docs = {"name": "docs", "type": "s3", "url": bucket.address}
    found, reasons = read(tmp_path, docs, environment=bucket.environment)
    assert found == {"@docs/a.md": "A", "@docs/x/b.csv#1": "B"}
    assert reasons == {"@docs/x/no.png": "unsupported"}
    params = params_of(tmp_path, docs, environment=bucket.environment)
    before = find_files(params).set_index("name")["content"]
    fill(bucket, {"a.md": "Another A"})
    after = find_files(params).set_index("name")["content"]
    assert list(after[after != before].index) == ["@docs/a.md"]
    shown = f"{params!r}{params.model_dump_json()}"
    assert bucket.environment["AWS_SECRET_ACCESS_KEY"] not in shown


def test_a_bucket_without_its_key_or_that_is_not_there_is_a_reject(tmp_path: Path, bucket: Bucket):
    fill(bucket, {"a.md": "A"})
    docs = {"name": "docs", "type": "s3", "url": bucket.address}
    wrong = {**bucket.environment, "AWS_SECRET_ACCESS_KEY": SECRET}
    for url, environment in ((bucket.address, wrong), ("s3://nothing/x", bucket.environment)):
        params = params_of(tmp_path, {**docs, "url": url}, environment=environment)
        _, rejects = load_documents(params)
        assert list(rejects["row_id"]) == ["@docs"]
        assert SECRET not in rejects["message"].iloc[0]
        assert "snapshots" not in rejects["message"].iloc[0]


def test_an_object_that_is_gone_meanwhile_is_tried_again(tmp_path: Path, bucket: Bucket):
    fill(bucket, {"a.md": "A", "b.md": "B"})
    docs = {"name": "docs", "type": "s3", "url": bucket.address}
    params = params_of(tmp_path, docs, environment=bucket.environment).with_listing()
    bucket.objects.delete(["a.md"])
    documents, rejects = load_documents(params)
    assert list(documents["source"]) == ["@docs/b.md"]
    assert list(rejects["reason"]) == ["io_error"]
    assert rejects["message"].iloc[0].endswith("the next run lists it again")


@pytest.mark.parametrize("away", ["main", "wiki"])
def test_an_input_that_is_a_mount_point_is_unmounted_when_it_is_empty(
    tmp_path: Path, away: str, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, {"main/share/a.txt": "One.", "wiki/b.txt": "Two."})
    places = {str(tmp_path / "main"), str(tmp_path / "main/share"), str(tmp_path / "wiki")}
    mounted = set(places)
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounted)
    wiki = {"name": "wiki", "url": str(tmp_path / "wiki")}
    first = params_of(tmp_path, wiki).following({})
    place = tmp_path / away
    place.rename(tmp_path / "kept")
    missing = first.following(first.noted()) if away == "wiki" else first
    place.mkdir()
    mounted.discard(str(place))
    mounted.discard(f"{place}/share")
    again = missing.following(missing.noted())
    again = again.following(again.noted())
    _, rejects = load_documents(again)
    assert list(rejects["row_id"]) == ["." if away == "main" else "@wiki"]
    assert list(rejects["reason"]) == ["unmounted"]
    place.rmdir()
    (tmp_path / "kept").rename(place)
    mounted |= places
    assert again.following(again.noted()).mounts == first.mounts


def test_an_input_that_was_no_mount_point_and_is_emptied_has_no_files(tmp_path: Path):
    write(tmp_path, {"main/a.txt": "One.", "wiki/b.txt": "Two."})
    first = params_of(tmp_path, {"name": "wiki", "url": str(tmp_path / "wiki")}).following({})
    (tmp_path / "wiki/b.txt").unlink()
    assert [file.name for file in first.following(first.noted()).listing.files] == ["a.txt"]


@pytest.mark.parametrize("error", [errno.ENOTCONN, errno.ESTALE, errno.EACCES])
def test_a_share_that_answers_with_an_error_is_a_reject(
    tmp_path: Path, error: int, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, {"main/a.txt": "One.", "wiki/b.txt": "Two."})
    away = str(tmp_path / "wiki")

    def refused(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if str(path).startswith(away):
                raise OSError(error, os.strerror(error))
            return do(path, *arguments, **options)

        return call

    for name in ("stat", "scandir"):
        monkeypatch.setattr(os, name, refused(getattr(os, name)))
    found, reasons = read(tmp_path, {"name": "wiki", "url": away}, crm(f"sqlite:///{away}/x.db"))
    assert found == {"a.txt": "One."}
    closed = "unreadable" if error == errno.EACCES else "io_error"
    assert reasons == {"@wiki": closed, "@crm": "io_error"}


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> ProjectFolder:
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    write(folder.root / "wiki", {"a.txt": "Wiki."})
    database(folder.root / "crm.sqlite", CASES)
    inputs = [
        {"name": "wiki", "url": "wiki"},
        {"name": "code", "type": "git", "url": str(repository)},
        crm("sqlite:///crm.sqlite"),
    ]
    folder.edit_settings(inputs=inputs, max_delete_ratio=0.5)
    return folder


def test_an_input_that_cannot_be_read_keeps_its_documents(folder: ProjectFolder, repository: Path):
    before = night(folder)[0]
    assert len(before) == 7
    places = [folder.root / "wiki", repository, folder.root / "crm.sqlite"]
    away = [place.rename(place.with_name(f"{place.name}-away")) for place in places]
    documents, rejects, _ = night(folder)
    assert documents == before
    assert len(kept(rejects)) == 6
    for place, now in zip(places, away, strict=True):
        now.rename(place)
    write(repository, {"docs/a.md": "Another A"})
    commit(repository)
    documents, rejects, _ = night(folder)
    assert rejects.empty
    assert documents == {**before, "@code/docs/a.md": "Another A"}
    folder.edit_settings(inputs=[])
    with folder.open() as project, pytest.raises(DeletionError):
        project.index()
    folder.edit_settings(max_delete_ratio=1)
    assert set(night(folder)[0]) == {"a.txt"}


@pytest.mark.parametrize("changed", ["", "updated"])
def test_a_row_that_lost_its_key_deletes_no_document_until_it_has_one(
    folder: ProjectFolder, changed: str
):
    source = crm("sqlite:///crm.sqlite", changed=changed)
    folder.edit_settings(inputs=[source], max_delete_ratio=1)
    place = folder.root / "crm.sqlite"
    third = (3, "Quay", "The quay.", "eve", 1)
    unnamed = (None, "New", "A row that never had a key.", "eve", 1)
    database(place, [*CASES, third, unnamed])
    before, rejects, _ = night(folder)
    assert set(before) == {"a.txt", "@crm/1", "@crm/2", "@crm/3"}
    assert kept(rejects) == []
    lost = (None, *third[1:])
    database(place, [CASES[0], lost])
    for options in (RunOptions(), RunOptions(selection=Selection(force=("load_documents",)))):
        documents, rejects, code = night(folder, options)
        assert documents == before
        assert sorted(kept(rejects)) == ["@crm/2", "@crm/3"]
        [told] = rejects.loc[rejects["row_id"] == "@crm", "message"]
        assert told == "@crm: read but for 1 row without a value in 'nr'; fill it"
    database(place, [CASES[0], third])
    documents, rejects, code = night(folder)
    assert set(documents) == {"a.txt", "@crm/1", "@crm/3"}
    assert rejects.empty
    assert code == 0


def test_a_first_run_whose_only_input_fails_says_which_and_why(tmp_path: Path):
    folder = new_project(tmp_path / "mill", "embedded", {}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    folder.edit_settings(inputs=[crm(f"sqlite:///{tmp_path}/none/crm.db")])
    with folder.open() as project, pytest.raises(DataError) as refused:
        project.index()
    assert "no documents (1 io_error); @crm: " in str(refused.value)
    assert "correct its url; the stores are left" in str(refused.value)


def test_what_is_no_input_keeps_no_document_whose_source_begins_like_its_name(
    folder: ProjectFolder, repository: Path
):
    crm_file = folder.root / "crm.sqlite"
    folder.write("@wiki", "A file that is named like the input.")
    database(crm_file, [*CASES, ("2/b", "Sub", "A part.", "x", 1), ("2#c", "Sub", "C.", "x", 1)])
    assert {"@crm/2", "@crm/2/b", "@crm/2#c", "@wiki/a.txt", "@code/docs/a.md"} < set(
        night(folder)[0]
    )
    (folder.root / "wiki/a.txt").unlink()
    shutil.rmtree(repository / "docs")
    folder.edit_settings(max_delete_ratio=1)
    write(repository, {"docs": "Now a file of no kind."})
    commit(repository)
    database(crm_file, [CASES[0], (2, "Light", None, "bob", 1)])
    documents, rejects, _ = night(folder)
    assert set(documents) == {"a.txt", "@code/README.md", "@crm/1"}
    assert kept(rejects) == []


def test_a_folder_that_became_a_repository_of_its_own_keeps_its_documents(
    folder: ProjectFolder, repository: Path
):
    before = night(folder)[0]
    commit_of_other = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "rm", "-rq", "docs")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit_of_other},docs")
    git(repository, "commit", "-q", "-m", "docs are a repository")
    documents, rejects, _ = night(folder)
    assert documents == before
    assert sorted(kept(rejects)) == ["@code/docs/a.md", "@code/docs/b.csv#1"]


def test_an_input_that_loses_most_of_its_documents_stops_the_run(folder: ProjectFolder):
    many = {f"{number}.txt": f"Text {number}." for number in range(100)}
    write(folder.root / "data/input", many)
    rows = [(number, f"Case {number}", f"Case {number}.", "x", 1) for number in range(30)]
    crm_file = folder.root / "crm.sqlite"
    database(crm_file, rows)
    night(folder)
    database(crm_file, rows[:14])
    with folder.open() as project:
        with pytest.raises(DeletionError, match="input 'crm': 16 of its 30 documents are gone"):
            project.index()
        database(crm_file, [(nr + 100, *others) for nr, *others in rows[:14]])
        with pytest.raises(DeletionError, match="input 'crm': 16 of its 30 documents are gone"):
            project.index()
        database(crm_file, rows[:15])
        project.index()
        database(crm_file, [])
        project.index()
        assert len(project.table("documents")) == 105, "15 rows are few enough for a person"
        database(crm_file, rows)
        project.index()
        for name in list(many)[:60]:
            folder.delete(name)
        with pytest.raises(DeletionError, match="the input folder: 60 of its 101 documents"):
            project.index()
        project.index(options=RunOptions(allow_deletes=True))
        assert len(project.table("documents")) == 75


def test_a_bucket_that_fails_halfway_keeps_what_it_gave_before_and_gives_the_rest_later(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
):
    # A request that fails is not retried for long, so that the test is short.
    monkeypatch.setitem(objects.RETRIES, "retry_timeout", timedelta(seconds=1))
    names = [f"{number}.md" for number in range(6)]
    fill(bucket, {name: f"Old {name}" for name in names})
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)

    def fail_after_three(method: str, path: str) -> None:
        if is_failing and method == "GET" and path.endswith(tuple(names[3:])):
            raise ConnectionAbortedError("the bucket of this test fails halfway")

    is_failing = False
    with between(bucket.server, before=fail_after_three) as (endpoint, _):
        environment = bucket.by(endpoint).environment
        lines = [f"{name}={value}\n" for name, value in environment.items()]
        (folder.root / ".env").write_text("".join(lines))
        folder.edit_settings(inputs=[{"name": "docs", "type": "s3", "url": bucket.address}])
        assert len(night(folder)[0]) == 7
        fill(bucket, {name: f"New {name}" for name in names})
        is_failing = True
        documents, rejects, _ = night(folder)
        assert set(documents) == {"a.txt", *(f"@docs/{name}" for name in names)}
        texts = [text.split()[0] for source, text in documents.items() if source != "a.txt"]
        assert sorted(texts) == ["New"] * 3 + ["Old"] * 3
        assert len(kept(rejects)) == 3
        is_failing = False
        documents, rejects, _ = night(folder)
    assert rejects.empty
    assert all(documents[f"@docs/{name}"] == f"New {name}" for name in names)
