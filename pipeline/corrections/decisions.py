"""Define the decisions that a line of corrections.jsonl can hold.

A name in a decision is the name before any correction, as the extractions have it. The page
docs/corrections.md explains each kind to users.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator

from pipeline.contract.conditions import OF_PEOPLE
from pipeline.text.ids import clean_name, digest, document_id, match_key

LONGEST_DESCRIPTION = 1500
"""Characters of a description. A single description of this length is never summarized, so that a
line which replaces one costs no call."""
LONGEST_NAME = 1000
"""Characters of a name, a type or a quoted phrase."""
LONGEST_VALUE = 500
"""Characters of the value of a property, as many as a text may give."""
ID_DIGITS = 12
"""Hexadecimal digits of a decision's id: short enough to type, long enough for any file."""

FOR_PEOPLE = ("by", "at", "why", "was", "replaces")
"""Fields that change no result: who decided and why, and what an undo needs to know."""

_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Control characters other than tabs and ends of lines, of which PostgreSQL refuses some, so that a
load with one fails; and halves of characters, as JSON may hold, which no file in UTF-8 can."""
Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME)
]
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_DESCRIPTION)
]
Value = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_VALUE),
    Field(coerce_numbers_to_str=True),
]
"""A value of a property as a person writes it; a number of JSON is its digits."""


def _list_texts(value: object) -> Iterator[str]:
    """Yield a text, or the texts in a tuple of such values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _list_texts(each)


class Decision(BaseModel):
    """A decision of a person.

    ``by``, ``at`` and ``why`` say who made it, when, and for which reason. They change no result,
    so they are no part of the decision's id.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = ""
    at: str = ""
    why: str = ""

    @model_validator(mode="after")
    def _check_characters(self) -> Self:
        """Check that every store accepts the texts. Raises ValueError if not."""
        for field, value in self:
            if any(map(_REFUSED.search, _list_texts(value))):
                raise ValueError(f"{field} has a control character, or half a character; remove it")
        return self

    @property
    def id(self) -> str:
        """The id of the decision: a digest of what it decides."""
        content = self.model_dump(exclude=set(FOR_PEOPLE), exclude_defaults=True)
        parts = [f"{key}={value}" for key, value in sorted(content.items())]
        return digest("correction", getattr(self, "kind", ""), *parts)[:ID_DIGITS]


class Scoped(Decision):
    """A decision that may hold for one document only, or for text units with a quoted phrase.

    ``document`` is a document's id, or its path below the input folder (its key, where records
    have keys). ``quote`` is a phrase that the text unit contains.
    """

    document: str = ""
    quote: str = ""

    @property
    def document_id(self) -> str:
        """The id of the document, or "" if the decision holds for all."""
        if not self.document or self.document.startswith("doc-"):
            return self.document
        return document_id(self.document)


class Rename(Scoped):
    """Give an entity another name. Two entities with one name are one entity.

    With a document or a quote, it splits what the texts call by one name. ``type`` restricts it to
    text units that give the entity this type.

    ``was`` has the new names that it had before, the first one first: later renamings of these led
    it on. ``replaces`` has the renamings to this entity that it took the place of: the name that
    each was about, and its ``was``. An undo leads back by both; they change no result.
    """

    kind: Literal["rename"] = "rename"
    entity: Name
    to: Name
    type: str = ""
    was: tuple[Name, ...] = ()
    replaces: tuple[Annotated[tuple[Name, ...], Field(min_length=1)], ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Check that the decision changes the name. Raises ValueError if it does not."""
        if clean_name(self.entity) == clean_name(self.to):
            raise ValueError(f"'{self.entity}' has this name already; give another one")
        return self


class DeleteEntity(Scoped):
    """Delete an entity, with all relationships of which it is an end."""

    kind: Literal["delete_entity"] = "delete_entity"
    entity: Name
    type: str = ""


class SetType(Decision):
    """Set the type of an entity."""

    kind: Literal["set_type"] = "set_type"
    entity: Name
    to: Name


class DescribeEntity(Decision):
    """Set the description of an entity, or add a sentence to it.

    With ``append``, the text joins the descriptions of the documents; otherwise it replaces them.
    """

    kind: Literal["describe_entity"] = "describe_entity"
    entity: Name
    description: Text
    append: bool = False


class SetProperty(Scoped):
    """Give a property of an entity this value, in place of the values that texts give.

    The value is read as ontology.yaml declares the property; a list is separated by semicolons.
    With ``document``, the value is cited by that document, by its text units with ``quote`` or by
    its first one. It counts as long as the document is there. Without it, the value has no source
    but the person.
    """

    kind: Literal["set_property"] = "set_property"
    entity: Name
    property: Name
    value: Value

    @model_validator(mode="after")
    def _check_quote(self) -> Self:
        """Check that a quote has a document. Raises ValueError if it has none."""
        if self.quote and not self.document:
            raise ValueError("a quote needs the document that has it; name its path")
        return self


class DeleteProperty(Scoped):
    """Delete the values of an entity's property, or with ``value`` this one alone.

    A document or a quote restricts it to the text units that give the value there. ``value`` is
    written as the table ``attributes`` has it.
    """

    kind: Literal["delete_property"] = "delete_property"
    entity: Name
    property: Name
    value: str = ""


class Statement(Decision):
    """A decision about what is said of a source and a target. ``type`` is the statement's type."""

    source: Name
    target: Name
    type: str = ""

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        """Check that the ends differ. Raises ValueError if they are one entity."""
        if match_key(self.source) == match_key(self.target):
            raise ValueError("source and target are one entity; name two")
        return self


class AddStatement(Statement, Scoped):
    """Add a statement to the text units of a document that have the quoted phrase.

    Without a quote, the statement belongs to the document's first text unit. Without a document, it
    is a document of its own, whose source is ``own_source``. ``source_type`` and ``target_type``
    are the types of the ends, where no text says them.
    """

    kind: Literal["add_statement"] = "add_statement"
    description: Text
    source_type: str = ""
    target_type: str = ""

    @property
    def own_source(self) -> str:
        """The source of the document that the statement is, if it names none."""
        return f"{OF_PEOPLE}{self.id}"

    @property
    def document_id(self) -> str:
        """The id of the document that states it, or of the one that it is."""
        return super().document_id or document_id(self.own_source)

    @model_validator(mode="after")
    def _check_quote(self) -> Self:
        """Check that a quote has a document. Raises ValueError if it has none."""
        if self.quote and not self.document:
            raise ValueError("a quote needs the document that has it; name its path")
        return self


class DeleteStatement(Statement):
    """Delete the statements of these ends, or those of one type only."""

    kind: Literal["delete_statement"] = "delete_statement"


class TurnStatement(Statement):
    """Exchange source and target of the statements of these ends, or of those of one type only."""

    kind: Literal["turn_statement"] = "turn_statement"


class RetypeStatement(Statement):
    """Give the statements of these ends, or those of one type only, another type."""

    kind: Literal["retype_statement"] = "retype_statement"
    to: Name


class DescribeStatement(Statement):
    """Set the description of the statements of these ends, or add a sentence to it."""

    kind: Literal["describe_statement"] = "describe_statement"
    description: Text
    append: bool = False


class Pair(Decision):
    """A decision that two names are the same thing, or different ones, for resolve_entities."""

    a: Name
    b: Name

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Check that the names differ. Raises ValueError if they are one name."""
        if match_key(self.a) == match_key(self.b):
            raise ValueError(
                f"'{self.a}' and '{self.b}' are one name but for case and punctuation; nothing to"
                " decide"
            )
        return self


class Same(Pair):
    """Two names are one entity."""

    kind: Literal["same"] = "same"


class Different(Pair):
    """Two names are two entities."""

    kind: Literal["different"] = "different"


class Keep(Decision):
    """Keep an entity off the list of suspects; with ``other``, only as a duplicate of that one.

    It changes nothing in the graph. Names are those that the graph has.
    """

    kind: Literal["keep"] = "keep"
    entity: Name
    other: str = ""


AnyDecision = Annotated[
    Rename
    | DeleteEntity
    | SetType
    | DescribeEntity
    | SetProperty
    | DeleteProperty
    | AddStatement
    | DeleteStatement
    | TurnStatement
    | RetypeStatement
    | DescribeStatement
    | Same
    | Different
    | Keep,
    Field(discriminator="kind"),
]
DECISION: TypeAdapter[AnyDecision] = TypeAdapter(AnyDecision)
KINDS: dict[str, type[Decision]] = {
    "rename": Rename,
    "delete_entity": DeleteEntity,
    "set_type": SetType,
    "describe_entity": DescribeEntity,
    "set_property": SetProperty,
    "delete_property": DeleteProperty,
    "add_statement": AddStatement,
    "delete_statement": DeleteStatement,
    "turn_statement": TurnStatement,
    "retype_statement": RetypeStatement,
    "describe_statement": DescribeStatement,
    "same": Same,
    "different": Different,
    "keep": Keep,
}
"""Kind of decision -> its fields."""
