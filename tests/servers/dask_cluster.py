"""A Dask cluster of processes on this machine: a scheduler and workers of graphmill, which see one
folder of snapshots.

Which folder that is may change between runs: what their environment names is a link.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pipeline.runs.worker import SNAPSHOTS
from tests.projects import ProjectFolder
from tests.servers.neo4j_server import dies_with_parent

QUIET = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
}
PATIENCE = 300.0
"""Seconds that a process has to start in, on a machine that is busy."""


@dataclass(frozen=True)
class Keys:
    """Of all processes of a cluster: one certificate, which they trust, and its key."""

    certificate: Path
    key: Path

    @property
    def options(self) -> list[str]:
        """Of Dask's commands."""
        return [
            "--tls-ca-file",
            f"{self.certificate}",
            "--tls-cert",
            f"{self.certificate}",
            "--tls-key",
            f"{self.key}",
        ]

    @property
    def settings(self) -> dict[str, str]:
        return {
            "ca_file": str(self.certificate),
            "cert_file": str(self.certificate),
            "key_file": str(self.key),
        }


def make_keys(folder: Path) -> Keys:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "graphmill's tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Keys(folder / "cluster.pem", folder / "cluster.key")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    made.certificate.write_bytes(certificate.public_bytes(pem))
    made.key.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    return made


@dataclass
class DaskCluster:
    """``environment``: of its processes; ``tls``: options of Dask's commands that name files of
    keys."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tls: Sequence[str] = ()
    stack: ExitStack = field(default_factory=ExitStack)
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_scheduler(self) -> None:
        found = self.folder / "scheduler.json"
        found.unlink(missing_ok=True)
        protocol = ["--protocol", "tls"] if self.tls else []
        self.scheduler = self._started(
            "scheduler", "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port",
            "0",
            "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(found), *protocol,
            *self.tls,
        )  # fmt: skip
        self.address = str(_awaited(lambda: json.loads(found.read_text())["address"]))

    def start_workers(self, number: int, *options: str) -> None:
        """They are started again when they are killed."""
        self.workers.append(
            self._started(
                "workers",
                "-m",
                "pipeline",
                "worker",
                self.address,
                "--workers",
                str(number),
                *options,
            )
        )

    def await_workers(self, number: int) -> None:
        """Until so many have joined; not over TLS."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=PATIENCE)

    def _started(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **QUIET, SNAPSHOTS: str(self.link), **self.environment}
        log = self.stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            dies_with_parent([sys.executable, *arguments]), env=environment, stdout=log, stderr=log,
            cwd=self.folder,
            start_new_session=True,  # Ctrl-C is for who uses it
        )  # fmt: skip
        self.stack.callback(_end, process)
        return process

    @property
    def link(self) -> Path:
        return self.folder / "snapshots"

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def await_idle(self) -> None:
        """Until no worker does a task, nor is to."""
        from distributed import Client

        client: Any  # whose methods say what they give an event loop, too
        with Client(self.address, set_as_default=False) as client:
            _awaited(lambda: not any(client.processing().values()))

    def see(self, folder: ProjectFolder, **engine: Any) -> None:
        """From now on the workers see the snapshots of this project, which works with them."""
        there = folder.root / "data" / "snapshots"
        there.mkdir(parents=True, exist_ok=True)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(there)
        self.work_with(folder, **engine)

    def work_with(self, folder: ProjectFolder, **engine: Any) -> None:
        """Which finds the snapshots that the workers see."""
        folder.edit_settings(
            engine={
                "kind": "dask",
                "address": self.address,
                "workers": 2,
                "wait_seconds": PATIENCE,
                **engine,
            }
        )


def processes_below(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Of workers those that do the tasks, not those that look after them."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [one for one in found if "spawn_main" in " ".join(one.cmdline())]


def _end(process: subprocess.Popen[bytes]) -> None:
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for one in below:
        one.kill()
    process.kill()
    process.wait()


def _awaited(look: Any) -> object:
    for _ in range(int(PATIENCE / 0.05)):
        with suppress(OSError, ValueError, KeyError):
            if found := look():
                return found
        time.sleep(0.05)
    raise TimeoutError("nothing came of it")


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, **given: Any) -> Iterator[DaskCluster]:
    """With as many workers."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = DaskCluster(folder, stack=stack, **given)
        cluster.start_scheduler()
        if workers:
            cluster.start_workers(workers)
        yield cluster
