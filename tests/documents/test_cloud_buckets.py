"""Buckets of Google and Azure as inputs: what is added, edited, removed, and not read for now."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pipeline.snapshots import objects
from pipeline.snapshots.objects import Objects
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.documents.test_archives import WORKFLOW
from tests.engine.documents.test_unread import kept, night
from tests.projects import ProjectFolder, new_project
from tests.servers.azurite_server import azurite_server, is_installed
from tests.servers.cloud_buckets import Azure, CloudBucket, Google, cloud_bucket
from tests.servers.s3_server import BUCKET, between

NAMES = [f"{number}.md" for number in range(6)]
AZURITE = pytest.param(
    "azurite",
    marks=pytest.mark.skipif(
        not is_installed(), reason="no azurite-blob on the path (npm install azurite)"
    ),
)


class AzuriteBucket:
    """A container of a real Azurite, with the attributes of `CloudBucket`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.address = f"az://{BUCKET}/manuals"
        self.environment = environment
        self.failing: set[str] = set()
        self.read: list[str] = []
        self._objects = Objects(self.address, environment)
        self.port = urlsplit(environment["AZURE_STORAGE_ENDPOINT"]).port or 0

    def put(self, name: str, text: str) -> None:
        self._objects.overwrite(name, text.encode())

    def delete(self, name: str) -> None:
        self._objects.delete([name])

    def note(self, method: str, path: str) -> None:
        """Break a request off if it is for an object that fails, or for the list if that fails."""
        name = unquote(urlsplit(path).path.partition("/manuals/")[2])
        is_list = "comp=list" in path
        if method == "GET" and not is_list:
            self.read.append(name)
        if method == "GET" and ("" if is_list else name) in self.failing:
            raise ConnectionAbortedError("the bucket of this test fails")


@contextmanager
def azurite_bucket(home: Path) -> Iterator[AzuriteBucket]:
    with azurite_server(home) as environment:
        bucket = AzuriteBucket(environment)
        with between(bucket, before=bucket.note) as (endpoint, _):
            account = environment["AZURE_STORAGE_ACCOUNT_NAME"]
            bucket.environment = {**environment, "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{account}"}
            yield bucket


@pytest.fixture(params=["gs", "az", AZURITE])
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CloudBucket | AzuriteBucket]:
    if request.param == "azurite":
        serving = azurite_bucket(tmp_path / "azurite")
    else:
        serving = cloud_bucket(Google(tmp_path) if request.param == "gs" else Azure())
    with serving as bucket:
        for name in NAMES:
            bucket.put(name, f"Old {name}")
        yield bucket


@pytest.fixture
def folder(
    tmp_path: Path, cloud: CloudBucket | AzuriteBucket, monkeypatch: pytest.MonkeyPatch
) -> ProjectFolder:
    """A project that has read all objects once."""
    # A request that fails is not retried for long, so that the tests are short.
    monkeypatch.setitem(objects.RETRIES, "retry_timeout", timedelta(seconds=1))
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    kind = urlsplit(cloud.address).scheme
    folder.edit_settings(inputs=[{"name": "docs", "type": kind, "url": cloud.address}])
    write_keys(folder, cloud.environment)
    documents, rejects, _ = night(folder)
    assert documents == {"a.txt": "A letter.", **{f"@docs/{name}": f"Old {name}" for name in NAMES}}
    assert rejects.empty
    cloud.read.clear()
    return folder


def write_keys(folder: ProjectFolder, environment: dict[str, str]) -> None:
    lines = [f"{name}={value}\n" for name, value in environment.items()]
    (folder.root / ".env").write_text("".join(lines))


def test_a_run_reads_the_objects_that_were_added_or_edited_and_deletes_those_that_were_removed(
    folder: ProjectFolder, cloud: CloudBucket | AzuriteBucket
):
    cloud.put("below/new é.md", "New")
    cloud.put(NAMES[0], "Edited")
    cloud.delete(NAMES[1])
    documents, rejects, code = night(folder)
    assert rejects.empty
    assert code == 0
    assert documents == {
        "a.txt": "A letter.", "@docs/below/new é.md": "New", f"@docs/{NAMES[0]}": "Edited",
        **{f"@docs/{name}": f"Old {name}" for name in NAMES[2:]},
    }  # fmt: skip
    assert sorted(cloud.read) == [NAMES[0], "below/new é.md"]


def test_a_bucket_that_fails_halfway_keeps_what_it_gave_before_and_gives_the_rest_later(
    folder: ProjectFolder, cloud: CloudBucket | AzuriteBucket
):
    for name in NAMES:
        cloud.put(name, f"New {name}")
    cloud.failing |= set(NAMES[3:])
    documents, rejects, code = night(folder)
    now = {f"@docs/{name}": f"New {name}" for name in NAMES}
    assert documents == {
        "a.txt": "A letter.",
        **{f"@docs/{name}": now[f"@docs/{name}"] for name in NAMES[:3]},
        **{f"@docs/{name}": f"Old {name}" for name in NAMES[3:]},
    }
    assert sorted(kept(rejects)) == [f"@docs/{name}" for name in NAMES[3:]]
    cloud.failing.clear()
    documents, rejects, code = night(folder)
    assert (documents, code) == ({"a.txt": "A letter.", **now}, 0)
    assert rejects.empty


def test_a_list_that_breaks_off_deletes_nothing(
    folder: ProjectFolder, cloud: CloudBucket | AzuriteBucket
):
    before = night(folder)[0]
    cloud.delete(NAMES[0])
    cloud.failing.add("")
    documents, rejects, _ = night(folder)
    assert documents == before
    assert sorted(kept(rejects)) == [f"@docs/{name}" for name in NAMES]
    cloud.failing.clear()
    documents, rejects, _ = night(folder)
    assert set(before) - set(documents) == {f"@docs/{NAMES[0]}"}
    assert rejects.empty


def test_an_object_that_marks_a_folder_is_no_file_and_keeps_no_document_below_it(
    folder: ProjectFolder, cloud: CloudBucket | AzuriteBucket
):
    cloud.put("below", "")
    cloud.put("below/x.md", "Marked.")
    cloud.put("below/y.md", "Marked too.")
    documents, rejects, _ = night(folder)
    assert documents["@docs/below/x.md"] == "Marked."
    assert rejects.empty
    cloud.delete("below/x.md")
    cloud.delete("below/y.md")
    documents, rejects, _ = night(folder)
    assert sorted(documents) == sorted(["a.txt", *(f"@docs/{name}" for name in NAMES)])
    assert kept(rejects) == []


@pytest.mark.parametrize("name", ["below//x.md", "below/../x.md", "x\ny.md"])
def test_an_object_whose_name_no_list_may_have_is_named(tmp_path: Path, name: str):
    with cloud_bucket(Azure()) as bucket:
        bucket.put(name, "A text.")
        source = {"name": "docs", "type": "az", "url": bucket.address}
        params = {"path": str(tmp_path), "inputs": [source], "environment": bucket.environment}
        _, rejects = load_documents(LoadParams.model_validate(params))
    assert list(rejects["row_id"]) == ["@docs"]
    assert f"named {f'manuals/{name}'!r}" in rejects["message"].iloc[0]


def test_a_key_that_is_refused_deletes_nothing_and_is_in_no_message(
    folder: ProjectFolder, cloud: CloudBucket | AzuriteBucket, tmp_path: Path
):
    before = night(folder)[0]
    keys = dict(cloud.environment)
    if "AZURE_STORAGE_ACCOUNT_KEY" in keys:
        secret = "Wnl4b21hbmRyZWw="
        keys["AZURE_STORAGE_ACCOUNT_KEY"] = secret
    else:
        (tmp_path / "other").mkdir()
        keys = Google(tmp_path / "other").environment(keys["GOOGLE_BASE_URL"])
        secret = (tmp_path / "other/service-account.json").read_text()[100:200]
    write_keys(folder, keys)
    documents, rejects, _ = night(folder)
    assert documents == before
    refused = rejects.loc[rejects["row_id"] == "@docs", "message"].item()
    assert "it refused the key" in refused
    assert secret not in refused
