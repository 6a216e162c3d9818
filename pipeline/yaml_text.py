"""YAML as people mean it: only ``true`` and ``false`` are truth values."""

import re
from typing import Any

import yaml

_BOOL, _VALUE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:value"


class _Loader(yaml.SafeLoader):
    """As YAML 1.2 has it: ``on`` is a key, ``no`` is Norwegian, and ``=`` is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _VALUE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def parse_yaml(text: str) -> Any:
    """The one document in the text. Raises yaml.YAMLError."""
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
