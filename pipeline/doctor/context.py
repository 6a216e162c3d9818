"""The context length that a server really has: how long a prompt may get before its first line is lost."""

import math
from zlib import crc32

from pipeline.doctor.canary import filler
from pipeline.doctor.probe import Probe
from pipeline.errors import ModelError
from pipeline.models.base import Message, Tokenizer

SMALLEST = 256
CLOSE_ENOUGH = 1.1


def remembers(probe: Probe, tokens: int) -> bool:
    """Whether the model can repeat the first line of a prompt of so many tokens.

    Raises ModelError when the call fails for another reason than the prompt's length.
    """
    word = f"Zelmar-{crc32(str(tokens).encode()) % 9000 + 1000}"
    reply = probe.ask([_recall(word, tokens, probe.tokenizer)])
    if reply.reason not in (None, "too_long"):
        raise ModelError(f"a prompt of {tokens:,} tokens brought no reply ({reply.reason}: {reply.message}); try again")
    return word.casefold() in reply.text.casefold()


def context_length(probe: Probe, good: int, bad: int) -> int:
    """Within about 5 %, in the server's own tokens where it reports them: ``good`` tokens were remembered,
    ``bad`` were not."""
    scale = 1.0
    while bad > good * CLOSE_ENOUGH:
        middle = round(math.sqrt(good * bad))
        if remembers(probe, middle):
            good, scale = middle, _scale(probe, middle)
        else:
            bad = middle
    return round(math.sqrt(good * bad) * scale)


def _scale(probe: Probe, tokens: int) -> float:
    """The server's tokens for one of ours; a server that leaves out what it had seen before says nothing."""
    scale = probe.calls[-1].reply.input_tokens / tokens
    return scale if 0.7 < scale < 2 else 1.0


def _recall(word: str, tokens: int, tokenizer: Tokenizer) -> Message:
    """The word comes first: no two prompts begin alike, and a server's cache of prefixes cannot help."""
    start = f"{word} is the code word. Keep it in mind: you are asked for it at the end.\n\n"
    end = "\n\nWhich code word stands in the first line of this message? Answer with it and nothing else."
    return {"role": "user", "content": start + filler(tokens - tokenizer.count(start + end), tokenizer) + end}
