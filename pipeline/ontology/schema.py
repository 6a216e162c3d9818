"""The keys of ontology.yaml, as pydantic models."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from pipeline.text.ids import clean

Policy = Literal["reject", "other", "keep"]
"""The treatment of something outside the ontology: it is left out, it gets the type OTHER, or it
stays as it is."""
REJECT: Policy = "reject"
OTHER: Policy = "other"
KEEP: Policy = "keep"
OTHER_TYPE = "OTHER"
"""The type of entities and relationships outside the ontology, if ``otherwise`` is "other"."""
ANY_TYPE = "*"
"""The end of a pattern that entities of every type fit, and the type whose properties entities of
all types have that declare none."""


def check_characters(name: str) -> str:
    """Return the name. Raises ValueError if it has a character that no store accepts."""
    if clean(name) != name or "\n" in name:
        raise ValueError("the name has a control character; remove it")
    return name


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=100),
    AfterValidator(check_characters),
]
Value = Literal["string", "number", "date", "enum", "list"]
Pattern = tuple[Name, Name, Name]
"""Source type, relationship type and target type."""


class Section(BaseModel):
    """A section of the file: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EnumValue(Section):
    """A value that an enum allows; a text is one that has a name only."""

    name: Name
    synonyms: tuple[Name, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def accept_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class Property(Section):
    """A property of a type.

    ``unit`` is that of a number. ``values`` are those that an enum allows. ``pattern`` is a regular
    expression that a text, or each text of a list, must match as a whole.
    """

    name: Name
    type: Value = "string"
    description: str = ""
    synonyms: tuple[Name, ...] = ()
    required: bool = False
    unit: str = ""
    values: tuple[EnumValue, ...] = ()
    pattern: str = ""

    @model_validator(mode="before")
    @classmethod
    def accept_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class TypeSection(Section):
    """A type of entities or of relationships; a text is one that has a name only."""

    name: Name
    description: str = ""
    synonyms: tuple[Name, ...] = ()
    properties: tuple[Property, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def accept_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class EntityType(TypeSection):
    """A type of entities. A pattern of its ``parent`` holds for it too."""

    parent: Name | None = None


class RelationshipType(TypeSection):
    """A type of relationships. With ``symmetric`` both directions mean the same."""

    symmetric: bool = False


class Otherwise(Section):
    """The treatment of everything outside the ontology, by its kind; a text holds for all."""

    entity_types: Policy = REJECT
    relationship_types: Policy = REJECT
    patterns: Policy = REJECT
    properties: Policy = REJECT

    @model_validator(mode="before")
    @classmethod
    def accept_policy(cls, given: Any) -> Any:
        return dict.fromkeys(cls.model_fields, given) if isinstance(given, str) else given


class Ontology(Section):
    """The content of ontology.yaml.

    Without ``entity_types`` every type of entities is allowed, and likewise for relationships. With
    ``patterns`` each relationship of a known type must fit one of them.
    """

    entity_types: tuple[EntityType, ...] = ()
    relationship_types: tuple[RelationshipType, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    otherwise: Otherwise = Field(default_factory=Otherwise)

    @model_validator(mode="after")
    def check_content(self) -> Self:
        if not self.entity_types and not self.relationship_types:
            raise ValueError("neither entity_types nor relationship_types; name some types")
        return self
