"""The bundled corpus after three nights: its graph has communities, and the view of the nights
something to compare."""

from pathlib import Path

from tests.projects import ProjectFolder, new_project

CORPUS = Path(__file__).parents[3] / "data" / "input"
WORKFLOW = "sample"
"""fast, and communities, for which no chat model is needed either."""
LATER = {
    "tide-engine-museum-guide.md",
    "treaty-of-quill-ferry.txt",
    "whitemouth-expedition-1937.txt",
}
EDITED = "tollen-observatory.txt"


def documents() -> dict[str, str]:
    files = sorted(path for path in CORPUS.rglob("*") if path.is_file())
    return {path.relative_to(CORPUS).as_posix(): path.read_text(encoding="utf-8") for path in files}


def nights_of_the_sample(root: Path, postgres_url: str) -> ProjectFolder:
    """Some documents come with the second night, and one is edited before the third."""
    texts = documents()
    project = new_project(
        root, postgres_url, {name: text for name, text in texts.items() if name not in LATER},
        workflow=WORKFLOW,
    )  # fmt: skip
    project.edit_settings(workspace="sample")
    (root / "workflows" / f"{WORKFLOW}.yaml").write_text(
        f"name: {WORKFLOW}\nextends: fast\nsteps:\n  - verb: detect_communities\n"
    )
    with project.open() as opened:
        assert opened.run().outcome == "completed"
        for name in LATER:
            project.write(name, texts[name])
        assert opened.run().outcome == "completed"
        project.write(
            EDITED, f"{texts[EDITED]}\nThe Tollen Observatory was painted white in 1931.\n"
        )
        assert opened.run().outcome == "completed"
    return project
