"""Examines the project's folder: workflows, prompts and models, the input, keys that git would
publish, and disk space."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.finding import Finding
from pipeline.documents.files import list_files
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import SettingsError, counted, in_words
from pipeline.models.base import ChatModel
from pipeline.runs.services import MIRROR_FOLDER, Services
from pipeline.settings.schema import ModelsSettings, Settings
from pipeline.verbs.load_documents import NO_INPUT

GIT_SECONDS = 10


def examine_workflow(project: Services, name: str, good: list[Workflow]) -> Iterator[Finding]:
    """Examine the file of a workflow, its prompts and the models it names; add a valid one to
    ``good``."""
    workflow = project.workflow(name)
    resources = project.resources
    for step in workflow.steps:
        resources.prompts_of(step)
        _check_models(workflow, step, project.settings.models)
    good.append(workflow)
    chosen = ", the one that runs when none is named" if name == project.settings.workflow else ""
    yield Finding("settings", f"workflow {name}", "ok", f"{len(workflow.steps)} steps{chosen}")


def _check_models(workflow: Workflow, step: Step, models: ModelsSettings) -> None:
    for role, name in step.models.items():
        kind = "chat" if step.verb.roles[role] is ChatModel else "embedding"
        have = models.chat if kind == "chat" else models.embedding
        if name not in have:
            known = ", ".join(sorted(have)) or "none"
            raise SettingsError(
                f"workflow '{workflow.name}': step '{step.id}' names the {kind} model '{name}',"
                f" which is not in settings.yaml (have: {known}); add it to models.{kind}"
            )


def examine_input(root: Path, settings: Settings) -> Iterator[Finding]:
    pattern = settings.input.file_pattern
    files = list_files(str(root / settings.input.path), pattern).files
    readable = [file for file in files if not file.fault]
    faulty = [file for file in files if file.fault and file.fault[0] not in NO_INPUT]
    fact = f"{counted(len(readable), 'file')} for {pattern} below {settings.input.path}"
    if faulty:
        shown = f"{faulty[0].name}: {faulty[0].fault[1] if faulty[0].fault else ''}"
        yield Finding(
            "settings",
            "input",
            "warning",
            f"{fact}, {len(faulty):,} cannot be read ({shown})",
            "mend them",
        )
    elif readable or settings.inputs:
        yield Finding("settings", "input", "ok", fact)
    else:
        yield Finding(
            "settings",
            "input",
            "warning",
            fact,
            "put documents there, or correct input in settings.yaml",
        )


def examine_env_file(root: Path) -> Iterator[Finding]:
    """Examine whether git ignores the file of keys; yield nothing outside a git repository."""
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return
    git = shutil.which("git")
    if git is None:
        yield Finding(
            "settings",
            ".env",
            "warning",
            "git is not on the PATH",
            "see to it that .gitignore names .env",
        )
        return
    command = [git, "-C", str(root), "check-ignore", "--quiet", ".env"]
    asked = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False
    )
    if asked.returncode == 0:
        yield Finding("settings", ".env", "ok", "ignored by git")
    elif asked.returncode == 1:
        fact = "git does not ignore .env, where keys are kept"
        yield Finding(
            "settings",
            ".env",
            "warning",
            fact,
            "add .env to .gitignore; git rm --cached .env if it is in",
        )
    else:
        reason = " ".join(asked.stderr.split()) or asked.returncode
        fact = f"git cannot say whether it ignores .env ({reason})"
        yield Finding("settings", ".env", "warning", fact, "see to it that .gitignore names .env")


LEAST_FREE = 10**9


def examine_space(root: Path, settings: Settings) -> Iterator[Finding]:
    """Examine the free disk space.

    A load and a new set of snapshots need about as much space again as the snapshots take.
    """
    snapshots = root / (MIRROR_FOLDER if settings.snapshots_are_remote else settings.snapshots)
    for folder in dict.fromkeys((root / "data", snapshots)):
        place = _nearest(folder)
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            fact = f"{place} cannot be written ({in_words(error)})"
            yield Finding(
                "space",
                folder.name,
                "failed",
                fact,
                "give the user who runs graphmill the right to write",
            )
            return
    free = shutil.disk_usage(_nearest(snapshots)).free
    used = sum(path.stat().st_size for path in snapshots.rglob("*.parquet"))
    fact = f"{free / 1e9:.1f} GB free, snapshots take {used / 1e9:.2f} GB"
    if free < max(LEAST_FREE, 2 * used):
        action = "make room: 1 GB and twice the snapshots should be free"
        yield Finding("space", "data", "warning", fact, action)
    else:
        yield Finding("space", "data", "ok", fact)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest folder above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())
