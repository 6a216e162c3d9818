"""Conversions of files, remembered by what was converted, beside the replies."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime

from pipeline.models.cache.database import CONVERSIONS, row_digest, slices
from pipeline.models.cache.replies import ReplyCache, is_whole

KEYS_AT_ONCE = 20
"""A conversion is a whole book at times."""


@dataclass(frozen=True)
class KeptConversion:
    """``converter`` and ``limits``: by what and within what it was made; ``content``: what came of
    it, as JSON."""

    converter: str
    limits: str
    content: str


@dataclass(frozen=True)
class ConversionCache:
    """In the database of the replies, on behalf of the same owner, and forgotten with them."""

    cache: ReplyCache

    def find(self, keys: Iterable[str]) -> Iterator[tuple[str, KeptConversion]]:
        """What is kept under these keys, a few at a time."""
        columns = [
            CONVERSIONS.c[name] for name in ("key", "digest", *KeptConversion.__dataclass_fields__)
        ]
        for some in slices(list(dict.fromkeys(keys)), KEYS_AT_ONCE):
            for key, digest, *content in self.cache.database.select(columns, some):
                if is_whole(digest, key, *content, anew="it is converted again"):
                    yield key, KeptConversion(*content)

    def store(self, key: str, kept: KeptConversion) -> None:
        """In place of an earlier one; it is on disk when the call returns."""
        row = {
            "key": key, "created": datetime.now(UTC), "owner": self.cache.owner,
            "digest": row_digest(key, *astuple(kept)), **vars(kept),
        }  # fmt: skip
        self.cache.database.upsert(CONVERSIONS, [row])
