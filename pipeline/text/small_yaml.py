"""Tell whether YAML that others have written is small enough to be read."""

import yaml

_DEEPEST = 20
"""The most levels of nested values. The parser takes half a minute for 20,000 nested brackets."""


def is_small_yaml(text: str) -> bool:
    """Return whether the YAML has no aliases and is not nested too deeply.

    A few lines of aliases may stand for gigabytes. Raises YAMLError for a text that is no YAML.
    """
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
            return False
    return True
