"""A worker of a Dask cluster: its properties, the project files that it receives, and how it opens
them.

A worker has its own installation and environment; GRAPHMILL_SNAPSHOTS there says where the
snapshots are. Through the snapshots it receives the parts of a project that a step without an
endpoint needs: the workflows, the prompts that they name, the project's own verbs, its ontology,
and the settings that these use. It receives no key, no address and no document.
"""

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache as memoized
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pipeline.verbs  # noqa: F401  (registers them)
from pipeline.contract.definitions import folder_around
from pipeline.contract.fingerprint import library_versions
from pipeline.contract.kept_codes import sources_hash
from pipeline.contract.registry import REGISTRY
from pipeline.corrections.file import FILE as CORRECTIONS_FILE
from pipeline.corrections.own_documents import has_own_statements
from pipeline.documents.own_tables.columns import ENTITIES, list_id_properties
from pipeline.documents.own_tables.columns import FILE as TABLES_FILE
from pipeline.documents.own_tables.columns import FOLDER as TABLES_FOLDER
from pipeline.engine.tasks import Workplace
from pipeline.engine.workflow import Workflow
from pipeline.errors import SettingsError
from pipeline.ontology.read import FILE as ONTOLOGY_FILE
from pipeline.ontology.vocabulary import FILE as VOCABULARY_FILE
from pipeline.runs.formats import FILE as FORMATS_FILE
from pipeline.runs.input_steps import ADD_DOCUMENTS
from pipeline.runs.services import Services
from pipeline.runs.table_steps import has_tables
from pipeline.settings.schema import EmbeddingSettings, InputSettings, Settings

if TYPE_CHECKING:
    from distributed import Worker

    from pipeline.snapshots.store import SnapshotStore

SNAPSHOTS = "GRAPHMILL_SNAPSHOTS"
SHIPPED_SETTINGS = "settings.json"
ALWAYS = ("distributed", "numpy", "pandas", "pyarrow", "xxhash")
"""Libraries that every table depends on, and the one by which processes communicate."""


def facts() -> dict[str, str]:
    """Return the versions of everything on which the results of this process depend."""
    package = folder_around(__name__)
    assert package
    libraries = {library for verb in REGISTRY.verbs.values() for library in verb.libraries}
    return {
        "graphmill's code": sources_hash(package)[:16],
        "Python": ".".join(map(str, sys.version_info[:2])),
        **library_versions((*ALWAYS, *sorted(libraries))),
    }


def ship(project: Services, workflow: Workflow) -> bytes:
    """Return the files of a project that workers need, as a zip; equal files give equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, written in sorted(_files(project, workflow)):
            archive.writestr(zipfile.ZipInfo(name), written)
    return content.getvalue()


def _files(project: Services, workflow: Workflow) -> Iterator[tuple[str, bytes]]:
    settings = project.settings
    own = {name: f"verbs/{number}.py" for number, name in enumerate(settings.verbs)}
    for name, shipped in own.items():
        yield shipped, (project.root / name).read_bytes()
    for path in (project.root / "workflows").glob("*.yaml"):
        yield f"workflows/{path.name}", path.read_bytes()
    for prompt in {prompt for step in workflow.steps for prompt in step.prompts.values()}:
        path = project.root / "prompts" / f"{prompt}.md"
        if path.is_file():
            yield f"prompts/{path.name}", path.read_bytes()
    for name in (FORMATS_FILE, ONTOLOGY_FILE, VOCABULARY_FILE):
        if (project.root / name).is_file():
            yield name, (project.root / name).read_bytes()
    if (project.root / CORRECTIONS_FILE).exists():
        # A worker reads no correction, for it may quote a document. It has the steps of a project
        # that has some.
        yield CORRECTIONS_FILE, b""
    corrections = project.root / CORRECTIONS_FILE
    if has_tables(project.root / TABLES_FOLDER) or has_own_statements(corrections):
        # A worker reads no table. It has the steps of a project that has tables.
        properties = list_id_properties(project.root / TABLES_FOLDER)
        yield f"{TABLES_FOLDER}/{TABLES_FILE}", _name_master_data(properties)
        yield f"{TABLES_FOLDER}/shipped.csv", b""
    if any(step.verb.name == ADD_DOCUMENTS for step in workflow.steps):
        # A worker reads no document. It has the steps of a project whose files join an index.
        yield f"{InputSettings().path}/shipped.txt", b""
    chats = {name: {"model": chat.named_model} for name, chat in settings.models.chat.items()}
    embeddings: dict[str, Any] = {}
    for name, model in settings.models.embedding.items():
        fields = model.model_dump(mode="json", include={"model", "dimensions", "batch_size"})
        embeddings[name] = {"provider": _provider(model), **fields}
    kept = settings.model_dump(
        mode="json",
        include={
            "workflow": True,
            "language": True,
            "input": {"steps"},
            "graphrag": {"files"},
            "lightrag": {"files"},
            "serve": {"views"},
        },
    )
    kept["verbs"] = list(own.values())
    kept["models"] = {"chat": chats, "embedding": embeddings}
    yield SHIPPED_SETTINGS, json.dumps(kept, sort_keys=True).encode()


def _name_master_data(id_properties: Sequence[str]) -> bytes:
    """Return a tables.yaml with a table of master data for each of the properties of ids."""
    tables: dict[str, Any] = {}
    for number, name in enumerate(id_properties):
        tables[f"{number}.csv"] = {"kind": ENTITIES, "id_property": name}
    return json.dumps(tables).encode() if tables else b""


def _provider(model: EmbeddingSettings) -> str:
    """Return the provider as a worker gets it. A worker asks no endpoint, so it needs neither
    address nor function."""
    return model.kind if model.kind in ("builtin", "local") else "openai"


def dask_setup(worker: "Worker") -> None:
    """Set up a worker's process; Dask calls it for ``dask worker --preload
    pipeline.runs.worker``."""
    from pipeline.engine.cluster_worker import set_up_worker

    where = os.environ.get(SNAPSHOTS, "")
    if not where:
        raise SettingsError(
            f"{SNAPSHOTS}: not set; set it to where the run keeps its snapshots, or use 'graphmill"
            " -C PROJECT worker'"
        )
    # Dask creates this folder, and removes it.
    folder = Path(worker.local_directory)
    own = Settings(snapshots=where if "://" in where else os.path.abspath(where))
    snapshots = Services(folder, own).snapshots
    set_up_worker(
        worker,
        facts(),
        snapshots,
        lambda shipped: _open_shipped(shipped, Path(mkdtemp(dir=folder)), snapshots),
    )


def _open_shipped(shipped: Path, folder: Path, snapshots: "SnapshotStore") -> Workplace:
    """Unpack the files into the folder and open them as a project over the snapshots of this
    process."""
    with zipfile.ZipFile(shipped) as archive:
        archive.extractall(folder)
    settings = Settings.model_validate_json((folder / SHIPPED_SETTINGS).read_text(encoding="utf-8"))
    project = Services(folder, settings)
    return Workplace(memoized(project.workflow), project.resources, snapshots)
