"""One client writes: the lease that it holds, loses, gives back, and leaves behind."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import LeaseLostError, LockedError
from pipeline.files import write_text
from pipeline.snapshots import lease as leases
from pipeline.snapshots.lease import LEASE, TOKEN, Lease, leased
from pipeline.snapshots.store import Manifest
from tests.buckets import Bucket
from tests.snapshots.test_places import FIRST, SECOND, night

SHORT = 1.0
"""Seconds: of a period in which somebody waits."""


def test_a_second_client_is_refused_and_told_by_whom(bucket: Bucket, tmp_path: Path):
    with (
        bucket.snapshots(tmp_path / "one", SHORT).alone("first:/one"),
        pytest.raises(LockedError, match=r"s3://bucket/.*first:/one, process \d+.* writes there; wait"),
        bucket.snapshots(tmp_path / "other", SHORT).alone("second:/other"),
    ):
        pass
    with bucket.snapshots(tmp_path / "other").alone("second:/other"):
        pass  # at once: it was given back


def test_of_many_that_come_at_once_one_gets_it(bucket: Bucket, tmp_path: Path):
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
    with bucket.snapshots(tmp_path / "other", SHORT).alone("other"):
        assert time.monotonic() - began > SHORT


def test_who_finds_its_own_lease_need_not_wait(bucket: Bucket, tmp_path: Path):
    """It holds the folder alone: who had it is dead."""
    leave_behind(bucket, tmp_path / "one")
    began = time.monotonic()
    with bucket.snapshots(tmp_path / "one").alone("one"):
        assert time.monotonic() - began < leases.PERIOD / 2
    shutil.rmtree(tmp_path / "one")
    with bucket.snapshots(tmp_path / "one").alone("one"):
        pass


def test_a_client_that_was_asleep_writes_nothing_more(bucket: Bucket, tmp_path: Path):
    """Neither by its own clock, nor, where it does not look at that, by the conditions of what it writes."""
    one, other = bucket.snapshots(tmp_path / "one"), bucket.snapshots(tmp_path / "other")
    with one.alone("one"):
        night(one, FIRST, *"abc")
        assert one.mirror
        assert one.mirror.lease
        asleep(one.mirror.lease)
        bucket.delete(LEASE)  # as if the period were over for the other
        with other.alone("other"):
            newest = night(other, SECOND, *"def")
        with pytest.raises(LeaseLostError, match="another client may have taken it over"):
            night(one, SECOND, *"xyz")
        one.mirror.lease.lost, one.mirror.lease.renewed = False, leases._now()
        with pytest.raises(LeaseLostError, match=r"manifest-flow\.json: another client has written it meanwhile"):
            one.publish(Manifest("flow"), FIRST)
        one.mirror.lease.lost = True
    assert other.manifest("flow").tables == {"texts": newest}


def test_a_holder_whose_lease_was_replaced_finds_out(bucket: Bucket, tmp_path: Path):
    with leased(bucket.objects, "one", tmp_path, SHORT) as lease:
        lease.check()
        bucket.objects.overwrite(LEASE, b"{}")
        wait_for(lambda: lease.lost)
        with pytest.raises(LeaseLostError, match="run the same command again"):
            lease.check()
    assert bucket.objects.read(LEASE)[0] == b"{}"  # it gives back nothing


def test_it_is_renewed_for_as_long_as_it_is_held(bucket: Bucket, tmp_path: Path):
    with leased(bucket.objects, "one", tmp_path, SHORT / 4) as lease:
        wait_for(lambda: lease.turn > 8)
        lease.check()


def leave_behind(bucket: Bucket, folder: Path) -> None:
    """As a client that was killed."""
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
