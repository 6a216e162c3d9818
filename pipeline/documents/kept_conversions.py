"""Keep conversions of files in a cache, so that a file is converted once for each content.

A conversion is kept whatever the file's name and whichever converter is used now. A file that could
not be converted, or not completely, is tried again by another converter or within other limits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Protocol

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
from pipeline.models.base import Repeats
from pipeline.models.cache.conversions import ConversionCache, KeptConversion
from pipeline.text.ids import digest

PASSING = frozenset({"needs_docs", "unreadable", "io_error"})
"""Reasons of failures that do not depend on the content of a file."""


def conversion_key(file: FileToConvert) -> str:
    """Return a hash of the file's content and suffix, or "" if the file cannot be read.

    The suffix decides how a file is read.
    """
    try:
        return digest("conversion", file.suffix, hashed(file.path)[1])
    except OSError:
        return ""


class EachConverter(Protocol):
    """A converter that reports each file as soon as it is converted."""

    def each(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        ended: Callable[[int, Converted], None],
    ) -> None:
        """Convert the files and call ``ended`` with the index and the result of each.

        The calls are made in the caller's thread.
        """
        ...


@dataclass(frozen=True)
class KeepingConverter:
    """A converter that keeps each conversion in the cache."""

    cache: ConversionCache
    converter: EachConverter = field(default_factory=LimitedConverter)

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: ConversionListener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        """Return the conversions of the files, from the cache or by converting them.

        Files that ``repeats`` names are converted in any case. Each conversion is stored as soon as
        it is finished. ``listener`` receives the progress.
        """
        if listener:
            listener.expect(len(files))
        keys = list(map(conversion_key, files))
        may_be_kept = [repeats is None or not repeats(file.name) for file in files]
        candidates = zip(keys, files, may_be_kept, strict=True)
        wanted = {key: file for key, file, may_be in candidates if key and may_be}
        found = self._find_usable(wanted, rules)
        results: list[Converted | None] = []
        for key, may_be in zip(keys, may_be_kept, strict=True):
            kept = found.get(key) if may_be else None
            results.append(kept.result if kept else None)
            if kept and listener:
                listener.converted(True, kept.by_another, isinstance(kept.result, NotConverted))
        places = [place for place, result in enumerate(results) if result is None]

        def ended(number: int, result: Converted) -> None:
            place = places[number]
            file, key = files[place], keys[place]
            results[place] = result
            # If the key has changed, the file was written to in the meantime.
            if key and key == conversion_key(file):
                self._store(key, result, converter_name(file.suffix, rules), rules)
            if listener:
                is_failed = isinstance(result, NotConverted)
                listener.converted(False, failed=is_failed, size=size_of(file.path))

        if places:
            self.converter.each([files[place] for place in places], rules, ended)
        return [result for result in results if result is not None]

    def known(
        self, files: Sequence[FileToConvert], rules: ConversionRules
    ) -> list[Converted | None]:
        """Return the kept conversion of each file, or None if it would have to be converted."""
        keys = list(map(conversion_key, files))
        by_key = {key: file for key, file in zip(keys, files, strict=True) if key}
        found = self._find_usable(by_key, rules)
        return [found[key].result if key in found else None for key in keys]

    def keys(self, files: Sequence[FileToConvert]) -> set[str]:
        """Return the keys of the files that can be read."""
        return set(filter(None, map(conversion_key, files)))

    def _find_usable(
        self, by_key: Mapping[str, FileToConvert], rules: ConversionRules
    ) -> dict[str, "_KeptResult"]:
        """Return the kept conversions of the keys that need not be repeated.

        A complete conversion is usable always; another one only if it was made by the present
        converter within the present limits.
        """
        name_of = cache(partial(converter_name, rules=rules))
        found: dict[str, _KeptResult] = {}
        for key, kept in self.cache.find(by_key):
            result = _parse_result(kept)
            present = name_of(by_key[key].suffix)
            if result is None:
                continue
            is_from_present = (kept.converter, kept.limits) == (present, rules.limits)
            if _is_complete(result) or is_from_present:
                other = "" if _includes(present, kept.converter) else kept.converter
                found[key] = _KeptResult(result, other)
        return found

    def _store(self, key: str, result: Converted, name: str, rules: ConversionRules) -> None:
        """Keep a conversion.

        A failure does not replace a complete conversion: its repetition may have been a mistake.
        Neither is a failure kept that does not depend on the content.
        """
        is_failure = isinstance(result, NotConverted)
        if is_failure and (result.reason in PASSING or self._has_complete(key)):
            return
        content = RESULT.dump_json(result).decode()
        self.cache.store(key, KeptConversion(name, rules.limits, content))

    def _has_complete(self, key: str) -> bool:
        """Return whether a complete conversion is kept under the key."""
        kept = [_parse_result(conversion) for _, conversion in self.cache.find([key])]
        return any(result is not None and _is_complete(result) for result in kept)


def _parse_result(kept: KeptConversion) -> Converted | None:
    """Return the kept result, or None if another version has written it in an unknown form."""
    try:
        return RESULT.validate_json(kept.content)
    except ValidationError:
        return None


def _is_complete(result: Converted) -> bool:
    """Return whether the result has text and no page or document is missing."""
    if not isinstance(result, Conversion) or result.faults:
        return False
    return bool(result.documents) or bool(result.text.strip())


def _includes(present: str, converter: str) -> bool:
    """Return whether the present converter is this one, perhaps with one for further pages (OCR).

    A complete conversion by ``converter`` is then as good as one by the present converter.
    """
    return set(converter.split(", ")) <= set(present.split(", "))


@dataclass(frozen=True)
class _KeptResult:
    """A result from the cache; ``by_another`` names its converter if it is not the present one."""

    result: Converted
    by_another: str = ""
