"""Cache of converted files, in the database of the replies. The key says what was converted."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime

from pipeline.models.cache.database import CONVERSIONS, row_digest, slices
from pipeline.models.cache.replies import ReplyCache, is_intact

KEYS_AT_ONCE = 20
"""Number of conversions to read at once. One conversion may be a whole book."""


@dataclass(frozen=True)
class KeptConversion:
    """A cached conversion.

    ``converter``: the program that made it. ``limits``: the limits that applied. ``content``: the
    result as JSON.
    """

    converter: str
    limits: str
    content: str


@dataclass(frozen=True)
class ConversionCache:
    """Conversions in the database of the replies. They have the same owner and are deleted with the
    replies."""

    cache: ReplyCache

    def find(self, keys: Iterable[str]) -> Iterator[tuple[str, KeptConversion]]:
        """Yield the cached conversions with their keys, a few at a time. Damaged rows are left
        out."""
        columns = [
            CONVERSIONS.c[name] for name in ("key", "digest", *KeptConversion.__dataclass_fields__)
        ]
        for some in slices(list(dict.fromkeys(keys)), KEYS_AT_ONCE):
            for key, digest, *content in self.cache.database.select(columns, some):
                if is_intact(digest, key, *content, consequence="it is converted again"):
                    yield key, KeptConversion(*content)

    def store(self, key: str, kept: KeptConversion) -> None:
        """Store a conversion in place of an older one. It is on disk when the call returns."""
        row = {
            "key": key,
            "created": datetime.now(UTC),
            "owner": self.cache.owner,
            "digest": row_digest(key, *astuple(kept)),
            **vars(kept),
        }
        self.cache.database.upsert(CONVERSIONS, [row])
