"""Workflows with their prompts and models, the input folder, and whether git would publish the keys."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.doctor.finding import Finding
from pipeline.documents.files import input_files
from pipeline.engine.workflow import Step, Workflow
from pipeline.errors import SettingsError, counted
from pipeline.models.base import ChatModel
from pipeline.settings import ModelsSettings, Settings
from pipeline.verbs.load_documents import NO_INPUT

if TYPE_CHECKING:
    from pipeline.doctor.examine import Examined

GIT_SECONDS = 10


def examine_workflow(project: "Examined", name: str, good: list[Workflow]) -> Iterator[Finding]:
    """Its file, its prompts, the models it names; one that is sound is added to ``good``."""
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
            raise SettingsError(
                f"workflow '{workflow.name}': step '{step.id}' names the {kind} model '{name}', which is not in "
                f"settings.yaml (have: {', '.join(sorted(have)) or 'none'}); add it to models.{kind}"
            )


def examine_input(root: Path, settings: Settings) -> Iterator[Finding]:
    pattern = settings.input.file_pattern
    files = input_files(str(root / settings.input.path), pattern)
    readable = [file for file in files if not file.fault]
    faulty = [file for file in files if file.fault and file.fault[0] not in NO_INPUT]
    fact = f"{counted(len(readable), 'file')} for {pattern} below {settings.input.path}"
    if faulty:
        shown = f"{faulty[0].name}: {faulty[0].fault[1] if faulty[0].fault else ''}"
        yield Finding("settings", "input", "warning", f"{fact}, {len(faulty):,} cannot be read ({shown})", "mend them")
    elif readable:
        yield Finding("settings", "input", "ok", fact)
    else:
        yield Finding("settings", "input", "warning", fact, "put documents there, or correct input in settings.yaml")


def examine_env_file(root: Path) -> Iterator[Finding]:
    """Nothing to say outside a git repository."""
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return
    git = shutil.which("git")
    if git is None:
        yield Finding("settings", ".env", "warning", "git is not on the PATH", "see to it that .gitignore names .env")
        return
    command = [git, "-C", str(root), "check-ignore", "--quiet", ".env"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)  # noqa: S603
    if asked.returncode == 0:
        yield Finding("settings", ".env", "ok", "ignored by git")
    elif asked.returncode == 1:
        fact = "git does not ignore .env, where keys are kept"
        yield Finding("settings", ".env", "warning", fact, "add .env to .gitignore; git rm --cached .env if it is in")
    else:
        fact = f"git cannot say whether it ignores .env ({' '.join(asked.stderr.split()) or asked.returncode})"
        yield Finding("settings", ".env", "warning", fact, "see to it that .gitignore names .env")
