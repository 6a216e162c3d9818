"""Examines conditions on documents in the settings: the loaded documents must have their fields."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.doctor.finding import Finding
from pipeline.settings.validation import did_you_mean


def unknown_fields(
    what: str, setting: str, where: Mapping[str, Any], fields: Collection[str]
) -> Iterator[Finding]:
    """Warn of each field of the conditions that no loaded document has.

    ``what`` is the subject of the findings, ``setting`` the place of the conditions in
    settings.yaml. ``fields`` are those of the documents.
    """
    for field in where:
        if field not in fields:
            fact = f"{setting}: no loaded document has a field '{field}'"
            near = did_you_mean(field, fields, "they have")
            yield Finding("settings", what, "warning", fact, f"correct it: {near}")
