"""Where tests keep an embedded PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.stores.embedded import stop_embedded


@contextmanager
def server_folder() -> Iterator[Path]:
    """Not below pytest's own folder: under root the server is another user, and any other pytest that starts
    meanwhile shuts that folder to others."""
    with TemporaryDirectory(prefix="graphmill-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "new" / "postgres"
        yield path
        stop_embedded(path)
