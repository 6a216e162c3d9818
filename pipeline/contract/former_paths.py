"""Where verbs of projects found modules in earlier versions: those paths work on, with a warning,
for one version."""

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FORMER = {
    "pipeline.prompts": "pipeline.contract.prompts",
    "pipeline.reasons": "pipeline.contract.reasons",
    "pipeline.registry": "pipeline.contract.registry",
    "pipeline.schemas": "pipeline.contract.schemas",
    "pipeline.sentences": "pipeline.text.sentences",
    "pipeline.tokens": "pipeline.text.tokens",
    "pipeline.words": "pipeline.text.ids",
}
PARTED = {"pipeline.schemas": "pipeline.contract.cells"}
"""Where a part of a former module is, if not with the rest."""
PACKAGES = {"pipeline.text": "pipeline.text.ids"}
"""What were modules and are packages now: where their names are."""


class _FormerPaths(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in FORMER else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        warnings.warn(
            f"{name} is {FORMER[name]} now, and the next version knows it by that name alone;"
            " change the import",
            FutureWarning,
            stacklevel=2,
        )
        for part in filter(None, [PARTED.get(name), FORMER[name]]):
            found = vars(import_module(part))
            vars(module).update(
                {key: value for key, value in found.items() if not key.startswith("__")}
            )


def find_former_paths() -> None:
    """From now on, in this process."""
    if not any(isinstance(finder, _FormerPaths) for finder in sys.meta_path):
        sys.meta_path.append(_FormerPaths())
    for package, module in PACKAGES.items():
        vars(import_module(package))["__getattr__"] = partial(_former_name, package, module)


def _former_name(package: str, module: str, name: str) -> Any:
    found = getattr(import_module(module), name)
    warnings.warn(
        f"{package}.{name} is in {module} now, and the next version knows it there alone; change"
        " the import",
        FutureWarning,
        stacklevel=2,
    )
    return found
