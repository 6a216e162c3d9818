"""Search texts for names, which are compared as names of entities are."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pipeline.text.ids import match_key

_WORD = re.compile(r"\w+")


def words_of(text: str) -> str:
    """Return the words of a text as names are compared, with a space between them."""
    return " ".join(_WORD.findall(match_key(text)))


class NameSearch(ABC):
    """A search for some names in texts and in values of JSON."""

    @abstractmethod
    def are_in(self, text: str) -> bool:
        """Return whether the text has one of the names, as whole words.

        Names in Han or kana may stand anywhere: such texts have no spaces between words.
        """

    def are_in_values(self, content: Any) -> bool:
        """Return whether a text anywhere in a value of JSON has one of the names."""
        if isinstance(content, Mapping):
            return any(map(self.are_in_values, (*content, *content.values())))
        if isinstance(content, list | tuple):
            return any(map(self.are_in_values, content))
        return isinstance(content, str) and self.are_in(content)

    def are_in_line(self, line: str) -> bool:
        """Return whether a line of JSON lines has one of the names; one that is no JSON is read as
        it stands."""
        try:
            return self.are_in_values(json.loads(line))
        except ValueError:
            return self.are_in(line)
