"""python -m pipeline: the graphmill command."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
