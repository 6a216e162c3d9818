"""A word on the mode of questions, once in the life of a project whose settings name none: an earlier version searched
otherwise."""

from pathlib import Path

from pipeline.files import SETTINGS
from pipeline.settings.query_options import QuerySettings

TOLD_FILE = "data/told-default-mode"


def told_once(root: Path, query: QuerySettings) -> tuple[str, ...]:
    """Nothing where it cannot be noted that it was told: else every question would say it."""
    if query.names_mode:
        return ()
    try:
        (root / TOLD_FILE).touch(exist_ok=False)
    except OSError:
        return ()
    return (
        f"{SETTINGS} names no query.mode: it is '{query.mode}', with top_k {query.top_k} and chunk_top_k "
        f"{query.chunk_top_k}, and was 'hybrid' with 60 and 20; set query.mode, or query.preset: lightrag for all that "
        "was. This is said once",
    )
