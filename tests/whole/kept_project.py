"""Make ``kept_project.zip``: a project in which a report stands although its community changed.

Run it with the code of the version whose tables the archive is to keep:

    python -m tests.whole.kept_project tests/whole/kept_project.zip

The report of the first run was paid for, and ``keep_within`` let it stand in the second run. Its
prompt of now was never sent, so no cache answers it: an upgrade that forgot the table of the last
run would pay for it.
"""

import json
import sys
from pathlib import Path

from tests.projects import ProjectFolder, new_project, read_yaml, write_yaml
from tests.servers.openai_server import OpenAIServer
from tests.states import id_of
from tests.whole.paid_project import URL_NAME, documents, write_archive

WORKFLOW = "kept"
EDITED, BEFORE, AFTER = "quill.md", "Idra Senn saw", "Idra Senn painted"


def make(root: Path, openai: OpenAIServer) -> None:
    """Make the project with the code of now, and write the number of chat calls of each run."""
    folder = new_project(root, f"${{{URL_NAME}}}", documents(), openai)
    address = {"base_url": "${OPENAI_BASE_URL}", "api_key": "${OPENAI_API_KEY}"}
    chat = {**address, "model": "gpt-4o-mini", "price": {"input": 0.15, "output": 0.6}}
    folder.edit_settings(
        workspace="kept", models={"chat": {"default": chat}, "embedding": {"default": {}}}
    )
    write_workflow(folder)
    chats = [run(folder, openai)]
    text = documents()[EDITED]
    assert BEFORE in text
    folder.write(EDITED, text.replace(BEFORE, AFTER))
    chats.append(run(folder, openai))
    with folder.open() as project:
        rejects = project.table("rejects", WORKFLOW)
    kept = int((rejects["kind"] == "unrefreshed").sum())
    assert kept > 0, "no report was kept"
    expected = {"chats": chats, "kept": kept}
    (root / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")


def write_workflow(folder: ProjectFolder) -> None:
    """Write a workflow with reports that stand while less than half of their facts changed."""
    shipped = folder.root / "workflows"
    args = {
        "detect_communities": {"max_cluster_size": 50, "resolution": 0.05},
        "report_communities": {"max_input_tokens": 8000, "keep_within": 0.5},
    }
    steps = [
        {**step, "args": {**step.get("args", {}), **args.get(id_of(step), {})}}
        for name in ("index", "communities")
        for step in read_yaml(shipped / f"{name}.yaml")["steps"]
    ]
    write_yaml(shipped / f"{WORKFLOW}.yaml", {"name": WORKFLOW, "steps": steps})


def run(folder: ProjectFolder, openai: OpenAIServer) -> int:
    """Run the workflow and return how many chats it asked for."""
    before = openai.count("chat")
    report = folder.report("run", WORKFLOW, "--replace")
    assert report["outcome"] == "completed", report
    return openai.count("chat") - before


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]), WORKFLOW, make)
