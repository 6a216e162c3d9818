"""Read the objects of a bucket that is an input, and stop asking a bucket that has gone silent."""

import time
from dataclasses import dataclass, field

from pipeline.errors import ObjectStoreError
from pipeline.snapshots.objects import RETRY_SECONDS, Objects

SILENT_SECONDS = RETRY_SECONDS / 2
"""A failure after this time is one of a bucket that did not answer. An object that the key may not
read is refused at once, and says nothing about the others."""
SILENT_IN_A_ROW = 3
"""The number of objects after which the others are not tried. Each costs RETRY_SECONDS, so a large
bucket that goes silent would hold a run for days."""


@dataclass
class BucketReader:
    """A reader of the objects of one input, for one listing of it."""

    objects: Objects
    silent: int = field(default=0, init=False)

    def read(self, name: str) -> bytes:
        """Return the content of an object. Raises OSError where it cannot be read."""
        if self.silent >= SILENT_IN_A_ROW:
            raise OSError(
                f"{self.objects.address}: it did not answer for {SILENT_IN_A_ROW} objects in a row,"
                " so the others were not tried; the next run reads them"
            )
        began = time.monotonic()
        try:
            content, _ = self.objects.read(name)
        except ObjectStoreError as error:
            did_not_answer = time.monotonic() - began >= SILENT_SECONDS
            self.silent = self.silent + 1 if did_not_answer else 0
            raise OSError(str(error)) from error
        self.silent = 0
        return content
