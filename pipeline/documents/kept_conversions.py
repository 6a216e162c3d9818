"""A file that was converted keeps its conversion for as long as its content is the same, whatever
its name and whichever converter is the present one. What could not be converted, or not whole, is
tried again by another converter, or within other limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from pydantic import ValidationError

from pipeline.contract.conversion import (
    Conversion,
    ConversionListener,
    ConversionRules,
    Converted,
    FileToConvert,
    NotConverted,
)
from pipeline.documents.converter_process import RESULT
from pipeline.documents.file_hashes import hashed
from pipeline.documents.limited_converter import LimitedConverter, converter_name
from pipeline.files import size_of
from pipeline.models.base import Anew
from pipeline.models.cache.conversions import ConversionCache, KeptConversion
from pipeline.text.ids import digest

PASSING = frozenset({"needs_docs", "unreadable", "io_error"})
"""Reasons that say nothing of the content."""


def conversion_key(file: FileToConvert) -> str:
    """Over its content, and the suffix, which says how it is read; empty for one that cannot be
    read."""
    try:
        return digest("conversion", file.suffix, hashed(file.path)[1])
    except OSError:
        return ""


@dataclass(frozen=True)
class KeepingConverter:
    """Convert files, and keep each conversion in the cache."""

    cache: ConversionCache
    converter: LimitedConverter = field(default_factory=LimitedConverter)

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        anew: Anew | None = None,
    ) -> list[Converted]:
        """Each conversion is stored as soon as it is there."""
        if listener:
            listener.expect(len(files))
        keys = list(map(conversion_key, files))
        wanted = [anew is None or not anew(file.name) for file in files]
        asked = zip(keys, files, wanted, strict=True)
        found = self._found({key: file for key, file, known in asked if key and known}, rules)
        results: list[Converted | None] = []
        for key, known in zip(keys, wanted, strict=True):
            kept = found.get(key) if known else None
            results.append(kept.result if kept else None)
            if kept and listener:
                listener.converted(True, kept.by_another, isinstance(kept.result, NotConverted))
        places = [place for place, result in enumerate(results) if result is None]

        def ended(number: int, result: Converted) -> None:
            file, key = files[places[number]], keys[places[number]]
            results[places[number]] = result
            if key and key == conversion_key(file):  # else it was written to meanwhile
                self._store(key, result, converter_name(file.suffix, rules), rules)
            if listener:
                listener.converted(
                    False, failed=isinstance(result, NotConverted), size=size_of(file.path)
                )

        if places:
            self.converter.each([files[place] for place in places], rules, ended)
        return [result for result in results if result is not None]

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        keys = list(map(conversion_key, files))
        found = self._found(
            {key: file for key, file in zip(keys, files, strict=True) if key}, rules
        )
        return [found[key].result if key in found else None for key in keys]

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        return set(filter(None, map(conversion_key, files)))

    def _found(
        self, by_key: Mapping[str, FileToConvert], rules: ConversionRules
    ) -> dict[str, "_Known"]:
        name_of = cache(partial(converter_name, rules=rules))
        found: dict[str, _Known] = {}
        for key, kept in self.cache.find(by_key):
            result, name = _read(kept), name_of(by_key[key].suffix)
            if result is None:
                continue
            if _is_whole(result) or (kept.converter, kept.limits) == (name, rules.limits):
                found[key] = _Known(
                    result, "" if _is_part(kept.converter, name) else kept.converter
                )
        return found

    def _store(self, key: str, result: Converted, name: str, rules: ConversionRules) -> None:
        """A failure takes the place of nothing that is whole: converting it anew may have been a
        mistake."""
        if isinstance(result, NotConverted) and (
            result.reason in PASSING or self._is_kept_whole(key)
        ):
            return
        content = RESULT.dump_json(result).decode()
        self.cache.store(key, KeptConversion(name, rules.limits, content))

    def _is_kept_whole(self, key: str) -> bool:
        kept = [_read(conversion) for _, conversion in self.cache.find([key])]
        return any(result is not None and _is_whole(result) for result in kept)


def _read(kept: KeptConversion) -> Converted | None:
    """None for what another version has written in a way that this one does not know."""
    try:
        return RESULT.validate_json(kept.content)
    except ValidationError:
        return None


def _is_whole(result: Converted) -> bool:
    return isinstance(result, Conversion) and bool(result.text.strip()) and not result.faults


def _is_part(converter: str, present: str) -> bool:
    """Whether the present one is this, or this and what reads further pages (OCR): a whole
    conversion stays as good."""
    return set(converter.split(", ")) <= set(present.split(", "))


@dataclass(frozen=True)
class _Known:
    """A conversion of the cache; ``by_another`` names its converter if today's is another one."""

    result: Converted
    by_another: str = ""
