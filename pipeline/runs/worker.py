"""A worker of a Dask cluster: what it is, which files of a project it is sent, and how it opens
them.

Its own are its installation and its environment, where GRAPHMILL_SNAPSHOTS says where the snapshots
are. Of a project it is sent, through them, what a step is made of that asks no endpoint: the
workflows, the prompts that they name, the project's own verbs, and of the settings what these need.
No key, no address, no document.
"""

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from functools import cache as memoized
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pipeline.verbs  # noqa: F401  (registers them)
from pipeline.contract.definitions import folder_around
from pipeline.contract.fingerprint import library_versions
from pipeline.contract.kept_codes import sources_hash
from pipeline.contract.registry import REGISTRY
from pipeline.engine.tasks import Workplace
from pipeline.engine.workflow import Workflow
from pipeline.errors import SettingsError
from pipeline.runs.formats import FILE as FORMATS_FILE
from pipeline.runs.services import Services
from pipeline.settings.schema import EmbeddingSettings, Settings

if TYPE_CHECKING:
    from distributed import Worker

    from pipeline.snapshots.store import SnapshotStore

SNAPSHOTS = "GRAPHMILL_SNAPSHOTS"
SHIPPED_SETTINGS = "settings.json"
ALWAYS = ("distributed", "numpy", "pandas", "pyarrow", "xxhash")
"""Libraries that all tables are made with, and the one by which processes talk."""


def facts() -> dict[str, str]:
    """What this process is, as far as that can change what it makes."""
    package = folder_around(__name__)
    assert package
    libraries = {library for verb in REGISTRY.verbs.values() for library in verb.libraries}
    return {
        "graphmill's code": sources_hash(package)[:16],
        "Python": ".".join(map(str, sys.version_info[:2])),
        **library_versions((*ALWAYS, *sorted(libraries))),
    }


def ship(project: Services, workflow: Workflow) -> bytes:
    """The files of a project that workers need, as a zip; of equal files the same bytes."""
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
    if (project.root / FORMATS_FILE).is_file():
        yield FORMATS_FILE, (project.root / FORMATS_FILE).read_bytes()
    embedding = {"model", "dimensions", "batch_size"}
    kept: dict[str, Any] = {
        **settings.model_dump(
            mode="json",
            include={"workflow": True, "language": True, "input": {"steps"}, "serve": {"views"}},
        ),
        "verbs": list(own.values()),
        "models": {
            "chat": {
                name: {"model": chat.named_model} for name, chat in settings.models.chat.items()
            },
            "embedding": {
                name: {
                    "provider": _provider(model),
                    **model.model_dump(mode="json", include=embedding),
                }
                for name, model in settings.models.embedding.items()
            },
        },
    }
    yield SHIPPED_SETTINGS, json.dumps(kept, sort_keys=True).encode()


def _provider(model: EmbeddingSettings) -> str:
    """Return the provider as a worker gets it. A worker asks no endpoint, so it needs neither
    address nor function."""
    return model.kind if model.kind in ("builtin", "local") else "openai"


def dask_setup(worker: "Worker") -> None:
    """Called by Dask in a worker's process: ``dask worker --preload pipeline.runs.worker``."""
    from pipeline.engine.cluster import sit

    where = os.environ.get(SNAPSHOTS, "")
    if not where:
        raise SettingsError(
            f"{SNAPSHOTS}: not set; set it to where the run keeps its snapshots, or use 'graphmill"
            " -C PROJECT worker'"
        )
    folder = Path(worker.local_directory)  # which Dask makes, and removes
    own = Settings(snapshots=where if "://" in where else os.path.abspath(where))
    snapshots = Services(folder, own).snapshots
    sit(
        worker,
        facts(),
        snapshots,
        lambda shipped: _opened(shipped, Path(mkdtemp(dir=folder)), snapshots),
    )


def _opened(shipped: Path, folder: Path, snapshots: "SnapshotStore") -> Workplace:
    """What the files say, once they are in the folder, over the snapshots that this process
    sees."""
    with zipfile.ZipFile(shipped) as archive:
        archive.extractall(folder)
    settings = Settings.model_validate_json((folder / SHIPPED_SETTINGS).read_text(encoding="utf-8"))
    project = Services(folder, settings)
    return Workplace(memoized(project.workflow), project.resources, snapshots)
