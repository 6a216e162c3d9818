"""What ``make demo-dask`` is made of: settings that are there, and an end that leaves nothing
behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pipeline.project import Project
from tests.projects import NO_STORE, new_project
from tests.servers.dask_demo import COMMANDS, settings

WAITS = (
    "import signal, sys, time; signal.signal(signal.SIG, lambda *_: (time.sleep(0.2),"
    " print('ended'), sys.exit(3)))"
)
STARTS = (
    "import sys; from tests.servers.neo4j_server import to_its_end;"
    " sys.exit(to_its_end(sys.argv[1:]))"
)


def test_its_settings_and_commands(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE)
    given = settings("tcp://127.0.0.1:8786", "postgresql://u@h/d?host=/run/x")
    with Project.open(folder.root, given) as project:
        assert project.settings.engine.kind == "dask"
        assert project.settings.snapshots_are_remote
        assert project.settings.cache == "postgresql+psycopg://u@h/d?host=/run/x"
        assert project.workflow(COMMANDS[0][1])


def test_what_is_run_beside_a_server_ends_itself():
    """By Ctrl-C, which reaches all, and by SIGTERM, which reaches the first alone."""
    for name in ("SIGINT", "SIGTERM"):
        waits = f"{WAITS.replace('SIG,', name + ',')}; print('begun', flush=True); time.sleep(60)"
        command = [sys.executable, "-c", STARTS, sys.executable, "-c", waits]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            (os.killpg if name == "SIGINT" else os.kill)(process.pid, getattr(signal, name))
            assert process.stdout.read() == "ended\n"
        assert process.returncode == 3
