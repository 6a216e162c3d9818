"""An embedded PostgreSQL that is stopped under a server."""

import asyncio
import subprocess
import sys
from pathlib import Path

from pipeline.serve.health import Health
from tests.projects import new_project
from tests.servers.postgres_server import server_folder
from tests.stores.postgres.test_embedded import ROOT, STOP


def test_the_next_question_and_health_start_it_again():
    with server_folder() as place:
        folder = new_project(place / "p", "embedded")
        with folder.open() as project:
            project.run("fast")
            assert project.query_data("Who founded the Brack Institute?", mode="naive")["chunks"]
            stop(folder.root / "data" / "postgres")
            assert project.query_data("Who founded the Brack Institute?", mode="naive")["chunks"]
            health = Health(project)
            stop(folder.root / "data" / "postgres")
            assert asyncio.run(health.look()).well
            health.close()
        project.stop_stores()


def stop(folder: Path) -> None:
    """As another process does."""
    subprocess.run([sys.executable, "-c", STOP, str(folder)], cwd=ROOT, check=True)
