"""Read the objects of a bucket that is an input, and stop asking a bucket that has gone silent."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import ObjectStoreError
from pipeline.event_loop import event_loop
from pipeline.files import full_disk_named
from pipeline.snapshots.objects import AT_ONCE, RETRY_SECONDS, Objects

SILENT_SECONDS = RETRY_SECONDS / 2
"""A failure after this time is one of a bucket that did not answer, if no part of the object came.
An object that the key may not read is refused at once, and says nothing about the others."""
SILENT_IN_A_ROW = 3
"""The number of objects after which the others are not tried. Each costs RETRY_SECONDS, so a large
bucket that goes silent would hold a run for days."""
_ENDING_SECONDS = 5.0
"""The longest time to wait for requests that were cancelled. They end at once, unless a disk
hangs."""


class _SilentError(OSError):
    """The bucket did not answer for an object."""


@dataclass
class BucketReader:
    """A reader of the objects of one input, for one listing of it."""

    objects: Objects
    silent: int = field(default=0, init=False)
    """The number of objects, up to the last one that was judged, that got no answer in a row."""

    def read(self, name: str) -> bytes:
        """Return the content of an object. Raises OSError where it cannot be read."""
        if self.silent >= SILENT_IN_A_ROW:
            raise self._not_tried()
        try:
            with _timed():
                content, _ = self.objects.read(name)
        except OSError as error:
            self._judge(error)
            raise
        self._judge(None)
        return content

    def fetch(self, wanted: Sequence[tuple[str, Path]]) -> list[OSError | None]:
        """Write objects to files in folders of `unpacked`; return for each why it could not
        be read, or None.

        Up to AT_ONCE are read at the same time, and only a part of each is in memory. Raises
        DiskFullError.
        """
        # After Ctrl-C nothing waits for an answer: coroutines can be cancelled, and requests in
        # threads cannot.
        ended = threading.Event()
        fetching = asyncio.run_coroutine_threadsafe(self._fetch_all(wanted, ended), event_loop())
        try:
            return fetching.result()
        finally:
            # The caller deletes the folder next, in which none of them may write any more.
            if fetching.cancel():
                ended.wait(_ENDING_SECONDS)

    async def _fetch_all(
        self, wanted: Sequence[tuple[str, Path]], ended: threading.Event
    ) -> list[OSError | None]:
        """Fetch the objects, and judge them in their order, whichever ends first.

        So the verdict on the bucket does not depend on which of them are under way together.
        ``ended`` is set when none of them is under way any more.
        """
        waiting = deque(wanted)
        under_way: deque[asyncio.Task[OSError | None]] = deque()
        found: list[OSError | None] = []
        try:
            while waiting or under_way:
                # Behind an object without an answer, no other begins until those under way are
                # judged. A silent bucket costs the time of one object then, not of several.
                while waiting and len(under_way) < AT_ONCE and not (self.silent and under_way):
                    if self.silent >= SILENT_IN_A_ROW:
                        return found + [self._not_tried() for _ in waiting]
                    name, path = waiting.popleft()
                    under_way.append(asyncio.create_task(self._fetch_one(name, path)))
                outcome = await under_way[0]
                under_way.popleft()
                self._judge(outcome)
                found.append(outcome)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            ended.set()
        return found

    async def _fetch_one(self, name: str, path: Path) -> OSError | None:
        try:
            with full_disk_named(path.parents[2]), _timed():
                await self.objects.fetch_async(name, path)
        except _SilentError as error:
            # A bucket that gave a part of the object is slow, or broke off, but is not silent.
            return OSError(str(error)) if path.exists() and path.stat().st_size else error
        except OSError as error:
            return error
        return None

    def _judge(self, outcome: OSError | None) -> None:
        self.silent = self.silent + 1 if isinstance(outcome, _SilentError) else 0

    def _not_tried(self) -> OSError:
        return OSError(
            f"{self.objects.address}: it did not answer for {SILENT_IN_A_ROW} objects in a row,"
            " so the others were not tried; the next run reads them"
        )


@contextmanager
def _timed() -> Iterator[None]:
    """Turn the error of an object store into an OSError that says whether the store was silent."""
    began = time.monotonic()
    try:
        yield
    except FileNotFoundError as error:
        gone = "gone since the bucket was listed; the next run lists it again"
        raise OSError(gone) from error
    except ObjectStoreError as error:
        did_not_answer = time.monotonic() - began >= SILENT_SECONDS
        kind = _SilentError if did_not_answer else OSError
        raise kind(str(error)) from error
