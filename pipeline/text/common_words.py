"""Ordinary words: those that so many texts have that a text without them says little.

The vocabulary of a tokenizer is a list of words by frequency: byte pair encoding merges the most
frequent pairs first (Sennrich, Haddow and Birch 2016, "Neural machine translation of rare words
with subword units"), so a common word is one token, and the more common, the lower its id.
"""

from functools import lru_cache

from pipeline.text.ids import stem
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

COMMON_IN_ENGLISH = 15_000
"""Tokens up to this id are common words of English, in which most texts of the vocabulary are."""


@lru_cache(10_000)
def is_common(word: str, is_english: bool) -> bool:
    """Return whether the word in lower case, or the form without its ending, is a common word.

    In other languages than English each word that is a token of its own counts as common.
    """
    limit = COMMON_IN_ENGLISH if is_english else None
    base = stem(word)
    forms = (word, base, f"{base}e") if is_english else (word,)
    return any(_is_token_up_to(form, limit) for form in forms)


def _is_token_up_to(word: str, limit: int | None) -> bool:
    """Return whether the word behind a space is one token, whose id is at most ``limit``."""
    tokens = tokenizer(DEFAULT_ENCODING).encode(f" {word}")
    return len(tokens) == 1 and (limit is None or tokens[0] <= limit)
