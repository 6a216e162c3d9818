"""The graphmill command; also python -m pipeline."""

import sys

from pipeline.errors import INTERRUPTED


def main() -> None:
    """Ctrl-C ends it with a line and 130 also while it still imports."""
    try:
        from pipeline.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("graphmill: interrupted before it began\n")
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
