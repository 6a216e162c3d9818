"""An incremental run is a fresh run whose expensive rows are already known: tables and stores come out equal."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.project import Project
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

ANCHOR = {"anchor.txt": "The Harbour of Quill\n\nMira Vale keeps the Harbour of Quill with Anselm Torr."}
TEXTS = [
    "Mira Vale built the Harrow Light. Anselm Torr ground its lens.",
    "MIRA VALE studied at the Brack Institute. Idra Senn founded the Brack Institute.",
    "Idra Senn wrote to Mira Vale. The Tollen Observatory belongs to the Brack Institute.",
    "Mira Vale built the Harrow Light. Governor Pell paid Anselm Torr.",
]
NAMES = ["a.txt", "b.txt", "notes/c.txt"]
CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([*TEXTS, None])), min_size=1, max_size=4
)  # None deletes


def _state(project: Project) -> Mapping[str, object]:
    """Every table's content hash, and every store row's."""
    tables = project.snapshots.manifest("index").tables
    with project.stores.vectors.writing() as writer:
        rows = {table: dict(writer.hashes(table)) for table in project.stores.vectors.tables}
    return {**{name: snapshot.sha256 for name, snapshot in tables.items()}, "rows": rows}


def _run(folder: ProjectFolder) -> Mapping[str, object]:
    with folder.open(*folder.endpoint_overrides) as project:
        project.run("index")
        return _state(project)


@given(changes=CHANGES)
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_incremental_equals_a_full_build(
    postgres_url: str, openai: OpenAIServer, changes: list[tuple[str, str | None]]
) -> None:
    with TemporaryDirectory() as parent:
        nightly = new_project(Path(parent) / "nightly", postgres_url, ANCHOR, openai)
        _run(nightly)
        corpus = dict(ANCHOR)
        for name, text in changes:
            if text is not None:
                corpus[name] = text
                nightly.write(name, text)
            elif corpus.pop(name, None):
                nightly.delete(name)
            state = _run(nightly)
        fresh = new_project(Path(parent) / "fresh", postgres_url, corpus, openai)
        assert _run(fresh) == state
