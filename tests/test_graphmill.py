"""``import graphmill`` gives the package, also beside a user's own pipeline.py."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pipeline
from pipeline import errors

SCRIPT = """
import multiprocessing

import graphmill
from graphmill import Project, UsageError
from graphmill.text.ids import match_key

import pipeline
import pipeline.errors
import pipeline.text.ids


def names_of_modules(text):
    import graphmill.errors

    raise_and_pickle = graphmill.errors.UsageError(match_key(text))
    return raise_and_pickle


if __name__ == "__main__":
    assert graphmill is pipeline
    assert graphmill.text.ids is pipeline.text.ids
    assert graphmill.text.ids.__spec__.name == "pipeline.text.ids"
    assert UsageError is pipeline.errors.UsageError
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        error = pool.apply(names_of_modules, ("Ada Holm",))
    assert isinstance(error, UsageError) and str(error) == "ada holm"
    print(Project.__module__, graphmill.__version__)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_a_script_called_pipeline_uses_the_package_and_its_processes_too(tmp_path: Path):
    (tmp_path / "pipeline.py").write_text(SCRIPT, encoding="utf-8")
    done = run(tmp_path, "pipeline.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["pipeline.project", pipeline.__version__]


def test_a_module_of_the_same_name_that_was_imported_before_is_named(tmp_path: Path):
    (tmp_path / "pipeline.py").write_text("", encoding="utf-8")
    done = run(tmp_path, "-c", "import pipeline; import graphmill")
    assert done.returncode == 1
    assert "pipeline.py is imported already" in done.stderr
    assert "import graphmill before it, or rename that file" in done.stderr


def test_every_error_and_name_that_a_caller_needs_is_public():
    defined = {
        name
        for name, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, errors.GraphmillError)
    }
    assert defined <= set(pipeline.__all__)
    assert set(pipeline.__all__) | {"__version__"} == set(dir(pipeline))
    for name in dir(pipeline):
        assert getattr(pipeline, name) is not None


def test_type_checkers_find_the_types():
    package = Path(str(pipeline.__file__)).parent
    assert (package / "py.typed").is_file()
    assert (package / "own_name" / "graphmill" / "py.typed").is_file()
