"""The pydantic models of a query's options. ``query_fields`` defines the options themselves."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from pipeline.settings.query_fields import REPORT_MODES, QueryFields

Preset = Literal["graphmill", "lightrag"]
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "graphmill": {},
    "lightrag": {
        "mode": "hybrid",
        "top_k": 60,
        "chunk_top_k": 20,
        "max_entity_tokens": 6000,
        "max_relation_tokens": 8000,
        "max_total_tokens": 30000,
        "kg_chunk_pick_method": "RELATION",
        "related_chunk_number": 5,
        "relationship_order": "rank",
        "number_rows": True,
    },
}
"""Preset -> the values that hold where neither a request nor settings.yaml gives one. ``lightrag``
has the values of LightRAG's query parameters, and the form of its tables."""


class QueryOptions(QueryFields, BaseModel):
    """All options that settings.yaml can give a default for.

    pydantic reads the fields from the annotations of ``QueryFields``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def wants_reports_and_claims(self) -> bool:
        """Return whether mode ``local`` also shows community reports and claims."""
        return self.mode == "local" and self.context == "graphrag"

    @property
    def metadata_fields(self) -> tuple[str, ...]:
        """The names of ``shown_metadata``."""
        names = [name.strip() for name in self.shown_metadata.split(",")]
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def with_reports(self) -> bool:
        """Return whether the mode shows community reports."""
        return self.wants_reports_and_claims or self.mode in REPORT_MODES


class QuerySettings(QueryOptions):
    """The defaults of a project's questions: what it sets, else what its preset says."""

    preset: Preset = "graphmill"

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, given: Any) -> Any:
        """Return the given values with those of the named preset for keys that are left out."""
        named = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS[named], **given} if isinstance(named, str) and named in PRESETS else given

    @property
    def options(self) -> dict[str, Any]:
        """The options of a request that gives none of its own."""
        return self.model_dump(exclude={"preset"})

    @property
    def names_mode(self) -> bool:
        """Return whether settings.yaml names a mode, or a preset, which has one."""
        return not self.model_fields_set.isdisjoint(("mode", "preset"))
