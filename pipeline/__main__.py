"""Entry point of the ``graphmill`` command and of ``python -m pipeline``."""

import atexit
import gc
import sys

from pipeline.errors import INTERRUPTED

NEW_OBJECTS = 50_000
"""Number of new objects between two runs of the garbage collector. Imports create a hundred
thousand objects that stay. Large objects are arrays, and no array is in a reference cycle. Python's
default of 700 costs a query a tenth of its time."""


def main() -> None:
    """Run the command. Ctrl-C ends it with one line and exit code 130, even during its imports."""
    gc.set_threshold(NEW_OBJECTS)
    # At exit the process frees everything; collecting garbage first would cost another tenth.
    atexit.register(gc.freeze)
    try:
        from pipeline.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("graphmill: interrupted before it began\n")
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
