"""Messages of an object store say where, what and what to do, and never show a key."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from pipeline.errors import ObjectStoreAuthError, ObjectStoreError, SettingsError
from pipeline.snapshots.mirror import refuse_unconditional
from pipeline.snapshots.objects import Objects
from tests.buckets import Bucket
from tests.servers.s3_server import BUCKET, between, s3_server

SECRET = "wJalrXUtnFEMI-K7MDENG"
CLOSED = "http://127.0.0.1:9"


def test_a_write_whose_condition_fails_returns_none(bucket: Bucket):
    objects = bucket.objects
    first = objects.create("one", b"first")
    assert first
    assert objects.create("one", b"second") is None
    assert objects.replace("one", b"second", '"other"') is None
    assert objects.replace("none", b"second", first) is None
    second = objects.replace("one", b"second", first)
    assert objects.read("one") == (b"second", second)
    with pytest.raises(FileNotFoundError):
        objects.read("none")


def test_an_object_is_created_if_another_client_that_was_creating_it_fails(
    bucket: Bucket, tmp_path: Path
):
    """S3 reports a conflict while another client creates the object, even if that one fails
    later."""
    path, refused = tmp_path / "file", list[str]()
    path.write_bytes(b"content")
    objects, put = bucket.objects, Objects._put

    def in_the_way(self: Objects, name: str, content: bytes, mode: object) -> str | None:
        if len(refused) < 2:
            refused.append(name)
            return None
        return put(self, name, content, mode)

    with patch.object(Objects, "_put", in_the_way):
        objects.upload({"file": path})
    assert refused == ["file", "file"]
    assert objects.read("file")[0] == b"content"


def test_files_are_uploaded_once_and_fetched_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.snapshots.objects.LARGE", 2000)
    files = {str(size): tmp_path / str(size) for size in (0, 1, 1000, 3000, 4000)}
    for path in files.values():
        path.write_bytes(os.urandom(int(path.name)))
    bucket.objects.upload(files)
    bucket.objects.upload(files)
    assert {one.name: one.bytes for one in bucket.objects.listed()} == {
        name: int(name) for name in files
    }
    for name, path in files.items():
        bucket.objects.fetch(name, tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == path.read_bytes()
    assert bucket.objects.read_end("3000", 3000, 10) == files["3000"].read_bytes()[-10:]
    bucket.objects.delete([*files, "none"])
    assert not bucket.objects.listed()


@pytest.mark.parametrize(
    ("changed", "address", "kind", "said"),
    [
        ({}, "s3://no-such-bucket/p", ObjectStoreAuthError,
            "there is no such bucket; make it, or correct 'snapshots'"),
        ({"AWS_SECRET_ACCESS_KEY": SECRET}, "", ObjectStoreAuthError,
            "refused the key (SignatureDoesNotMatch); set"),
        ({"AWS_ACCESS_KEY_ID": SECRET}, "", ObjectStoreAuthError,
            "it refused the key (InvalidAccessKeyId); set AWS_"),
        ({"AWS_ENDPOINT_URL": CLOSED}, "", ObjectStoreError,
            "no answer from 127.0.0.1:9; see that it is up"),
        ({}, "az://container/p", ObjectStoreAuthError,
            "no key was found, or none that can be read; set AZURE_"),
    ],
)  # fmt: skip
def test_each_fault_is_one_line_and_says_what_to_do(
    bucket: Bucket, changed: Mapping[str, str], address: str, kind: type[Exception], said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr("pipeline.snapshots.objects.RETRIES", {"max_retries": 1})
    objects = Objects(address or bucket.address, {**bucket.environment, **changed})
    (tmp_path / "file").write_bytes(b"content")
    for request in (
        lambda: objects.read("one"),
        lambda: objects.create("one", b""),
        lambda: objects.replace("one", b"", '"e-tag"'),
        lambda: objects.overwrite("one", b""),
        objects.listed,
        objects.top,
        lambda: objects.fetch("one", tmp_path / "fetched"),
        lambda: objects.upload({"one": tmp_path / "file"}),
    ):
        with pytest.raises(kind) as raised:
            request()
        message = str(raised.value)
        assert message.startswith(f"{objects.address}: ")
        assert said in message
        assert "\n" not in message
        assert SECRET not in message
        assert bucket.server.environment["AWS_SECRET_ACCESS_KEY"] not in message


def test_without_the_extra_every_request_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for module in ("obstore", "obstore.exceptions", "obstore.store"):
        monkeypatch.setitem(sys.modules, module, None)
    objects = Objects("s3://bucket/p", {})
    for request in (
        lambda: objects.read("one"),
        lambda: objects.create("one", b""),
        objects.listed,
        objects.top,
    ):
        with pytest.raises(
            SettingsError, match=r"^snapshots: s3://bucket/p needs obstore; .*'objects'"
        ):
            request()


def test_a_server_that_ignores_conditions_is_refused(tmp_path: Path, bucket: Bucket):
    refuse_unconditional(bucket.objects)
    with (
        s3_server(tmp_path, signs=False) as server,
        between(server, honours_conditions=False) as (endpoint, _),
    ):
        objects = Objects(f"s3://{BUCKET}/p", {**server.environment, "AWS_ENDPOINT_URL": endpoint})
        with pytest.raises(
            ObjectStoreError, match=r"^s3://bucket/p: .* not honour If-None-Match.*; use one"
        ):
            refuse_unconditional(objects)
        assert not objects.listed()
