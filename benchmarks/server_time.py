"""CPU of the server that a measuring process works with."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


def server_cpu(spec: Mapping[str, Any]) -> float:
    """Seconds so far. ``spec``: that of load_once.py."""
    return postgres_cpu(Path(spec["folder"])) if "folder" in spec else sibling_cpu()


def postgres_cpu(folder: Path) -> float:
    """Of the embedded server and its backends, those that have ended included."""
    server = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
    seconds = 0.0
    for child in server.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ends now, and is the server's then
            seconds += sum(child.cpu_times()[:2])
    return seconds + sum(server.cpu_times()[:4])


def sibling_cpu() -> float:
    """Of the other processes of the starter: a Neo4j's, while PostgreSQL has left it."""
    others = (
        process for process in psutil.Process(os.getppid()).children() if process.pid != os.getpid()
    )
    return sum(sum(process.cpu_times()[:2]) for process in others)
