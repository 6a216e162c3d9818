"""A real Neo4j to test against: yours (``NEO4J_URI``), else one from Docker, else one from Maven
Central.

By hand: ``python tests/servers/neo4j_server.py`` runs the last kind until Ctrl-C, its data in
``--home``.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fasteners import InterProcessReaderWriterLock
from filelock import FileLock
from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

POM = Path(__file__).with_name("neo4j") / "pom.xml"
PASSWORD = "local-tests-only"
IMAGE = "neo4j:5.26-community"
START_SECONDS = 120
STOP_SECONDS = 20
JAVA_OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Xmx1g",
)
QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)  # halves the start, slows long work down
CONF = """\
server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.listen_address=127.0.0.1:{http}
server.http.advertised_address=127.0.0.1:{http}
server.https.enabled=false
server.memory.pagecache.size=128m
db.tx_log.preallocate=false
dbms.usage_report.enabled=false
internal.server.bolt.thread_pool_shutdown_wait_time=0s
"""


class Neo4jUnavailable(Exception):  # noqa: N818 - nothing is wrong, there is just none here
    """Why this machine has no Neo4j."""


@dataclass(frozen=True)
class Neo4jAddress:
    uri: str
    user: str = "neo4j"
    password: str = PASSWORD
    database: str = "neo4j"


@contextmanager
def neo4j_server(options: Sequence[str] = QUICK_START) -> Iterator[Neo4jAddress]:
    """An address that answers until the block ends; an empty database unless it is yours.
    ``options``: Java's, where it is started here.

    Raises Neo4jUnavailable where there is no way to one, RuntimeError where one does not start.
    """
    if uri := os.environ.get("NEO4J_URI"):
        user, password = os.environ.get("NEO4J_USER", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")
        yield Neo4jAddress(uri, user, password, os.environ.get("NEO4J_DATABASE", "neo4j"))
    elif not (no_docker := why_no_docker()):
        with docker_server() as address:
            yield address
    elif not (no_maven := why_no_maven()):
        with temporary_folder() as home, maven_server(home, options=options) as address:
            yield address
    else:
        raise Neo4jUnavailable(f"NEO4J_URI is not set; {no_docker}; {no_maven}")


@contextmanager
def shared_server(folder: Path) -> Iterator[Neo4jAddress]:
    """One server for all processes that name this folder: who comes first starts it, and ends it
    when the others have gone. They keep apart by workspace, as in a server that is somebody's."""
    guard, note = FileLock(folder / "neo4j.lock"), folder / "neo4j.json"
    others = InterProcessReaderWriterLock(folder / "neo4j.users")

    def wait_for_the_others() -> None:
        with guard:
            note.unlink()
        with others.write_lock():
            pass

    with ExitStack() as stack:
        with guard:
            if note.exists():
                address = Neo4jAddress(**json.loads(note.read_text()))
                stack.enter_context(others.read_lock())
            else:
                address = stack.enter_context(neo4j_server())
                note.write_text(json.dumps(asdict(address)))
                stack.callback(wait_for_the_others)
        yield address


# Docker.


def why_no_docker() -> str | None:
    if not shutil.which("docker") or run("docker", "info").returncode:
        return "no Docker daemon answers"
    has_image = run("docker", "image", "inspect", IMAGE).returncode == 0
    pulled = has_image or run("docker", "pull", IMAGE).returncode == 0
    return None if pulled else f"Docker cannot pull {IMAGE}"


@contextmanager
def docker_server() -> Iterator[Neo4jAddress]:
    started = run(
        "docker", "run", "--detach", "--rm", "--publish", "127.0.0.1::7687",
        "--env", f"NEO4J_AUTH=neo4j/{PASSWORD}", "--env", "NEO4J_dbms_usage__report_enabled=false",
        IMAGE,
    )  # fmt: skip
    if started.returncode:
        raise RuntimeError(f"docker run {IMAGE} failed: {tail(started.stderr)}")
    container = started.stdout.strip()
    try:
        published = run("docker", "port", container, "7687/tcp").stdout.split()[0]
        address = Neo4jAddress(f"bolt://{published}")
        wait_until_it_answers(
            address,
            is_running=lambda: run("docker", "inspect", container).returncode == 0,
            log=lambda: run("docker", "logs", "--tail", "30", container).stdout,
        )
        yield address
    finally:
        run("docker", "rm", "--force", "--volumes", container)


# Maven: the server's jars from Maven Central, started with the machine's Java.


def why_no_maven() -> str | None:
    if not shutil.which("mvn"):
        return "no mvn"
    version = (
        re.search(r'version "(\d+)', run(java(), "-version").stderr)
        if shutil.which(java())
        else None
    )
    return None if version and int(version[1]) >= 17 else "no Java 17 or later"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


@contextmanager
def maven_server(
    home: Path, bolt_port: int = 0, http_port: int = 0, options: Sequence[str] = ()
) -> Iterator[Neo4jAddress]:
    """A server whose data are in ``home``, made if need be; any free port for one that is 0 or
    taken."""
    cache = cache_folder()
    jars = kept(cache / "lib", copy_jars)
    fresh = kept(cache / f"home-{PASSWORD}", lambda folder: make_home(jars, folder))
    if not (home / "data").exists():
        shutil.copytree(fresh, home, dirs_exist_ok=True)
    bolt, http = free_port(bolt_port), free_port(http_port)
    (home / "conf" / "neo4j.conf").write_text(CONF.format(bolt=bolt, http=http))
    arguments = [
        "org.neo4j.server.CommunityEntryPoint",
        f"--home-dir={home}",
        f"--config-dir={home / 'conf'}",
    ]
    console = home / "console.log"
    log = home / "logs" / "neo4j.log"
    with console.open("w") as output:
        process = subprocess.Popen(
            dies_with_parent([java(), *JAVA_OPTIONS, *options, "-cp", f"{jars}/*", *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        address = Neo4jAddress(f"bolt://127.0.0.1:{bolt}")
        wait_until_it_answers(
            address, lambda: process.poll() is None, lambda: read(log) + read(console)
        )
        yield address
    finally:
        stop(process)


def cache_folder() -> Path:
    version = re.search(r"<neo4j.version>(.+?)</", POM.read_text())
    assert version, f"{POM}: no neo4j.version"
    folder = os.environ.get("GRAPHMILL_NEO4J_CACHE") or Path.home() / ".cache" / "graphmill"
    return Path(folder) / f"neo4j-{version[1]}"


def kept(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``; made first under another name if it is not there, so that a killed run leaves no
    half."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder.parent) as temporary:
        half = temporary / folder.name
        make(half)
        try:
            half.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
    return folder


def copy_jars(folder: Path) -> None:
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = run("mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", *options)
    if done.returncode:
        raise Neo4jUnavailable(
            f"mvn could not fetch Neo4j's jars: {tail(done.stdout + done.stderr)}"
        )


def make_home(jars: Path, folder: Path) -> None:
    """A home with the password set and no database yet."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "neo4j.conf").touch()
    admin = ["org.neo4j.cli.AdminTool", "dbms", "set-initial-password", PASSWORD]
    where = {"NEO4J_HOME": str(folder), "NEO4J_CONF": str(folder / "conf")}
    done = run(java(), *QUICK_START, "-cp", f"{jars}/*", *admin, environment=where)
    if done.returncode:
        raise RuntimeError(f"neo4j: set-initial-password failed: {tail(done.stdout + done.stderr)}")


def dies_with_parent(command: list[str]) -> list[str]:
    """The command, on Linux behind a step that asks the kernel for SIGTERM when the starter is
    gone."""
    if sys.platform != "linux":
        return command
    ask = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1],"
        " sys.argv[1:])"
    )
    return [sys.executable, "-c", ask, *command]


def to_its_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Its exit code. It hears Ctrl-C too, is told SIGTERM, and is waited for: what it has begun it
    ends itself."""
    process = subprocess.Popen(command, env=environment)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# Both.


def wait_until_it_answers(
    address: Neo4jAddress, is_running: Callable[[], bool], log: Callable[[], str]
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(address):
        if not is_running():
            raise RuntimeError(f"neo4j ended at its start:\n{tail(log())}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"neo4j gave no answer in {START_SECONDS} s:\n{tail(log())}")
        time.sleep(0.2)


def answers(address: Neo4jAddress) -> bool:
    auth = (address.user, address.password)
    with GraphDatabase.driver(address.uri, auth=auth, max_transaction_retry_time=0) as driver:
        try:
            driver.execute_query("RETURN 1", database_=address.database)
        except (DriverError, Neo4jError):
            return False
    return True


def run(
    *command: str, environment: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, **(environment or {})}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=everything,
        cwd=folder,
        check=False,
    )


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="graphmill-neo4j-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def free_port(wanted: int) -> int:
    """``wanted`` if nobody listens there, else any free loopback port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port(0)
        return listener.getsockname()[1]


def run_beside(command: str) -> int:
    """The command's exit code; it finds the server by NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD."""
    print("Starting Neo4j (the first time its jars are fetched, 116 MB) ...", flush=True)
    try:
        with neo4j_server() as address:
            where = {
                "NEO4J_URI": address.uri,
                "NEO4J_USER": address.user,
                "NEO4J_PASSWORD": address.password,
            }
            return subprocess.run(
                shlex.split(command), env={**os.environ, **where}, check=False
            ).returncode
    except Neo4jUnavailable as error:
        print(f"neo4j: {error}", file=sys.stderr)
        return 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A local Neo4j Community to try things on, without Docker."
    )
    parser.add_argument(
        "--home", type=Path, default=Path(".neo4j"), help="its folder, kept [.neo4j]"
    )
    parser.add_argument(
        "--run", metavar="COMMAND", help="run this while a fresh one is there, then end it"
    )
    arguments = parser.parse_args()
    if arguments.run:
        sys.exit(run_beside(arguments.run))
    home = arguments.home.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    if reason := why_no_maven():
        sys.exit(f"neo4j: {reason}; install Maven and a JDK 17 or later, or use compose.yaml")
    print(f"Starting Neo4j in {home} (the first time its jars are fetched, 116 MB) ...", flush=True)
    try:
        with maven_server(home, bolt_port=7687, http_port=7474) as address:
            print(
                f"uri {address.uri}  user {address.user}  password {address.password}", flush=True
            )
            print("Ctrl-C ends it.", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        print("\nNeo4j has ended; its data are kept.")
    except Neo4jUnavailable as error:
        sys.exit(f"neo4j: {error}")


if __name__ == "__main__":
    main()
