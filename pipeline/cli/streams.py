"""stdout and stderr that outlive who reads them: a pipe that closed, a logger that died, a terminal that hung up."""

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.ECONNRESET})
"""Nobody reads any more. That a disk is full is another thing: a result that cannot be written is told."""


class Lasting(io.FileIO):
    """Writes to a descriptor, for as long as somebody reads it; afterwards what is written is lost. One that does not
    block, as another process may have set it, is waited for. ``whatever``: no fault at all ends the writer's work, for
    what it says is beside the point of it, and is lost where it would have to wait."""

    def __init__(self, descriptor: int, whatever: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.whatever = whatever

    def write(self, content: Any, /) -> int:
        try:
            while (written := super().write(content)) is None:
                if self.whatever:
                    break
                select.select([], [self], [])
        except OSError as error:
            if not self.whatever and error.errno not in GONE:
                raise
            written = None
        return memoryview(content).nbytes if written is None else written


def outlive_readers() -> None:
    """From here on stdout and stderr are ``Lasting``. Those that are closed lead nowhere, so that no file that is
    opened later takes their place and is written into."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
    sys.stdout = _lasting(sys.stdout, 1, whatever=False)
    sys.stderr = _lasting(sys.stderr, 2, whatever=True)


def _lasting(stream: TextIO | None, descriptor: int, whatever: bool) -> TextIO:
    made = io.BufferedWriter(Lasting(descriptor, whatever))
    lines = whatever or os.isatty(descriptor)
    if stream is None:
        return io.TextIOWrapper(made, "utf-8", "replace", line_buffering=lines)
    stream.flush()
    return io.TextIOWrapper(made, stream.encoding, stream.errors, line_buffering=lines)


@contextmanager
def outlive_terminal() -> Iterator[None]:
    """The terminal may be closed meanwhile: the work goes on, as with nohup."""
    try:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    except ValueError:  # in another thread than the main one, where signals are nobody's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
