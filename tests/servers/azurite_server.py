"""Azurite, which speaks the protocol of Azure's blobs: for tests where it is installed (npm install
azurite). It takes 365 MB, so that nothing here fetches it."""

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.servers.neo4j_server import dies_with_parent, free_port, stop
from tests.servers.s3_server import BUCKET, START_SECONDS, answers

PROGRAM, ACCOUNT, VERSION = "azurite-blob", "local", "2021-08-06"
KEY = base64.b64encode(b"local-tests-only").decode()


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


@contextmanager
def azurite_server(home: Path) -> Iterator[dict[str, str]]:
    """With a bucket, as Azure's containers are called elsewhere; where it is, and its key, by the
    usual variables."""
    port, environment = free_port(0), {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(home)]
    process = subprocess.Popen(
        dies_with_parent([PROGRAM, *where, "--skipApiVersionCheck", "--disableTelemetry",
            "--silent"]),
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("azurite gave no answer")
            time.sleep(0.05)
        make_bucket(port)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
        }
    finally:
        stop(process)


def make_bucket(port: int) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    said = [f"{name}:{value}" for name, value in headers.items()]
    signed = "\n".join(
        ["PUT", *[""] * 11, *said, f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}", "restype:container"]
    )
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", f"/{ACCOUNT}/{BUCKET}?restype=container", headers=headers)
    answer = connection.getresponse()
    if answer.status != http.client.CREATED:
        raise RuntimeError(f"azurite makes no container: {answer.status} {answer.read()[:200]!r}")
    connection.close()
