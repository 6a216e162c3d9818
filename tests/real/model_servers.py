"""The processes of a real model server and of a LiteLLM proxy, in the environments that
``.ci/real`` has made."""

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "real"
REQUIRED = "GRAPHMILL_REQUIRE_REAL_MODEL"
SECONDS_TO_START = 300
"""However busy the machine is: a model of 100 MB is read from the disk, and LiteLLM imports for
half a minute."""
MODEL = "smollm2"


def why_not() -> str:
    """Return why there is no real model here; "" where there is one and it is asked for."""
    missing = [
        name
        for name in ("llama", "litellm")
        if not (ENVIRONMENTS / name / "installed.txt").exists()
    ]
    if missing:
        return (
            f"a real model takes minutes, and build/real/{missing[0]} is not installed: make"
            " test-real"
        )
    if os.environ.get(REQUIRED) != "1":
        return f"a real model takes minutes: make test-real, or {REQUIRED}=1"
    return ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class ServerProcess:
    """A server that can be killed and started again at its port. ``ready``: the path that answers
    200 when it is up."""

    command: Sequence[str]
    port: int
    ready: str
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, is_waited_for: bool = True) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        if is_waited_for:
            self.wait()

    def wait(self) -> None:
        """Raise AssertionError where the server has ended, or does not come up."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            with (
                suppress(URLError, OSError),
                urlopen(f"http://127.0.0.1:{self.port}{self.ready}", timeout=5),
            ):
                return
            time.sleep(0.1)
        raise AssertionError(
            f"not up within {SECONDS_TO_START} s: {self.log.read_text(errors='replace')[-2000:]}"
        )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def running(server: ServerProcess) -> Iterator[ServerProcess]:
    try:
        server.start()
        yield server
    finally:
        server.kill()


def llama_server(folder: Path, window: int = 4096, slots: int = 1) -> ServerProcess:
    port = free_port()
    python = ENVIRONMENTS / "llama" / "bin" / "python"
    script = Path(__file__).with_name("llama_server.py")
    command = [
        str(python),
        str(script),
        "--port",
        str(port),
        "--window",
        str(window),
        "--slots",
        str(slots),
    ]
    return ServerProcess(command, port, "/health", folder / "llama.log")


@dataclass(frozen=True)
class LiteLLM:
    """A LiteLLM proxy and the key that it wants."""

    server: ServerProcess
    key: str

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/v1"


def litellm_proxy(folder: Path, base_url: str) -> LiteLLM:
    """Return a proxy before this address; it does not fetch its table of prices from the
    network."""
    port, key = free_port(), f"sk-{secrets.token_hex(16)}"
    config = folder / "litellm.yaml"
    target = {"model": f"openai/{MODEL}", "api_base": base_url, "api_key": "none"}
    config.write_text(json.dumps({"model_list": [{"model_name": MODEL, "litellm_params": target}]}))
    command = [
        str(ENVIRONMENTS / "litellm" / "bin" / "litellm"), "--config", str(config), "--host",
        "127.0.0.1",
        "--port", str(port), "--telemetry", "False",
    ]  # fmt: skip
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    return LiteLLM(
        ServerProcess(command, port, "/health/liveliness", folder / "litellm.log", environment), key
    )
