"""Define the decisions that a line of corrections.jsonl can hold.

A name in a decision is the name before any correction, as the extractions have it; only `Keep`
names entities of the graph. The page docs/corrections.md explains each kind to users. How a kind is
applied is in the other files of this folder.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator

from pipeline.contract.conditions import CORRECTION_PREFIX
from pipeline.text.ids import clean_name, digest, match_key
from pipeline.text.ids import document_id as make_document_id

LONGEST_DESCRIPTION = 1500
"""Characters of a description. A single description of this length is never summarized, so that
replacing a description by a correction needs no call of a model."""
LONGEST_NAME = 1000
"""Characters of a name, a type or a quoted phrase."""
LONGEST_VALUE = 500
"""Characters of the value of a property, as many as a text may give."""
ID_DIGITS = 12
"""Hexadecimal digits of a decision's id: short enough to type, long enough for any file."""

FIELDS_WITHOUT_EFFECT = ("by", "at", "why", "was", "replaces")
"""Fields that change no result: who decided and why, and what an undo needs to know."""
_DOCUMENT_ID = re.compile("doc-[0-9a-f]{32}")
"""An id as `make_document_id` makes it. A path may begin with the same letters."""

_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters that are refused: control characters other than tabs and ends of lines, and single
surrogates. PostgreSQL cannot store some control characters, and a load with one fails. A surrogate
may stand alone in JSON, but UTF-8 cannot encode it."""
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
"""A value of a property as a person writes it. A number in JSON becomes text."""


def _list_texts(value: object) -> Iterator[str]:
    """Yield a text, or the texts in a tuple of such values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _list_texts(each)


class Decision(BaseModel):
    """A decision of a person.

    ``by``, ``at`` and ``why`` say who made it, when, and for which reason. Like all
    FIELDS_WITHOUT_EFFECT, they are no part of the decision's id.
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
                raise ValueError(
                    f"{field} has a control character, or a single surrogate; remove it"
                )
        return self

    @property
    def id(self) -> str:
        """The id of the decision: a digest of what it decides."""
        # A field that a later version adds must not change the ids of earlier lines.
        content = self.model_dump(exclude=set(FIELDS_WITHOUT_EFFECT), exclude_defaults=True)
        parts = [f"{key}={value}" for key, value in sorted(content.items())]
        # The kind is the default of each class, so the content lacks it.
        kind = getattr(self, "kind", "")
        return digest("correction", kind, *parts)[:ID_DIGITS]


class Scoped(Decision):
    """A decision that may hold for one document only, or for text units with a quoted phrase.

    ``document`` is a document's id, or its path below the input folder; for a record with a key it
    is that key. ``quote`` is a phrase that the text unit contains.
    """

    document: str = ""
    quote: str = ""

    @property
    def document_id(self) -> str:
        """The id of the document, or "" if the decision holds for all."""
        if not self.document or _DOCUMENT_ID.fullmatch(self.document):
            return self.document
        return make_document_id(self.document)


class Cited(Scoped):
    """A decision that adds something to what a document says.

    A quote is then not enough: the addition is cited by text units of one document.
    """

    @model_validator(mode="after")
    def _check_quote(self) -> Self:
        """Check that a quote has a document. Raises ValueError if it has none."""
        if self.quote and not self.document:
            raise ValueError("a quote needs the document that has it; name its path")
        return self


class Rename(Scoped):
    """Give an entity another name. Two entities with one name are one entity.

    With a document or a quote, it splits what the texts call by one name. ``type`` restricts it to
    text units that give the entity this type.

    A later renaming of ``to`` changes this line in place. ``was`` keeps the former values of
    ``to``, oldest first: after A to B and B to C, the first line has the entity A, ``to`` C and
    ``was`` (B). A renaming back, B to A, removes the line A to B. Its ``replaces`` keeps each line
    that it removed, as (entity, *was). An undo needs both.
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
        # A renaming may change case alone, so the names are compared as written.
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


class SetProperty(Cited):
    """Give a property of an entity this value, in place of the values that texts give.

    The value is read as ontology.yaml declares the property; a list is separated by semicolons.
    With ``document``, the value's evidence is the document's text units with ``quote``, or its
    first one. The value goes with the document. Without it, nobody but the person stands for the
    value.
    """

    kind: Literal["set_property"] = "set_property"
    entity: Name
    property: Name
    value: Value


class DeleteProperty(Scoped):
    """Delete the values of an entity's property, or with ``value`` this one alone.

    A document or a quote restricts it to the text units that give the value there. ``value`` is
    written as the table ``attributes`` has it.
    """

    kind: Literal["delete_property"] = "delete_property"
    entity: Name
    property: Name
    value: str = ""


class StatementDecision(Decision):
    """A decision about the statements from a source to a target, in this direction alone.

    ``type`` is the statement's type.
    """

    source: Name
    target: Name
    type: str = ""

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        """Check that the ends differ. Raises ValueError if they are one entity."""
        if match_key(self.source) == match_key(self.target):
            raise ValueError("source and target are one entity; name two")
        return self


class AddStatement(StatementDecision, Cited):
    """Add a statement to the text units of a document that have the quoted phrase.

    Without a quote, the statement belongs to the document's first text unit. Without a document, a
    document is made of the statement alone, with the path ``own_document``. ``source_type`` and
    ``target_type`` are the types of the ends, where no text says them.
    """

    kind: Literal["add_statement"] = "add_statement"
    description: Text
    source_type: str = ""
    target_type: str = ""

    @property
    def own_document(self) -> str:
        """The path of the document made of this statement, if the statement names no document."""
        return f"{CORRECTION_PREFIX}{self.id}"

    @property
    def document_id(self) -> str:
        """The id of the named document, or of the one made of this statement."""
        return super().document_id or make_document_id(self.own_document)


class DeleteStatement(StatementDecision):
    """Delete the statements of these ends, or those of one type only."""

    kind: Literal["delete_statement"] = "delete_statement"


class TurnStatement(StatementDecision):
    """Exchange source and target of the statements of these ends, or of those of one type only.

    Statements that already have the other direction stay as they are.
    """

    kind: Literal["turn_statement"] = "turn_statement"


class RetypeStatement(StatementDecision):
    """Give the statements of these ends, or those of one type only, another type."""

    kind: Literal["retype_statement"] = "retype_statement"
    to: Name


class DescribeStatement(StatementDecision):
    """Set the description of the statements of these ends, or add a sentence to it."""

    kind: Literal["describe_statement"] = "describe_statement"
    description: Text
    append: bool = False


class PairDecision(Decision):
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


class Same(PairDecision):
    """Two names are one entity."""

    kind: Literal["same"] = "same"


class Different(PairDecision):
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
_CLASSES: tuple[type[Decision], ...] = get_args(get_args(AnyDecision)[0])
KINDS = {fields.model_fields["kind"].default: fields for fields in _CLASSES}
"""Kind of decision -> the class with its fields."""
