"""Small modules in a package of their own stand for the verbs and what they import."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import pipeline.verbs  # noqa: F401  (registers them)
from pipeline.contract import definitions
from pipeline.contract.fingerprint import code_fingerprint, fingerprint, library_versions
from pipeline.contract.kept_codes import sources_hash

MODULES = {
    "__init__": "",
    "registry": "def verb(function):\n    return function\n",
    "text": "def trim(text):\n    return text.strip()\n",
    "letters": "from mill.text import trim\n\ndef upper(text):\n    return trim(text).upper()\n",
    "sounds/__init__": "from mill.sounds.vowels import VOWELS\n",
    "sounds/vowels": "VOWELS = 'aeiou'\n",
    "shout": (
        "import mill.letters\nfrom mill.registry import verb\n\n@verb\ndef shout(text):\n   "
        " '''Loud.'''\n    # why\n    return mill.letters.upper(text) + '!'\n"
    ),
    "count": (
        "from mill import text\nfrom mill.sounds import vowels\n\ndef count(words):\n    return"
        " sum(letter in vowels.VOWELS for letter in text.trim(words))\n"
    ),
}


class Package:
    """The modules on disk; ``edit`` replaces text in one and clears what Python has cached
    of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, source in MODULES.items():
            path = root / "mill" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.root / "mill" / f"{module}.py"
        source = path.read_text()
        assert old in source
        self.write(module, source.replace(old, new))

    def fingerprints(self) -> dict[str, str]:
        return {name: code_fingerprint(self._function(name)) for name in ("shout", "count")}

    def write(self, module: str, source: str) -> None:
        (self.root / "mill" / f"{module}.py").write_text(source)
        sources_hash.cache_clear()

    def _function(self, name: str) -> Callable[..., object]:
        module: ModuleType = importlib.import_module(f"mill.{name}")
        return getattr(module, name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.setattr(definitions, "PACKAGE", "mill")
    monkeypatch.setattr(definitions, "MACHINERY", frozenset({"registry"}))
    monkeypatch.syspath_prepend(tmp_path)
    definitions._spec.cache_clear()
    yield Package(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "mill"]:
        del sys.modules[name]
    definitions._spec.cache_clear()


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("shout", "'''Loud.'''", "'''Very loud,\n\n    indeed.'''"),
        ("shout", "    '''Loud.'''\n", ""),
        ("shout", "# why", "# why not"),
        ("shout", "upper(text) + '!'", 'upper(\n        text\n    )  +  "!"'),
        ("text", "def trim", "# helper\ndef trim"),
        ("registry", "return function", "return print and function"),
    ],
    ids=["docstring", "docstring gone", "comment", "layout", "comment in a helper", "machinery"],
)
def test_an_edit_that_cannot_change_a_result_keeps_the_fingerprint(
    package: Package, module: str, old: str, new: str
):
    before = package.fingerprints()
    package.edit(module, old, new)
    assert package.fingerprints() == before


@pytest.mark.parametrize(
    ("module", "old", "new", "changed"),
    [
        ("shout", "'!'", "'?'", {"shout"}),
        ("shout", "@verb\n", "", {"shout"}),
        ("letters", "upper()", "lower()", {"shout"}),
        ("text", "strip()", "lstrip()", {"shout", "count"}),
        ("sounds/vowels", "aeiou", "aeiouy", {"count"}),
        ("count", "sum(", "max(", {"count"}),
    ],
)
def test_an_edit_changes_the_verbs_that_import_it_and_no_others(
    package: Package, module: str, old: str, new: str, changed: set[str]
):
    before = package.fingerprints()
    package.edit(module, old, new)
    after = package.fingerprints()
    assert {name for name in before if before[name] != after[name]} == changed


def test_a_package_is_followed_through_the_names_it_reexports(package: Package):
    package.edit("count", "from mill.sounds import vowels", "from mill.sounds import VOWELS")
    package.edit("count", "vowels.VOWELS", "VOWELS")
    before = package.fingerprints()
    package.edit("sounds/vowels", "aeiou", "aeiouy")
    assert package.fingerprints()["count"] != before["count"]


@pytest.mark.parametrize(
    "moves",
    [
        [
            ("shout", "import mill.letters", "from mill import letters as mill_letters"),
            ("shout", "mill.letters.u", "mill_letters.u"),
        ],
        [
            ("shout", "import mill.letters", "from mill.letters import upper as raised"),
            ("shout", "mill.letters.upper", "raised"),
        ],
        [
            ("shout", "import mill.letters\n", ""),
            ("shout", "    return mill", "    import mill.letters\n    return mill"),
        ],
        [
            ("text", "def trim", "def strip"),
            ("letters", "trim", "strip"),
            ("count", "text.trim", "text.strip"),
        ],
        [("text", "def trim", "LIMIT = 3\n\ndef cut(text):\n    return text[:LIMIT]\n\ndef trim")],
        [("letters", "from mill.text import trim", "def trim(text):\n    return text.strip()\n")],
        [
            ("count", "from mill.sounds import vowels", "VOWELS = 'aeiou'"),
            ("count", "vowels.VOWELS", "VOWELS"),
        ],
    ],
    ids=[
        "imported otherwise",
        "under another name",
        "where it is used",
        "renamed",
        "a neighbour",
        "merged",
        "a constant",
    ],
)
def test_a_moved_or_renamed_definition_keeps_its_fingerprint(
    package: Package, moves: list[tuple[str, str, str]]
):
    before = package.fingerprints()
    for module, old, new in moves:
        package.edit(module, old, new)
    assert package.fingerprints() == before


def test_two_functions_of_one_module_differ():
    assert code_fingerprint(fingerprint) != code_fingerprint(library_versions)


def test_a_fingerprint_is_over_content_not_over_the_order_of_keys():
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})
    assert fingerprint({"a": None}) != fingerprint({})


def test_a_fingerprint_refuses_what_has_no_canonical_form():
    with pytest.raises(ValueError, match="JSON"):
        fingerprint(float("nan"))
    with pytest.raises(TypeError):
        fingerprint({1, 2})


def test_versions_of_libraries_are_those_installed():
    assert library_versions(()) == {}
    assert set(library_versions(("pandas", "numpy"))) == {"pandas", "numpy"}
