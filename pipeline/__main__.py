"""The graphmill command; also python -m pipeline."""

import atexit
import gc
import sys

from pipeline.errors import INTERRUPTED

NEW_OBJECTS = 50_000
"""So many are made between two looks for garbage in cycles: importing makes a hundred thousand that
stay, and what takes memory is arrays, of which none is in a cycle. Python's own 700 cost a question
a tenth of its time."""


def main() -> None:
    """Ctrl-C ends it with a line and 130 also while it still imports."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(
        gc.freeze
    )  # what is left goes with the process: to look for garbage in it costs another tenth
    try:
        from pipeline.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("graphmill: interrupted before it began\n")
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
