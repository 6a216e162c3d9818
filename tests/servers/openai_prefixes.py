"""A prefix cache whose server reports only the prompt tokens that the cache did not hold."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from tests.servers.openai_replies import content_of


class PrefixCache:
    """All prompts that came so far. Old Ollama servers and some llama.cpp builds count in this
    way."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._prompts: list[str] = []

    def count_uncached(
        self, messages: Sequence[Mapping[str, Any]], count: Callable[[str], int]
    ) -> int:
        """Return the tokens of a prompt without its longest known prefix, at least 1, and keep the
        prompt."""
        prompt = "\n".join(map(content_of, messages))
        with self._lock:
            held = max((_characters_in_common(prompt, known) for known in self._prompts), default=0)
            self._prompts.append(prompt)
        uncached = prompt[held:]
        return count(uncached) if uncached else 1


def _characters_in_common(prompt: str, known: str) -> int:
    """Return the length of the longest common prefix."""
    pairs = enumerate(zip(prompt, known, strict=False))
    shorter = min(len(prompt), len(known))
    return next((place for place, (one, other) in pairs if one != other), shorter)
