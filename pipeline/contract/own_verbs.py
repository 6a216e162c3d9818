"""Verbs of a project's own: Python files that its settings name."""

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from pipeline.contract.registry import REGISTRY, Registry, Verb, registering_in
from pipeline.errors import SettingsError
from pipeline.text.ids import digest


def read_verbs(root: Path, files: Iterable[str]) -> Registry:
    """Return a registry of the package's verbs and those that the files, below ``root``, declare.

    Raises SettingsError for a file that cannot be read or run, that declares no verb, or one whose
    name is taken.
    """
    verbs = dict(REGISTRY.verbs)
    for name in files:
        path = (root / name).resolve()
        try:
            own = _declared(path, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path}: cannot be read ({error}); correct verbs in settings.yaml"
            ) from error
        if taken := sorted(set(own) & set(verbs)):
            raise SettingsError(
                f"{path}: there is a verb '{taken[0]}' already; give this one another name"
            )
        verbs |= own
    return Registry(verbs)


@cache
def _declared(path: Path, source: str) -> Mapping[str, Verb]:
    """Execute a file of verbs and return the verbs that it declares.

    It is executed once for each text that the file has had; each text is a module of its own.
    """
    module = ModuleType(f"own_verbs_{digest(str(path), source)}")
    # The fingerprint of a verb finds its source by the spec of its module.
    module.__spec__ = ModuleSpec(module.__name__, None, origin=str(path))
    module.__file__ = str(path)
    registry = Registry()
    sys.modules[module.__name__] = module
    try:
        with registering_in(registry):
            exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - settings name the file to run
    except Exception as error:
        del sys.modules[module.__name__]
        raise SettingsError(f"{path}: {type(error).__name__}: {error}; correct the file") from error
    if not registry.verbs:
        raise SettingsError(f"{path}: declares no verb; decorate a function with @verb")
    return registry.verbs
