"""Objects of a bucket that is an input: many are read at once, and one that goes silent is not
asked for each of them."""

import asyncio
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from pipeline.documents import bucket_reader
from pipeline.documents.bucket_reader import SILENT_IN_A_ROW, SILENT_SECONDS, BucketReader
from pipeline.documents.input_files import InputFile, unpacked
from pipeline.errors import DiskFullError, ObjectStoreError
from pipeline.snapshots import objects
from pipeline.snapshots.objects import AT_ONCE, Objects
from tests.servers.cloud_buckets import PART, Azure, cloud_bucket

NAMES = [str(number) for number in range(3 * AT_ONCE)]


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Answers:
    """A bucket whose objects are read at once; those of ``failing`` fail after their seconds."""

    address = "s3://bucket"

    def __init__(self, clock: Clock, seconds: float, failing: set[str]) -> None:
        self.clock, self.seconds, self.failing = clock, seconds, failing
        self.asked: list[str] = []
        self.under_way = self.most_under_way = 0

    def read(self, name: str) -> tuple[bytes, str]:
        self.asked.append(name)
        if name not in self.failing:
            return name.encode(), ""
        self.clock.now += self.seconds
        raise ObjectStoreError(f"{name}: no answer")

    async def fetch_async(self, name: str, path: Path) -> None:
        self.asked.append(name)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        end = self.clock.now + self.seconds
        # Later objects answer sooner than earlier ones, and all of them before one fails.
        turns = len(NAMES) ** 2 if name in self.failing else AT_ONCE - int(name) % AT_ONCE
        for _ in range(turns):
            await asyncio.sleep(0)
        self.under_way -= 1
        if name not in self.failing:
            path.write_text(name)
            return
        self.clock.now = max(self.clock.now, end)
        raise ObjectStoreError(f"{name}: no answer")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(bucket_reader, "time", clock)
    return clock


ReadAll = Callable[[Answers, list[str]], list[str]]
"""Read objects, and return the content of each, or why it could not be read."""


def read_one_by_one(answers: Answers, names: list[str]) -> list[str]:
    reader = BucketReader(cast("Objects", answers))
    found: list[str] = []
    for name in names:
        try:
            found.append(reader.read(name).decode())
        except OSError as error:
            found.append(str(error))
    return found


@pytest.fixture
def fetch(tmp_path: Path) -> ReadAll:
    def fetch_together(answers: Answers, names: list[str]) -> list[str]:
        wanted = [(name, tmp_path / name) for name in names]
        errors = BucketReader(cast("Objects", answers)).fetch(wanted)
        return [
            str(error) if error else path.read_text()
            for (_, path), error in zip(wanted, errors, strict=True)
        ]

    return fetch_together


@pytest.fixture(params=["one by one", "together"])
def read_all(request: pytest.FixtureRequest, fetch: ReadAll) -> ReadAll:
    return fetch if request.param == "together" else read_one_by_one


def test_after_some_silent_objects_in_a_row_the_others_are_not_tried(clock: Clock):
    answers = Answers(clock, SILENT_SECONDS, set(NAMES[1:]))
    found = read_one_by_one(answers, NAMES)
    assert answers.asked == NAMES[: 1 + SILENT_IN_A_ROW]
    assert found[0] == "0"
    assert found[1] == "1: no answer"
    assert all("next run reads them" in message for message in found[1 + SILENT_IN_A_ROW :])


def test_objects_that_are_refused_at_once_hold_up_no_other(clock: Clock, read_all: ReadAll):
    answers = Answers(clock, 0.1, set(NAMES[:-1]))
    assert read_all(answers, NAMES)[-1] == NAMES[-1]


def test_a_silent_object_among_others_stops_none_of_them(clock: Clock, read_all: ReadAll):
    answers = Answers(clock, SILENT_SECONDS, set(NAMES[::2]))
    assert read_all(answers, NAMES)[1::2] == NAMES[1::2]
    assert answers.asked == NAMES


def test_a_limited_number_of_objects_is_read_at_once_and_each_has_its_own_content(
    clock: Clock, fetch: ReadAll
):
    answers = Answers(clock, 0.1, set())
    assert fetch(answers, NAMES) == NAMES
    assert answers.most_under_way == AT_ONCE


@pytest.mark.parametrize("answered", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 5])
def test_a_bucket_that_goes_silent_costs_the_time_of_one_object(
    clock: Clock, fetch: ReadAll, answered: int
):
    answers = Answers(clock, SILENT_SECONDS, set(NAMES[answered:]))
    found = fetch(answers, NAMES)
    assert found[:answered] == NAMES[:answered]
    assert clock.now == SILENT_SECONDS
    tried = answers.asked[answered:]
    assert len(tried) <= AT_ONCE
    assert found[answered : len(answers.asked)] == [f"{name}: no answer" for name in tried]
    assert all("next run reads them" in message for message in found[len(answers.asked) :])


def test_a_few_silent_objects_at_the_end_of_those_under_way_are_no_silent_bucket(
    clock: Clock, fetch: ReadAll
):
    last_two = set(NAMES[AT_ONCE - 2 : AT_ONCE])
    answers = Answers(clock, SILENT_SECONDS, last_two)
    assert [name for name in fetch(answers, NAMES) if "no answer" not in name] == [
        name for name in NAMES if name not in last_two
    ]


def test_a_bucket_that_went_silent_is_not_asked_again_in_the_same_listing(
    clock: Clock, tmp_path: Path
):
    answers = Answers(clock, SILENT_SECONDS, set(NAMES))
    reader = BucketReader(cast("Objects", answers))
    for _ in range(2):
        reader.fetch([(name, tmp_path / name) for name in NAMES])
        assert len(answers.asked) == AT_ONCE


def test_after_ctrl_c_nothing_waits_for_an_answer_and_no_request_goes_on(tmp_path: Path):
    cancelled = threading.Semaphore(0)
    main = threading.get_ident()

    class Silent:
        address = "s3://bucket"
        begun = 0

        async def fetch_async(self, name: str, path: Path) -> None:
            self.begun += 1
            is_last = self.begun == AT_ONCE
            try:
                # The main thread has begun to wait for the objects by then.
                await asyncio.sleep(0.2)
                if is_last:
                    signal.pthread_kill(main, signal.SIGINT)
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                # A part that has come meanwhile is still written.
                await asyncio.sleep(0.05)
                cancelled.release()
                raise

    silent = Silent()
    reader = BucketReader(cast("Objects", silent))
    with pytest.raises(KeyboardInterrupt):
        reader.fetch([(name, tmp_path / name) for name in NAMES])
    assert all(cancelled.acquire(blocking=False) for _ in range(AT_ONCE))
    assert silent.begun == AT_ONCE


def test_ctrl_c_while_objects_are_fetched_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    main = threading.get_ident()
    with cloud_bucket(Azure()) as bucket:
        for name in NAMES:
            bucket.put(name, "x" * (2 * PART))
        bucket.stopping = set(NAMES)
        reader = BucketReader(Objects(bucket.address, bucket.environment))
        files = [
            InputFile("", f"{name}.md", member=name, kind="object", content="-", bucket=reader)
            for name in NAMES
        ]

        def interrupt() -> None:
            while len(bucket.read) < AT_ONCE:
                time.sleep(0.01)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt), unpacked(files, {".md"}):
            pytest.fail("objects that stop were read")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_the_run_and_is_no_fault_of_an_object(tmp_path: Path):
    class Large:
        address = "s3://bucket"

        async def fetch_async(self, name: str, path: Path) -> None:
            with Path("/dev/full").open("wb") as file:
                file.write(b"-")

    wanted = [(name, tmp_path / "unpacked" / name / "a.txt") for name in NAMES]
    with pytest.raises(DiskFullError, match=f"^{tmp_path}: "):
        BucketReader(cast("Objects", Large())).fetch(wanted)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client wait for less time than a slow object takes as a whole."""
    monkeypatch.setattr(objects, "PART_SECONDS", 1.0)
    monkeypatch.setattr(bucket_reader, "SILENT_SECONDS", 0.2)
    monkeypatch.setitem(objects.RETRIES, "retry_timeout", timedelta(seconds=0.1))


@pytest.mark.usefixtures("impatient")
def test_objects_that_come_slowly_are_read_however_long_they_take(tmp_path: Path):
    names = NAMES[:AT_ONCE]
    with cloud_bucket(Azure()) as bucket:
        for name in names:
            bucket.put(name, name[0] * (10 * PART))
        bucket.pause = 0.15
        reader = BucketReader(Objects(bucket.address, bucket.environment))
        assert reader.fetch([(name, tmp_path / name) for name in names]) == [None] * AT_ONCE
    assert [(tmp_path / name).read_text()[-1] for name in names] == [name[0] for name in names]


@pytest.mark.usefixtures("impatient")
def test_objects_that_break_off_halfway_are_no_silent_bucket(tmp_path: Path):
    stopping = set(NAMES[:AT_ONCE])
    with cloud_bucket(Azure()) as bucket:
        for name in NAMES:
            bucket.put(name, "x" * (2 * PART))
        bucket.stopping = stopping
        reader = BucketReader(Objects(bucket.address, bucket.environment))
        errors = reader.fetch([(name, tmp_path / name) for name in NAMES])
    broken = {name for name, error in zip(NAMES, errors, strict=True) if error}
    assert broken == stopping
    assert all("broke off" in str(error) for error in errors if error)
