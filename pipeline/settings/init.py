"""graphmill init: a project of one's own, and what comes with the package to make it of."""

import re
from collections.abc import Container
from importlib.resources import files
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.files import SETTINGS

PACKAGE = Path(str(files("pipeline")))
PACKAGED = PACKAGE / "templates"
CLONE = PACKAGE.parent
FIRST_WORKFLOW = "fast"
"""It needs no key."""
NAMES_WORKFLOW = re.compile(r"^workflow: \S+ *", re.MULTILINE)

ENV_EXAMPLE = """\
# Copy to .env and fill in what you use. The real environment wins over this file.
OPENAI_API_KEY=
# Any server that speaks the OpenAI protocol, for example Ollama: http://localhost:11434/v1
OPENAI_BASE_URL=
NEO4J_PASSWORD=
"""
GITIGNORE = ".env\ndata/*\n!data/input/\n!data/questions.jsonl\n"
SCRIPT = ".sh"
SAMPLE_QUESTIONS = "data/questions.jsonl"


def shipped() -> Path:
    """Where what comes with graphmill is, in the folders that its repository has it in: the
    installed package, or the clone it is developed in."""
    return PACKAGED if PACKAGED.is_dir() else CLONE


def init_project(
    folder: Path, workflow: str = FIRST_WORKFLOW, sample: bool = False, nightly: bool = False
) -> tuple[list[str], list[str]]:
    """Write settings.yaml, workflows/, prompts/, data/input/, .env.example and .gitignore into the
    folder. ``workflow`` is the one that settings.yaml names; ``sample``: with documents, and
    questions about them; ``nightly``: with the files of docs/nightly.md.

    Returns the names written and those that were there and are kept as they are. Raises UsageError,
    with nothing written, for a workflow that does not come with the package, and for a sample among
    documents of one's own.
    """
    sources = {
        name: source.read_text(encoding="utf-8")
        for name, source in _templates(sample, nightly).items()
    }
    if f"workflows/{workflow}.yaml" not in sources:
        have = ", ".join(
            sorted(Path(name).stem for name in sources if name.startswith("workflows/"))
        )
        raise UsageError(f"init: no workflow '{workflow}' comes with graphmill; have: {have}")
    sources[SETTINGS] = NAMES_WORKFLOW.sub(
        lambda line: f"workflow: {workflow:<20}", sources[SETTINGS]
    )
    sources |= {".env.example": ENV_EXAMPLE, ".gitignore": GITIGNORE}
    if sample:
        _no_documents_but(sources, folder)
    (folder / "data" / "input").mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for name, content in sorted(sources.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            kept.append(name)
        else:
            written.append(name)
            if path.suffix == SCRIPT:
                path.chmod(path.stat().st_mode | 0o111)
    return written, kept


def _no_documents_but(sample: Container[str], folder: Path) -> None:
    for path in sorted((folder / "data" / "input").rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name not in sample:
            raise UsageError(
                f"init: {path} is a document of your own; make the sample in another folder"
            )


def _templates(sample: bool, nightly: bool) -> dict[str, Path]:
    """Name in the project -> file."""
    root = shipped()
    sources = [root / SETTINGS, *root.glob("workflows/*.yaml"), *root.glob("prompts/*.md")]
    if sample:
        sources += [*filter(Path.is_file, root.glob("data/input/**/*")), root / SAMPLE_QUESTIONS]
    found = {source.relative_to(root).as_posix(): source for source in sources}
    if nightly:
        found |= {f"nightly/{source.name}": source for source in root.glob("examples/nightly/*")}
    return found
