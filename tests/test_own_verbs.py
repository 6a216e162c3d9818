"""Verbs of files that settings name."""

from pathlib import Path

import pytest

from pipeline.contract.fingerprint import code_fingerprint
from pipeline.contract.own_verbs import read_verbs
from pipeline.contract.registry import REGISTRY
from pipeline.errors import SettingsError

SOURCE = '''
from __future__ import annotations

import pandas as pd

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import TEXTS


class OwnParams(Params):
    suffix: str = "!"


@verb(inputs={"texts": TEXTS}, outputs={"louder": TEXTS}, rowwise="texts")
def shout(texts: pd.DataFrame, params: OwnParams) -> pd.DataFrame:
    """Louder."""
    return texts.assign(text=texts["text"] + params.suffix)
'''


def test_a_file_declares_verbs_for_its_project_alone(tmp_path: Path):
    (tmp_path / "own.py").write_text(SOURCE)
    verbs = read_verbs(tmp_path, ["own.py"]).verbs
    assert verbs["shout"].params.model_fields.keys() == {"suffix"}
    assert set(verbs) - set(REGISTRY.verbs) == {"shout"}


def test_the_code_counts_and_the_place_does_not(tmp_path: Path):
    def fingerprint(folder: str, source: str) -> str:
        path = tmp_path / folder / "own.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return code_fingerprint(read_verbs(path.parent, ["own.py"]).verbs["shout"].function)

    first = fingerprint("a", SOURCE)
    assert fingerprint("b", SOURCE) == first
    assert fingerprint("a", SOURCE.replace('"""Louder."""', '"""Loud."""')) == first
    assert fingerprint("a", SOURCE.replace('"!"', '"?"')) != first


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def (", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero; correct the file"),
        ("x = 1", "declares no verb; decorate a function with @verb"),
        (SOURCE.replace("shout", "select"), "there is a verb 'select' already"),
        (SOURCE.replace("OwnParams) ->", "OwnParams, limit: int) ->"), r"parameters ['limit'] are neither"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_of_no_use_is_refused(tmp_path: Path, source: str | None, message: str):
    if source is not None:
        (tmp_path / "own.py").write_text(source)
    with pytest.raises(SettingsError) as refused:
        read_verbs(tmp_path, ["own.py"])
    assert message in str(refused.value)
