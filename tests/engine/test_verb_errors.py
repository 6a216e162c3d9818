"""An error in a verb of the user's own names the step, the file and line, the row, and the user's
frames alone."""

from pathlib import Path

import pytest

from pipeline.errors import VerbError
from tests.projects import ProjectFolder, project_with_verb

DOCUMENTS = {f"{number}.txt": f"Mira Vale saw light {number}." for number in range(20)} | {
    "bad.txt": "Odd one."
}
VERB = """
import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import INT, STRING, TEXT_UNITS, table

COUNTS = table("id", id=STRING, rows=INT)


@verb(inputs={"text_units": TEXT_UNITS}, outputs={"counts": COUNTS}, LAW)
def count_lights(text_units: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"id": text_units["id"], "rows": [number_of(text) for text in text_units["text"]]})


def number_of(text):
    return int(text.split("light ")[1].strip("."))
"""  # noqa: E501
LINE = VERB.splitlines().index('    return int(text.split("light ")[1].strip("."))') + 1
ROWWISE = 'rowwise="text_units", row_of={"counts": "id"}'


def with_verb(root: Path, source: str = VERB, law: str = ROWWISE) -> ProjectFolder:
    own = source.replace(", LAW", f", {law}" if law else "")
    return project_with_verb(root, DOCUMENTS, own, "count_lights")


def correct(folder: ProjectFolder) -> None:
    (folder.root / "own.py").write_text(
        VERB.replace(", LAW", f", {ROWWISE}").replace("return int", "return 1  #"), encoding="utf-8"
    )


def test_the_command_tells_step_line_row_and_the_frames_of_the_user(tmp_path: Path):
    folder = with_verb(tmp_path / "p")
    said = folder.invoke("index", "fast")
    assert said.exit_code == 1
    first, *frames = said.stderr.partition("graphmill: ")[2].rstrip().splitlines()
    correct(folder)
    with folder.open() as project:
        project.index("fast")
        units = project.table("text_units", "fast")
    (bad,) = units.loc[units["text"] == "Odd one.", "id"]
    assert (
        first
        == f"step 'count_lights': verb 'count_lights' (own.py:{LINE}) raised IndexError: list index"
        f" out of range, on the row '{bad}' of 'text_units'; correct the verb, then run again"
    )
    assert f'own.py", line {LINE}, in number_of' in "\n".join(frames)
    assert "pipeline/engine" not in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("law", ["", ROWWISE])
def test_a_row_is_named_only_where_the_verb_works_by_rows(tmp_path: Path, law: str):
    with with_verb(tmp_path / "p", law=law).open() as project, pytest.raises(VerbError) as raised:
        project.index("fast")
    assert ("on the row" in str(raised.value)) is bool(law)


def test_an_error_that_no_row_alone_raises_names_none(tmp_path: Path):
    source = VERB.replace(
        "    return pd.DataFrame", "    assert len(text_units) < 5\n    return pd.DataFrame"
    )
    with with_verb(tmp_path / "p", source).open() as project, pytest.raises(VerbError) as raised:
        project.index("fast")
    assert "raised AssertionError; correct the verb" in str(raised.value)
