"""One client writes at a time: it holds the lease, loses it, gives it back, or leaves it behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import LeaseLostError, LockedError
from pipeline.files import write_text
from pipeline.snapshots import lease as leases
from pipeline.snapshots.lease import LEASE, TOKEN, Lease, leased
from pipeline.snapshots.objects import LONGEST_CHANGE
from pipeline.snapshots.store import Manifest
from tests.buckets import Bucket
from tests.servers.s3_server import between
from tests.snapshots.test_places import FIRST, SECOND, night

SHORT = 1.0
"""Seconds: of a period in which somebody waits."""


def test_a_second_client_is_refused_and_told_by_whom(bucket: Bucket, tmp_path: Path):
    with (
        bucket.snapshots(tmp_path / "one", SHORT).folder.alone("first:/one"),
        pytest.raises(
            LockedError, match=r"s3://bucket/.*first:/one, process \d+.* writes there; wait"
        ),
        bucket.snapshots(tmp_path / "other", SHORT).folder.alone("second:/other"),
    ):
        pass
    with bucket.snapshots(tmp_path / "other").folder.alone("second:/other"):
        pass  # at once: it was given back


def test_one_of_many_simultaneous_clients_gets_the_lease(bucket: Bucket, tmp_path: Path):
    began, ended = threading.Barrier(5), threading.Event()
    got, refused = list[int](), list[int]()

    def come(number: int) -> None:
        began.wait()
        try:
            with leased(bucket.objects, str(number), tmp_path / str(number), SHORT):
                got.append(number)
                ended.wait(30)
        except LockedError:
            refused.append(number)
            if len(refused) == 4:
                ended.set()

    threads = [threading.Thread(target=come, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 4)


def test_a_dead_clients_lease_is_taken_over_after_a_whole_period(bucket: Bucket, tmp_path: Path):
    leave_behind(bucket, tmp_path / "one")
    began = time.monotonic()
    with bucket.snapshots(tmp_path / "other", SHORT).folder.alone("other"):
        assert time.monotonic() - began > SHORT


def test_a_client_that_finds_its_own_lease_does_not_wait(bucket: Bucket, tmp_path: Path):
    """It holds the folder alone, so the former holder of the lease is dead."""
    leave_behind(bucket, tmp_path / "one")
    began = time.monotonic()
    with bucket.snapshots(tmp_path / "one").folder.alone("one"):
        assert time.monotonic() - began < leases.PERIOD / 2
    shutil.rmtree(tmp_path / "one")
    with bucket.snapshots(tmp_path / "one").folder.alone("one"):
        pass


def test_a_client_that_was_asleep_writes_nothing_more(bucket: Bucket, tmp_path: Path):
    """Its own clock keeps it from writing, or else the conditions of its writes do."""
    one, other = bucket.snapshots(tmp_path / "one"), bucket.snapshots(tmp_path / "other")
    with one.folder.alone("one"):
        night(one, FIRST, *"abc")
        assert one.mirror
        assert one.mirror.lease
        asleep(one.mirror.lease)
        bucket.delete(LEASE)  # as if the period were over for the other
        with other.folder.alone("other"):
            newest = night(other, SECOND, *"def")
        with pytest.raises(LeaseLostError, match="another client may have taken it over"):
            night(one, SECOND, *"xyz")
        one.mirror.lease.lost, one.mirror.lease.renewed = False, leases._now()
        with pytest.raises(
            LeaseLostError, match=r"manifest-flow\.json: another client has written it meanwhile"
        ):
            one.publish(Manifest("flow"), FIRST)
        one.mirror.lease.lost = True
    assert other.manifest("flow").tables == {"texts": newest}


def test_a_change_in_the_second_half_of_a_period_waits_for_the_renewal(
    bucket: Bucket, tmp_path: Path
):
    """Requests sent in the first half end before anybody can take the lease over."""
    assert 2 * LONGEST_CHANGE < leases.PERIOD
    with leased(bucket.objects, "one", tmp_path) as lease:
        lease.ended.set()  # it renews itself no more
        lease.renewed = leases._now() - 0.6 * lease.period
        renewing = threading.Timer(0.05, lease.renew)
        renewing.start()
        lease.check()
        renewing.join()
        assert leases._now() - lease.renewed < lease.period / 2
        lease.renewed = leases._now() - lease.period + 0.1
        with pytest.raises(LeaseLostError):
            lease.check()
        assert leases._now() - lease.renewed > lease.period


def test_a_lost_lease_stops_a_deletion_between_two_requests(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another client may have recorded the other objects since."""
    monkeypatch.setattr("pipeline.snapshots.objects.DELETED_AT_ONCE", {"s3": 2})
    names = [f"texts/{number}" for number in range(5)]
    for name in names:
        bucket.objects.create(name, b"")
    held = list[Lease]()

    def lose(method: str, path: str) -> None:
        if method == "POST" and held:
            asleep(held[0])

    with between(bucket.server, after=lose) as (endpoint, _):
        store = bucket.by(endpoint).snapshots(tmp_path)
        with store.folder.alone("here"):
            assert store.mirror
            assert store.mirror.lease
            held.append(store.mirror.lease)
            with pytest.raises(LeaseLostError):
                store.folder.delete(names)
    assert set(names) & bucket.names == set(names[2:])


SUSPENDED = """
import os, sys
from pathlib import Path
from pipeline.errors import GraphmillError
from pipeline.snapshots.mirror import Mirror
from pipeline.snapshots.objects import Objects
from pipeline.snapshots.store import Manifest, SnapshotStore
from tests.snapshots.test_places import FIRST, SECOND, night, texts

folder = Path(sys.argv[2])
store = SnapshotStore(folder, Mirror(folder, objects=Objects(sys.argv[1], os.environ), period=3))

def told(do):
    try:
        do()
        print("done", flush=True)
    except GraphmillError as error:
        print(type(error).__name__, flush=True)

with store.folder.alone("suspended"):
    first = night(store, FIRST, *"abc")
    new = store.tables.write("texts", texts(*"abcdef"), ("id",))
    print("holds", flush=True)
    input()
    told(lambda: store.folder.delete(first.paths))
    told(lambda: store.tasks.clear() or store.delete_manifest("flow", FIRST))
    told(lambda: store.tables.keep([new]))
    told(lambda: store.tasks.note("task", {}))
    told(lambda: store.tasks.share({"a.rows": folder / new.paths[0]}))
    told(lambda: store.publish(Manifest("flow", {"texts": first}), SECOND))
    told(lambda: night(store, SECOND, *"xyz"))
"""


def test_a_process_that_was_suspended_for_longer_changes_nothing(bucket: Bucket, tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", SUSPENDED, bucket.address, str(tmp_path / "one")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **bucket.environment},
    )  # fmt: skip
    with process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "holds\n"
        process.send_signal(signal.SIGSTOP)
        other = bucket.snapshots(tmp_path / "other", period=3)
        with other.folder.alone("other"):
            newest = night(other, SECOND, *"abc")
            there = bucket.contents
            process.send_signal(signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.read() == "LeaseLostError\n" * 7
            assert process.wait(30) == 0
            assert {name: text for name, text in bucket.contents.items() if name != LEASE} == {
                name: text for name, text in there.items() if name != LEASE
            }
    assert other.manifest("flow").tables == {"texts": newest}
    assert other.tables.exists(newest)


def test_a_lease_that_is_deleted_as_it_is_looked_at_is_taken(bucket: Bucket, tmp_path: Path):
    leave_behind(bucket, tmp_path / "one")
    gone = list[str]()

    def delete(method: str, path: str) -> None:
        if method == "GET" and path.endswith(LEASE) and not gone:
            gone.append(path)
            bucket.delete(LEASE)

    with (
        between(bucket.server, before=delete) as (endpoint, _),
        leased(bucket.by(endpoint).objects, "other", tmp_path) as lease,
    ):
        lease.check()
    assert gone


def test_a_holder_whose_lease_was_replaced_finds_out(bucket: Bucket, tmp_path: Path):
    with leased(bucket.objects, "one", tmp_path, SHORT) as lease:
        lease.check()
        bucket.objects.overwrite(LEASE, b"{}")
        wait_for(lambda: lease.lost)
        with pytest.raises(LeaseLostError, match="run the same command again"):
            lease.check()
    assert bucket.objects.read(LEASE)[0] == b"{}"  # it gives back nothing


def test_a_lease_is_renewed_while_it_is_held(bucket: Bucket, tmp_path: Path):
    with leased(bucket.objects, "one", tmp_path, SHORT / 4) as lease:
        wait_for(lambda: lease.turn > 8)
        lease.check()


def leave_behind(bucket: Bucket, folder: Path) -> None:
    """Leave the lease as a killed client does."""
    lease = Lease(bucket.objects, "its-token", "one", SHORT)
    write_text(folder / TOKEN, lease.token)
    assert bucket.objects.create(LEASE, lease.content())


def asleep(lease: Lease) -> None:
    lease.ended.set()
    lease.renewed -= 2 * lease.period


def wait_for(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
