"""The embedded PostgreSQL among processes that come, go and are killed."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from pipeline.errors import StoreError
from pipeline.stores.postgres.embedded import (
    SET_UP,
    _set_up,
    get_server,
    start_embedded,
    stop_embedded,
)
from pipeline.stores.postgres.store import PostgresStore
from tests.servers.postgres_server import server_folder

ROOT = Path(__file__).parents[3]
USER = """
import sys
from pathlib import Path
from pipeline.stores.postgres.embedded import start_embedded
print(start_embedded(Path(sys.argv[1])), flush=True)
sys.stdin.readline()
"""
REMOVED = """
import shutil, sys
from pathlib import Path
from pipeline.stores.postgres.embedded import start_embedded, stop_embedded
path = Path(sys.argv[1])
start_embedded(path)
stop_embedded(path)
shutil.rmtree(path.parent)
"""
STOP = """
import sys
from pathlib import Path
from pipeline.stores.postgres.embedded import stop_embedded
stop_embedded(Path(sys.argv[1]))
"""

Starter = Callable[[], subprocess.Popen]


@pytest.fixture
def folder() -> Iterator[Path]:
    with server_folder() as folder:
        yield folder


@pytest.fixture
def start_user(folder: Path) -> Iterator[Starter]:
    """Starts a process that uses the server until its standard input ends."""
    processes = []

    def start() -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", USER, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postgresql://")
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen) -> None:
    process.communicate(timeout=30)
    assert process.returncode == 0


def server_pid(folder: Path) -> int | None:
    """None when no server runs over the folder."""
    file = folder / "postmaster.pid"
    pid = int(file.read_text().split("\n")[0]) if file.exists() else None
    return pid if pid and psutil.pid_exists(pid) else None


def answers(url: str) -> bool:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        found = connection.execute(text("SELECT 1")).scalar()
    engine.dispose()
    return found == 1


def test_the_last_user_stops_the_server(folder: Path, start_user: Starter):
    first = start_user()
    pid = server_pid(folder)
    second = start_user()
    assert server_pid(folder) == pid
    end(first)
    assert server_pid(folder) == pid
    end(second)
    assert server_pid(folder) is None


def test_the_server_survives_the_kill_of_the_process_that_started_it(
    folder: Path, start_user: Starter
):
    starter = start_user()
    pid = server_pid(folder)
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    assert server_pid(folder) == pid
    next_user = start_user()
    assert server_pid(folder) == pid
    end(next_user)
    assert server_pid(folder) is None


def test_the_last_user_stops_the_server_after_another_was_killed(folder: Path, start_user: Starter):
    last, other = start_user(), start_user()
    other.kill()
    other.wait(30)
    end(last)
    assert server_pid(folder) is None


def test_stop_embedded_stops_the_server_whoever_uses_it(folder: Path, start_user: Starter):
    user = start_user()
    assert stop_embedded(folder)
    assert server_pid(folder) is None
    assert not stop_embedded(folder)
    end(user)


def test_a_folder_that_is_removed_after_the_stop_stays_away(folder: Path):
    path = folder.parent / "removed" / "postgres"
    subprocess.run([sys.executable, "-c", REMOVED, str(path)], cwd=ROOT, check=True, timeout=60)
    assert not path.parent.exists()


def test_a_process_that_starts_the_server_twice_keeps_it(folder: Path, start_user: Starter):
    url = start_embedded(folder)
    assert start_embedded(folder) == url
    end(start_user())
    assert answers(url)
    assert stop_embedded(folder)
    assert answers(start_embedded(folder))


def test_a_process_whose_server_was_stopped_starts_it_again(folder: Path, start_user: Starter):
    start_embedded(folder)
    subprocess.run([sys.executable, "-c", STOP, str(folder)], cwd=ROOT, check=True)
    assert server_pid(folder) is None
    assert answers(start_embedded(folder))


def test_the_server_gets_memory_for_its_data_unless_somebody_has_set_it(folder: Path):
    """This holds for a server that an earlier version has created, too."""

    def buffers() -> str:
        with psycopg.connect(start_embedded(folder)) as connection:
            return str(
                connection.execute("SELECT current_setting('shared_buffers')").fetchall()[0][0]
            )

    settings = folder / "postgresql.conf"
    assert buffers() == f"{min(1024, psutil.virtual_memory().total // 8 >> 20)}MB".replace(
        "1024MB", "1GB"
    )
    stop_embedded(folder)
    settings.write_text(settings.read_text() + "shared_buffers = 64MB\n")
    assert buffers() == "64MB"
    stop_embedded(folder)
    stop_embedded(folder)
    of_then = settings.read_text().partition(SET_UP)[0]
    for by_hand in (
        of_then.replace("shared_buffers = 128MB", "shared_buffers = 48MB"),
        f"{of_then}shared_buffers 48MB\n",
    ):
        settings.write_text(by_hand)
        _set_up(get_server(folder, start=False))
        assert settings.read_text() == by_hand
    settings.write_text(of_then)
    assert buffers() not in ("64MB", "128MB")


@pytest.mark.parametrize("place", ["file", "file/below", "full"])
def test_a_folder_that_cannot_be_used_is_a_store_error(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("somebody's")
    for _ in range(2):
        with pytest.raises(
            StoreError, match=r"the embedded PostgreSQL does not start .*stores\.postgres\.url"
        ):
            start_embedded(tmp_path / place)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "somebody's"


def test_a_server_starts_in_a_folder_with_spaces_in_its_path():
    with TemporaryDirectory(prefix="graphmill spaced ", ignore_cleanup_errors=True) as parent:
        folder = Path(parent) / "my data" / "postgres"
        store = PostgresStore(start_embedded(folder))
        assert store.live() is None
        store.close()
        assert stop_embedded(folder)
