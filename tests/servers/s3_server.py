"""A real server that speaks S3, its objects in a folder: S3Proxy from Maven Central. And what
stands between it and a client: counts, or takes the conditions out of requests, as a server does
that does not honour them.

It honours If-None-Match at once, and If-Match after a look, so that two of many that write one
object at the same instant may both be told that they did: no test lets two do that.

By hand: ``python -m tests.servers.s3_server`` runs one until Ctrl-C, its objects in ``--home``;
with ``--run COMMAND`` for as long as the command takes, which finds it by the usual variables.
"""

import argparse
import http.client
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from tests.servers.neo4j_server import (
    QUICK_START,
    dies_with_parent,
    free_port,
    java,
    kept,
    run,
    stop,
    tail,
    temporary_folder,
    to_its_end,
    why_no_maven,
)
from tests.servers.serving import serving

POM = Path(__file__).with_name("s3") / "pom.xml"
USER, KEY = "local-tests", "local-tests-only"
BUCKET = "bucket"
START_SECONDS = 60
CONF = """\
s3proxy.authorization={authorization}
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.identity={user}
s3proxy.credential={key}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={objects}
"""
CONDITIONS = frozenset({"if-match", "if-none-match"})


class S3Unavailable(Exception):  # noqa: N818 - nothing is wrong, there is just none here
    """Why this machine has no such server."""


@dataclass
class S3Server:
    """``home``: where it keeps its objects and its settings."""

    home: Path
    port: int
    signs: bool = True
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return environment_for(self.endpoint)

    @property
    def objects(self) -> Path:
        """As they lie in the bucket."""
        return self.home / "objects" / BUCKET

    def start(self) -> None:
        """Raises S3Unavailable, RuntimeError."""
        jars = kept(cache_folder(), copy_jars)
        self.objects.mkdir(parents=True, exist_ok=True)
        conf, log = self.home / "s3proxy.conf", self.home / "s3proxy.log"
        authorization = "aws-v2-or-v4" if self.signs else "none"
        objects = self.objects.parent
        conf.write_text(
            CONF.format(
                authorization=authorization, port=self.port, user=USER, key=KEY, objects=objects
            )
        )
        options = [*QUICK_START, "-Xmx256m", "-DLOG_LEVEL=warn", "-cp", f"{jars}/*"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                dies_with_parent([java(), *options, "org.gaul.s3proxy.Main", "--properties",
                    str(conf)]),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for who uses it
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"s3proxy gave no answer:\n{tail(log.read_text(errors='replace'))}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()


@contextmanager
def s3_server(home: Path, signs: bool = True) -> Iterator[S3Server]:
    """``signs``: whether requests must be signed, so that nobody can change them on their way.
    Raises S3Unavailable where there is no way to one."""
    if reason := why_no_maven():
        raise S3Unavailable(reason)
    server = S3Server(home, free_port(0), signs)
    try:
        server.start()
        yield server
    finally:
        if server.process:
            stop(server.process)


def environment_for(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }


def cache_folder() -> Path:
    version = re.search(r"<s3proxy.version>(.+?)</", POM.read_text())
    assert version, f"{POM}: no s3proxy.version"
    return Path.home() / ".cache" / "graphmill" / f"s3proxy-{version[1]}"


def copy_jars(folder: Path) -> None:
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = run("mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", *options)
    if done.returncode:
        raise S3Unavailable(
            f"mvn could not fetch S3Proxy's jars: {tail(done.stdout + done.stderr)}"
        )


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


# Between a client and the server.


OnRequest = Callable[[str, str], None]


class AtPort(Protocol):
    @property
    def port(self) -> int: ...


def nothing(method: str, path: str) -> None:
    pass


@dataclass
class Traffic:
    """What went through: requests by their method, bytes of their bodies and of those of the
    answers."""

    requests: dict[str, int] = field(default_factory=dict)
    up: int = 0
    down: int = 0

    @property
    def all(self) -> int:
        return sum(self.requests.values())


@contextmanager
def between(
    server: AtPort,
    honours_conditions: bool = True,
    versions: bool = False,
    before: OnRequest = nothing,
    after: OnRequest = nothing,
) -> Iterator[tuple[str, Traffic]]:
    """An endpoint that hands all requests on, and what went through it. ``versions``: it says that
    the bucket keeps what is overwritten or deleted; ``before``, ``after``: told of each request
    that comes, and that the server has answered, by its method and path."""
    traffic, counting = Traffic(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def hand_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            dropped = frozenset[str]() if honours_conditions else CONDITIONS
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in dropped
            }
            before(self.command, self.path)
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            after(self.command, self.path)
            with counting:
                kind = "LIST" if "list-type" in self.path else self.command
                traffic.requests[kind] = traffic.requests.get(kind, 0) + 1
                traffic.up += len(body)
                traffic.down += len(content)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            if versions and self.command == "PUT":
                self.send_header("x-amz-version-id", "a-version")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = hand_on  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that is killed breaks a connection off."""

    proxy = Quiet(("127.0.0.1", 0), Handler)
    with serving(proxy):
        yield f"http://127.0.0.1:{proxy.server_address[1]}", traffic


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A local server that speaks S3, with a bucket of the name 'bucket'."
    )
    parser.add_argument("--home", type=Path, help="its folder, kept [a temporary one]")
    parser.add_argument("--run", metavar="COMMAND", help="run this while one is there, then end it")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    if not cache_folder().exists():
        print("Fetching S3Proxy, this once (57 MB) ...", flush=True)
    try:
        with (
            temporary_folder() as folder,
            s3_server((arguments.home or folder).resolve()) as server,
        ):
            if arguments.run:
                environment = {**os.environ, **server.environment}
                sys.exit(to_its_end(shlex.split(arguments.run), environment))
            for name, value in server.environment.items():
                print(f"export {name}={value}", flush=True)
            print(f"snapshots: s3://{BUCKET}/prefix   Ctrl-C ends it.", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        print(f"\nIt has ended{'; its objects are kept' if arguments.home else ''}.")
    except S3Unavailable as reason:
        sys.exit(f"s3: {reason}; install Maven and a JDK 17 or later, or use compose.yaml")


if __name__ == "__main__":
    main()
