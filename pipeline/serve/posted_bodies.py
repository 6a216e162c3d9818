"""The bodies of documents and runs over HTTP, as the OpenAPI document shows them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pipeline.documents.owned import LONGEST_ID
from pipeline.serve.bodies import Body

LONGEST_TITLE = 1000
Id = Annotated[str, StringConstraints(max_length=LONGEST_ID)]
WorkflowName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]


class TextSent(BaseModel):
    """A text, with a title and fields of metadata."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1)
    title: str = Field(default="", max_length=LONGEST_TITLE)
    metadata: dict[str, Any] = Field(
        default={}, description="Values of JSON, on which conditions can be put."
    )


class DocumentSent(TextSent):
    id: Id = Field(
        default="",
        description="A plain name of a file; empty: one that the content gives.",
    )


class DocumentsSent(BaseModel):
    """Documents that are added, or that replace those of the same id."""

    model_config = ConfigDict(extra="forbid")
    documents: list[DocumentSent] = Field(min_length=1)


class DocumentAccepted(Body):
    id: str = Field(description="The document's id from now on; a text has the suffix .md.")
    changed: bool = Field(description="False if it was there already, with this content.")


class DocumentsAccepted(Body):
    documents: list[DocumentAccepted]


class PartLeftOut(Body):
    step: str
    reason: str
    message: str


class DocumentState(Body):
    id: str
    source: str = Field(description="By which answers cite it.")
    bytes: int
    written: str = Field(description="When it was last written, in ISO 8601.")
    state: str = Field(
        description="waiting: for the next run; in: it can be found; left_out: no part of it can."
    )
    since: str = Field(description="The end of the run that read it so, in ISO 8601.")
    run: str = Field(description="The id of that run.")
    document_ids: list[str]
    left_out: list[PartLeftOut] = Field(description="Why a part of it, or all of it, is not in.")


class DocumentStates(Body):
    documents: list[DocumentState]
    next: str | None = Field(description="The value of `after` for the next page; null: no more.")


class RunAsked(BaseModel):
    """A run. ``max_cost`` is the cost at which it stops, in the currency of the price table."""

    model_config = ConfigDict(extra="forbid")
    workflow: WorkflowName | None = Field(
        default=None, description="By default the one that settings name."
    )
    # Strict: true is no amount of money.
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)
    allow_deletes: bool = Field(
        default=False,
        description="Go on even if more documents are gone than max_delete_ratio.",
    )


class RunState(Body):
    id: str
    workflow: str
    state: str = Field(
        description=(
            "waiting: for the run that is under way; running; ended; refused: it did not begin;"
            " killed."
        )
    )
    max_cost: float | None = Field(description="At which it stops; null: it asks no priced model.")
    run: str = Field(description="The id of the run that was begun, as in `graphmill runs`.")
    outcome: str = Field(default="", description="Of a run that has ended.")
    exit_code: int | None = None
    message: str = ""
    cost: float | None = None
    documents: dict[str, int] = Field(default={}, description="Counts of new, edited and gone.")
