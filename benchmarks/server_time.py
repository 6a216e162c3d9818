"""CPU of the server that a measuring process works with."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


def server_cpu(spec: Mapping[str, Any]) -> float:
    """Return the CPU seconds of the server so far; ``spec`` is that of load_once.py."""
    return postgres_cpu(Path(spec["folder"])) if "folder" in spec else sibling_cpu()


def postgres_cpu(folder: Path) -> float:
    """Return the CPU seconds of the embedded server and its backends, also of ended ones."""
    server = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
    seconds = 0.0
    for child in server.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ends now, and is the server's then
            seconds += sum(child.cpu_times()[:2])
    return seconds + sum(server.cpu_times()[:4])


def sibling_cpu() -> float:
    """Return the CPU seconds of the other processes that the parent has started.

    That is the Neo4j, since PostgreSQL has left this group of processes.
    """
    siblings = psutil.Process(os.getppid()).children()
    others = [process for process in siblings if process.pid != os.getpid()]
    return sum(sum(process.cpu_times()[:2]) for process in others)
