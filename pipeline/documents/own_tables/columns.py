"""The columns of a project's own tables, as tables/tables.yaml names them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipeline.documents.metadata import as_json
from pipeline.errors import SettingsError
from pipeline.settings.validation import did_you_mean, explain, not_yaml, parse_yaml
from pipeline.text.ids import digest

FOLDER = "tables"
"""The folder of a project with its tables."""
FILE = "tables.yaml"
"""The file in that folder with the columns of tables."""
FIELDS = (
    "source", "target", "type", "source_type", "target_type", "name", "description", "weight",
    "properties", "document", "date", "valid_from", "valid_to", "id", "aliases",
)  # fmt: skip
"""The fields of a row, as columns name them. All other columns are properties."""
CONSTANTS = ("type", "source_type", "target_type", "document", "date", "valid_from", "valid_to")
"""The fields that may have one value for all rows of a table."""
ENTITIES = "entities"
"""The kind of a table of master data."""


class TableColumns(BaseModel):
    """The columns of one table.

    ``columns`` maps fields to names of columns, where these differ. ``values`` maps fields to one
    value for all rows whose own cell is empty. ``encoding`` is that of the file; it is detected if
    it is "". A table of the kind "entities" is master data: each row describes an entity and has an
    id, which becomes the value of the property ``id_property``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: Mapping[str, str] = Field(default_factory=dict)
    values: Mapping[str, str] = Field(default_factory=dict)
    encoding: str = ""
    kind: Literal["facts", "entities"] = "facts"
    id_property: str = Field(default="external_id", pattern=r"^[^\W\d_]\w*$", max_length=100)

    @field_validator("columns")
    @classmethod
    def _name_fields(cls, columns: Mapping[str, str]) -> Mapping[str, str]:
        _refuse_unknown(columns, FIELDS)
        return columns

    @field_validator("values")
    @classmethod
    def _name_constants(cls, values: Mapping[str, str]) -> Mapping[str, str]:
        _refuse_unknown(values, CONSTANTS)
        return values

    @model_validator(mode="after")
    def _check_aliases(self) -> Self:
        if "aliases" in self.columns and not self.is_master_data:
            raise ValueError("'aliases' is a field of master data; add kind: entities")
        return self

    @property
    def is_master_data(self) -> bool:
        return self.kind == ENTITIES

    @property
    def digest(self) -> str:
        """A hash of everything here that can change what a row says; "" if nothing is said."""
        said = self.model_dump(exclude_defaults=True)
        return digest(as_json(said)) if said else ""


AS_NAMED = TableColumns()
"""The columns of a table that tables.yaml does not have: they are named as the fields are."""


def read_columns(folder: Path) -> Mapping[str, TableColumns]:
    """Return the columns of the tables in this folder that its tables.yaml names.

    Raises SettingsError, with the table and the key, if the file has a mistake.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; let this user read it") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8; save it as UTF-8") from None
    return parse_columns(text, str(path))


def list_id_properties(folder: Path) -> tuple[str, ...]:
    """Return the properties that hold the ids of master data in this folder, sorted.

    It is empty if no table is of the kind "entities". Raises SettingsError if tables.yaml has a
    mistake.
    """
    tables = read_columns(folder).values()
    return tuple(sorted({one.id_property for one in tables if one.is_master_data}))


def parse_columns(text: str, where: str) -> Mapping[str, TableColumns]:
    """Return the columns that a text in YAML names. Raises SettingsError for a mistake."""
    try:
        content = parse_yaml(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{where}: {not_yaml(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{where}: expected names of tables; write one such as firms.csv:")
    tables: dict[str, TableColumns] = {}
    for name, entry in content.items():
        tables[str(name)] = _read_entry(f"{where}: {name}", entry)
    return tables


def _read_entry(where: str, entry: Any) -> TableColumns:
    try:
        return TableColumns.model_validate(entry or {})
    except ValidationError as error:
        raise SettingsError(explain(where, error, TableColumns.model_fields)) from None


def _refuse_unknown(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raise ValueError for a name that is not among the known ones."""
    for name in given:
        if name not in known:
            raise ValueError(f"'{name}' is no field; {did_you_mean(name, known, 'fields')}")
