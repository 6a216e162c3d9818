"""Make a new project from the files that come with the package, for ``graphmill init``."""

import re
from collections.abc import Container
from importlib.resources import files
from pathlib import Path

from pipeline.errors import SettingsError, UsageError
from pipeline.files import SETTINGS
from pipeline.settings.schedules import as_schedule, find_command, find_unpriced

PACKAGE = Path(str(files("pipeline")))
PACKAGED = PACKAGE / "templates"
CLONE = PACKAGE.parent
FIRST_WORKFLOW = "fast"
"""The workflow of a new project. It needs no key of a model."""
LANGUAGES = {"de": "Deutsch", "zh": "中文"}
"""The languages that have prompts of their own, each with its name in the settings."""
NAMES_LANGUAGE = re.compile(r"^language: \S+ *", re.MULTILINE)
NAMES_WORKFLOW = re.compile(r"^workflow: \S+ *", re.MULTILINE)

ENV_EXAMPLE = """\
# Copy to .env and fill in what you use. The real environment wins over this file.
OPENAI_API_KEY=
# Any server that speaks the OpenAI protocol, for example Ollama: http://localhost:11434/v1
OPENAI_BASE_URL=
NEO4J_PASSWORD=
# The Neo4j from which "graphmill import cypher" reads.
CYPHER_PASSWORD=
# The key by which others may ask "graphmill serve": openssl rand -base64 32
GRAPHMILL_API_KEY=
"""
GITIGNORE = ".env\ndata/*\n!data/input/\n!data/questions.jsonl\n"
SCRIPT = ".sh"
NIGHTLY = "nightly"
ONTOLOGY = "ontology.yaml"
SAMPLE_ONTOLOGY = f"examples/ontology/{ONTOLOGY}"
SAMPLE_QUESTIONS = "data/questions.jsonl"


def shipped() -> Path:
    """Return the folder with the shipped settings.yaml, workflows, prompts, docs and examples.

    It lies in the installed package. In a clone of the repository it is the clone's root.
    """
    return PACKAGED if PACKAGED.is_dir() else CLONE


def init_project(
    folder: Path,
    workflow: str = FIRST_WORKFLOW,
    sample: bool = False,
    nightly: bool = False,
    ontology: bool = False,
    language: str = "",
) -> tuple[list[str], list[str]]:
    """Write settings.yaml, workflows/, prompts/, data/input/, .env.example and .gitignore.

    settings.yaml of the new project names ``workflow``. ``sample`` adds documents and questions
    about them, ``nightly`` the files of docs/nightly.md with real paths, ``ontology`` the file
    ontology.yaml: that of the sample, or else one of comments.
    ``language`` is one of LANGUAGES, whose prompts are written in place of the English ones, or "".

    Returns the names of the files written, and of those that existed and are left as they are.
    Raises UsageError, with nothing written, for a workflow or a language that does not come with
    the package.
    Also raises it for a sample in a folder that has other documents.
    """
    if language and language not in LANGUAGES:
        have = ", ".join(LANGUAGES)
        raise UsageError(f"init: no prompts in '{language}' come with graphmill; have: {have}")
    sources = {
        name: source.read_text(encoding="utf-8")
        for name, source in _templates(sample, language).items()
    }
    if nightly:
        # Without a command that a schedule could start, nothing is written.
        find_command()
    if f"workflows/{workflow}.yaml" not in sources:
        have = ", ".join(
            sorted(Path(name).stem for name in sources if name.startswith("workflows/"))
        )
        raise UsageError(f"init: no workflow '{workflow}' comes with graphmill; have: {have}")
    sources[SETTINGS] = NAMES_WORKFLOW.sub(
        lambda line: f"workflow: {workflow:<20}", sources[SETTINGS]
    )
    if ontology:
        source = shipped() / SAMPLE_ONTOLOGY if sample else PACKAGE / "ontology" / "commented.yaml"
        sources[ONTOLOGY] = source.read_text(encoding="utf-8")
    if language:
        sources[SETTINGS] = NAMES_LANGUAGE.sub(
            lambda line: f"language: {LANGUAGES[language]:<20}", sources[SETTINGS]
        )
    sources |= {".env.example": ENV_EXAMPLE, ".gitignore": GITIGNORE}
    if sample:
        _check_no_documents_but(sources, folder)
    (folder / "data" / "input").mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for name, content in sources.items():
        (written if _write_new(folder / name, content) else kept).append(name)
    if nightly:
        # The settings that are there now say whether a limit of costs can hold.
        unpriced = _find_unpriced(folder)
        for source in schedule_examples():
            name, text = f"{NIGHTLY}/{source.name}", source.read_text(encoding="utf-8")
            schedule = as_schedule(source.name, text, folder, unpriced)
            (written if _write_new(folder / name, schedule) else kept).append(name)
    return sorted(written), sorted(kept)


def schedule_examples() -> list[Path]:
    """Return the files of a schedule that come with the package."""
    return sorted((shipped() / "examples" / "nightly").glob("*"))


def _find_unpriced(folder: Path) -> str:
    from pipeline.settings.file import read_settings

    try:
        return find_unpriced(read_settings(folder))
    except SettingsError:
        # With a limit of costs a run spends nothing that it could not limit.
        return ""


def _write_new(path: Path, content: str) -> bool:
    """Write a file, and return whether it is new. A file that is there is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        return False
    if path.suffix == SCRIPT:
        path.chmod(path.stat().st_mode | 0o111)
    return True


def _check_no_documents_but(sample: Container[str], folder: Path) -> None:
    """Raise UsageError if the input folder has a document that is not in the sample."""
    for path in sorted((folder / "data" / "input").rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name not in sample:
            raise UsageError(
                f"init: {path} is a document of your own; make the sample in another folder"
            )


def _templates(sample: bool, language: str) -> dict[str, Path]:
    """Return the files to copy, each by its path in the project."""
    root = shipped()
    sources = [root / SETTINGS, *root.glob("workflows/*.yaml"), *root.glob("prompts/*.md")]
    if sample:
        sources += [*filter(Path.is_file, root.glob("data/input/**/*")), root / SAMPLE_QUESTIONS]
    found = {source.relative_to(root).as_posix(): source for source in sources}
    if language:
        own_prompts = (root / "prompts" / language).glob("*.md")
        found |= {f"prompts/{prompt.name}": prompt for prompt in own_prompts}
    return found
