"""Files that a project keeps, and files that it works with."""

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.files import json_text, read_json, scratch_file, temporary_folder, write_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.integers() | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.dictionaries(TEXTS.filter(lambda name: name != "sha256"), VALUES, max_size=4))
def test_a_json_file_holds_what_was_written(tmp_path: Path, content: dict[str, Any]):
    write_json(tmp_path / "file.json", content)
    assert read_json(tmp_path / "file.json") == content


def test_a_json_file_has_a_line_for_each_value_in_the_order_of_the_keys():
    text = json_text({"b": [1, 2.5, "é"], "a": {"d": None, "c": {}, "e": []}})
    digest = json.loads(text)["sha256"]
    assert text == (
        '{\n "a": {\n  "c": {},\n  "d": null,\n  "e": []\n },\n'
        ' "b": [\n  1,\n  2.5,\n  "é"\n ],\n'
        f' "sha256": "{digest}"\n}}\n'
    )


def test_ctrl_c_leaves_no_temporary_folder_even_while_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    unlink = os.unlink
    interrupts = iter([signal.SIGINT])

    def interrupted(*args: Any, **options: Any) -> None:
        for number in interrupts:
            signal.raise_signal(number)
        unlink(*args, **options)

    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder("graphmill-test-") as folder:
        (folder / "a.txt").write_text("A text.")
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_file_leaves_no_name_behind_and_needs_no_folder_to_write_to(tmp_path: Path):
    with scratch_file(tmp_path) as file:
        file.write(b"vectors")
        assert os.fstat(file.fileno()).st_dev == tmp_path.stat().st_dev
        assert list(tmp_path.iterdir()) == []
    no_folder = tmp_path / "file"
    no_folder.touch()
    with scratch_file(no_folder) as file:
        file.write(b"vectors")
