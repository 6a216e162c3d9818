"""Read an ontology from classes of pydantic, as other tools take them for types of entities."""

import importlib.util
import inspect
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from pipeline.errors import SettingsError

_DATES = (date, datetime)
_NUMBERS = (int, float)
_NAMES = frozenset(("id", "name"))
"""Fields that are columns of every entity."""


def read_classes(path: Path) -> dict[str, Any]:
    """Return the content of ontology.yaml for the classes of pydantic that a Python file defines.

    The file is executed. Raises SettingsError if it fails, or defines no such class.
    """
    spec = importlib.util.spec_from_file_location("_graphmill_ontology_classes", path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path}: no Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    # A file of the user's may raise anything.
    except Exception as error:  # noqa: BLE001
        raise SettingsError(f"{path}: {type(error).__name__}: {error}; correct it") from None
    classes = _defined_in(module)
    if not classes:
        raise SettingsError(f"{path}: defines no class of pydantic.BaseModel; write one per type")
    return ontology_of_classes(classes)


def _defined_in(module: ModuleType) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    for value in vars(module).values():
        if not (inspect.isclass(value) and issubclass(value, BaseModel)):
            continue
        if value.__module__ == module.__name__:
            found.append(value)
    return found


def ontology_of_classes(classes: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """Return the content of ontology.yaml for these classes, each a type of entities.

    A base class that is among them is the parent, the docstring is the description, and each field
    is a property. Only properties of the class itself are listed.
    """
    known = list(classes)
    types: list[dict[str, Any]] = []
    for one in known:
        entry: dict[str, Any] = {"name": one.__name__}
        # A docstring of a base class is none of the class's own.
        if one.__doc__ and "__doc__" in vars(one):
            entry["description"] = " ".join(one.__doc__.split())
        parents = [base.__name__ for base in one.__mro__[1:] if base in known]
        if parents:
            entry["parent"] = parents[0]
        properties = _properties_of(one)
        if properties:
            entry["properties"] = properties
        types.append(entry)
    return {"entity_types": types}


def _properties_of(one: type[BaseModel]) -> list[dict[str, Any]]:
    properties: list[dict[str, Any]] = []
    for name, field in one.model_fields.items():
        if name in _NAMES or name not in inspect.get_annotations(one):
            continue
        entry: dict[str, Any] = {"name": name, **_value_of(field.annotation)}
        if field.description:
            entry["description"] = field.description
        if field.is_required():
            entry["required"] = True
        properties.append(entry)
    return properties


def _value_of(hint: Any) -> dict[str, Any]:
    """Return the keys of a property that an annotation means; anything unknown is a text."""
    arguments = [part for part in get_args(hint) if part is not type(None)]
    origin = get_origin(hint)
    if origin is Literal:
        return {"type": "enum", "values": [str(value) for value in arguments]}
    if origin in (list, tuple, set, frozenset, Sequence):
        return {"type": "list"}
    if arguments:
        return _value_of(arguments[0])
    if not inspect.isclass(hint):
        return {"type": "string"}
    if issubclass(hint, Enum):
        return {"type": "enum", "values": [str(member.value) for member in hint]}
    if issubclass(hint, _DATES):
        return {"type": "date"}
    is_number = issubclass(hint, _NUMBERS) and hint is not bool
    return {"type": "number" if is_number else "string"}
