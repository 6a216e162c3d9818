"""CPU of the server that the benchmark has started for a measuring process."""

import os

import psutil


def server_cpu() -> float:
    """Seconds that the other processes of the starter have taken so far; none of these is known for a server that has
    left it, as PostgreSQL does."""
    others = (process for process in psutil.Process(os.getppid()).children() if process.pid != os.getpid())
    return sum(sum(process.cpu_times()[:2]) for process in others)
