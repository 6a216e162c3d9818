"""Objects of a bucket that is an input: one that goes silent is not asked for each of them."""

from typing import cast

import pytest

from pipeline.documents import bucket_reader
from pipeline.documents.bucket_reader import SILENT_IN_A_ROW, SILENT_SECONDS, BucketReader
from pipeline.errors import ObjectStoreError
from pipeline.snapshots.objects import Objects


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Answers:
    """A bucket whose objects are read after their seconds; those of ``failing`` fail then."""

    address = "s3://bucket"

    def __init__(self, clock: Clock, seconds: float, failing: set[str]) -> None:
        self.clock, self.seconds, self.failing = clock, seconds, failing
        self.asked: list[str] = []

    def read(self, name: str) -> tuple[bytes, str]:
        self.asked.append(name)
        if name not in self.failing:
            return name.encode(), ""
        self.clock.now += self.seconds
        raise ObjectStoreError(f"{name}: no answer")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(bucket_reader, "time", clock)
    return clock


def read_all(answers: Answers, names: list[str]) -> list[str]:
    reader = BucketReader(cast("Objects", answers))
    found: list[str] = []
    for name in names:
        try:
            found.append(reader.read(name).decode())
        except OSError as error:
            found.append(str(error))
    return found


def test_after_some_silent_objects_in_a_row_the_others_are_not_tried(clock: Clock):
    names = [str(number) for number in range(10)]
    answers = Answers(clock, SILENT_SECONDS, set(names[1:]))
    found = read_all(answers, names)
    assert answers.asked == names[: 1 + SILENT_IN_A_ROW]
    assert found[0] == "0"
    assert found[1] == "1: no answer"
    assert all("next run reads them" in message for message in found[1 + SILENT_IN_A_ROW :])


def test_objects_that_are_refused_at_once_hold_up_no_other(clock: Clock):
    names = [str(number) for number in range(10)]
    answers = Answers(clock, 0.1, set(names[:9]))
    assert read_all(answers, names)[-1] == "9"


def test_a_silent_object_among_others_stops_none_of_them(clock: Clock):
    names = [str(number) for number in range(10)]
    answers = Answers(clock, SILENT_SECONDS, set(names[::2]))
    assert read_all(answers, names)[1::2] == names[1::2]
    assert answers.asked == names
