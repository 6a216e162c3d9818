"""Verbs in files that the settings name."""

from pathlib import Path

import pytest

from pipeline.contract.fingerprint import code_fingerprint
from pipeline.contract.own_verbs import read_verbs
from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import TEXTS
from pipeline.errors import DataError, SettingsError

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


def declaring(more: str) -> str:
    return SOURCE.replace('rowwise="texts"', f'rowwise="texts", {more}')


def test_a_file_declares_verbs_for_its_project_alone(tmp_path: Path):
    (tmp_path / "own.py").write_text(SOURCE)
    verbs = read_verbs(tmp_path, ["own.py"]).verbs
    assert verbs["shout"].params.model_fields.keys() == {"suffix"}
    assert set(verbs) - set(REGISTRY.verbs) == {"shout"}


def test_the_fingerprint_of_an_own_verb_depends_on_its_code_not_its_path(tmp_path: Path):
    first = _fingerprint(tmp_path / "a", SOURCE)
    assert _fingerprint(tmp_path / "b", SOURCE) == first
    assert _fingerprint(tmp_path / "a", SOURCE.replace('"""Louder."""', '"""Loud."""')) == first
    assert _fingerprint(tmp_path / "a", SOURCE.replace('"!"', '"?"')) != first


def _fingerprint(folder: Path, source: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(source)
    return code_fingerprint(read_verbs(folder, ["own.py"]).verbs["shout"].function)


def test_a_verb_may_be_imported_from_the_package_or_from_its_module(tmp_path: Path):
    by_package = SOURCE.replace("pipeline.contract.registry", "pipeline")
    assert by_package != SOURCE
    assert _fingerprint(tmp_path / "module", SOURCE) == _fingerprint(tmp_path / "face", by_package)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def (", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero; correct the file"),
        ("x = 1", "declares no verb; decorate a function with @verb"),
        (SOURCE.replace("shout", "select"), "there is a verb 'select' already"),
        (
            SOURCE.replace("OwnParams) ->", "OwnParams, limit: int) ->"),
            "'limit' is neither input, params nor role",
        ),
        (
            SOURCE.replace("OwnParams) ->", "OwnParams, limit) ->"),
            "verb 'shout': parameter 'limit' is neither input",
        ),
        (
            SOURCE.replace("texts: pd.DataFrame, ", ""),
            "'shout': the function has no parameter for its input 'texts'",
        ),
        (
            SOURCE.replace('rowwise="texts"', 'rowwise="text"'),
            "'shout': rowwise names 'text', which is no input; have",
        ),
        (
            SOURCE.replace("params: OwnParams", "params"),
            "'shout': params has no annotation that is a subclass",
        ),
        (
            SOURCE.replace("params: OwnParams", "params: int"),
            "'shout': params has no annotation that is a subclass of",
        ),
        (
            declaring('row_of={"texts": "id"}'),
            "'shout': row_of needs a rowwise or keyed input, and a column for each output",
        ),
        (
            declaring('lookup={"texts": len}, row_of={"louder": "id"}'),
            "'shout': lookup names inputs beside",
        ),
        (
            declaring('row_of={"louder": "volume"}'),
            "'shout': the law names column 'volume', which 'louder' does not have; have: id, text",
        ),
        (
            SOURCE.replace(
                'rowwise="texts"', 'keyed={"texts": ("line",)}, row_of={"louder": "id"}'
            ),
            "'shout': the law names column 'line', which 'texts' does not have; have: id, text",
        ),
        (
            declaring('row_of={"louder": "id"}')
            .replace('"texts": TEXTS', '"texts": table("id", id=LIST)')
            .replace("import TEXTS", "import STRINGS as LIST, TEXTS, table"),
            (
                "'shout': the law names column 'id' of 'texts', which holds lists; name one of"
                " texts or numbers"
            ),
        ),
        (
            declaring('row_of={"louder": "id"}')
            .replace('"texts": TEXTS', '"texts": table("id", id=INT)')
            .replace("import TEXTS", "import INT, TEXTS, table"),
            (
                "'shout': columns that name groups hold texts here and numbers there; name columns"
                " of one kind"
            ),
        ),
        (
            declaring('row_of={"louder": "id"}')
            .replace("params: OwnParams)", "params: OwnParams, last: LastTables)")
            .replace("import Params", "import LastTables, Params"),
            (
                "'shout': parameter 'last' needs all rows of the last run, and the law gives some;"
                " declare no law"
            ),
        ),
        (
            declaring('reasons={"parse": "no sense"}'),
            "'shout': reason 'parse' has a meaning already",
        ),
        (
            declaring('reasons={"too_loud": "it hurts"}'),
            "'shout': declares reasons and has no output 'rejects'",
        ),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_declares_no_usable_verb_is_refused(
    tmp_path: Path, source: str | None, message: str
):
    if source is not None:
        (tmp_path / "own.py").write_text(source)
    with pytest.raises(SettingsError) as refused:
        read_verbs(tmp_path, ["own.py"])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "None",
            (
                r"verb 'shout': returned NoneType for 'louder', expected louder; return a DataFrame"
                r" for each"
            ),
        ),
        (
            "texts, texts",
            r"verb 'shout': returned 2 tables, expected louder; return a DataFrame for each",
        ),
        ("texts['text']", r"verb 'shout': returned Series for 'louder', expected louder"),
    ],
)
def test_a_verb_that_returns_something_else_is_named(tmp_path: Path, returned: str, message: str):
    body = 'texts.assign(text=texts["text"] + params.suffix)'
    assert body in SOURCE
    (tmp_path / "own.py").write_text(SOURCE.replace(body, returned))
    shout = read_verbs(tmp_path, ["own.py"]).verbs["shout"]
    with pytest.raises(DataError, match=message):
        shout.call({"texts": TEXTS.frame([("a", "hey")])}, {"params": shout.params()})
