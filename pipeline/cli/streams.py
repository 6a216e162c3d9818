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

PATIENCE = 5.0
"""Seconds that a run's words wait for who has stopped reading: a pipe nobody empties, a terminal held by Ctrl-S."""
GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.ECONNRESET})
"""Nobody reads any more. That a disk is full is another thing: a result that cannot be written is told."""


class CutOffError(OSError):
    """What is said on stdout can be written no further, as on a full disk."""


class Lasting(io.FileIO):
    """Writes to a descriptor, for as long as somebody reads it; afterwards what is written is lost. One that does not
    block, as another process may have set it, is waited for. ``whatever``: no fault at all ends the writer's work, nor
    does it wait long, for what it says is beside the point of it: where nobody has read for ``PATIENCE``, all is lost
    until somebody does."""

    def __init__(self, descriptor: int, whatever: bool) -> None:
        own = _never_waiting(descriptor) if whatever else None
        super().__init__(descriptor if own is None else own, "w", closefd=own is not None)
        self.whatever, self.patience = whatever, PATIENCE

    def write(self, content: Any, /) -> int:
        try:
            if self.whatever and not self._is_read():
                return memoryview(content).nbytes
            content = memoryview(content)[: select.PIPE_BUF] if self.whatever else content  # there is room for that
            while (written := super().write(content)) is None:
                if self.whatever:
                    break
                select.select([], [self], [])
        except OSError as error:
            if not self.whatever and error.errno not in GONE:
                raise CutOffError(error.errno, error.strerror) from error
            written = None
        return memoryview(content).nbytes if written is None else written

    def _is_read(self) -> bool:
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        there = bool(poll.poll(self.patience * 1000))
        self.patience = PATIENCE if there else 0.0
        return there


def _never_waiting(descriptor: int) -> int | None:
    """The terminal once more, so that a write takes what there is room for; the descriptor's own mode is shared with
    other processes. None for what is no terminal, or cannot be opened."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


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
