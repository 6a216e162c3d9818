"""The package under its own name: ``import graphmill`` gives the module ``pipeline`` itself.

A script's folder is searched before the installed packages, so a user's own ``pipeline.py`` would
be found in place of ours. This module loads ours from the files that it was installed with. Every
module is one object under both names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline import *  # noqa: F403
    from pipeline import __version__ as __version__

OURS = "pipeline"


class BothNames(MetaPathFinder, Loader):
    """Finds each module ``graphmill.x`` as the module ``pipeline.x``."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for names below ``graphmill``, and None for others."""
        return ModuleSpec(fullname, self) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of the same name below ``pipeline``."""
        module = import_module(OURS + spec.name.removeprefix(__name__))
        self._specs[spec.name] = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module below ``pipeline``, for ``python -m graphmill``."""
        name = OURS + fullname.removeprefix(__name__)
        spec = find_spec(name)
        loader = spec.loader if spec else None
        return loader.get_code(name) if isinstance(loader, InspectLoader) else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import system has replaced."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = self._specs.pop(spec.name)


def _find_package() -> Path:
    """Return the folder of the package: beside this one, or around it in a checkout."""
    beside = Path(__file__).parents[1] / OURS
    return beside if (beside / "__init__.py").is_file() else Path(__file__).parents[2]


def _load() -> ModuleType:
    """Return the package, loaded from its own folder. Raises ImportError if another one has its
    name."""
    folder = _find_package()
    file = folder / "__init__.py"
    known = sys.modules.get(OURS)
    if known is not None:
        if known.__file__ and Path(known.__file__).resolve() == file.resolve():
            return known
        raise ImportError(
            f"graphmill: a module '{OURS}' of {known.__file__} is imported already, and graphmill's"
            " package has that name; import graphmill before it, or rename that file"
        )
    spec = spec_from_file_location(OURS, file, submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[OURS] = module
    spec.loader.exec_module(module)
    return module


_package = _load()
sys.meta_path.insert(0, BothNames())
sys.modules[__name__] = _package
