"""The settings of inputs beside the input folder: where documents are, and which are read."""

import re
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from pipeline.settings.addresses import fault_of_object_store, kind_of_store

TitleFrom = Literal["given", "heading", "file_name", "first_line"]
WebPages = Literal["whole", "article"]
"""The part of a page in HTML that is read."""
BUCKETS = frozenset({"s3", "gs", "az"})
"""The types of inputs in an object store."""
READ_AS_LISTED = frozenset({"git", "sql"})
"""The types of inputs that are read in the state in which they were listed."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class InputColumns(BaseModel):
    """The columns of records that have the id, the title and the text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = "id"
    title: str = "title"
    text: str = "text"


class Input(BaseModel):
    """An input beside the input folder. Sources of its documents begin with ``@name/``.

    ``url`` is a folder, a git repository on this machine, a bucket, or the URL of a database; it is
    in no fingerprint or file. ``include`` and ``exclude`` are patterns of the names of files.
    ``columns`` and ``title_order`` stand in place of those of the section ``input``. ``ref`` is a
    branch, tag or commit of a repository. ``query`` gives the rows of a database: ``id``,
    ``title`` and ``text`` name columns, ``metadata`` those that are kept (all others if empty), and
    ``changed`` one whose value changes with the row. ``max_deleted`` is the share of its documents
    that may be gone in a run, in place of ``max_delete_ratio``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    type: Literal["folder", "git", "sql", "s3", "gs", "az"] = "folder"
    url: SecretStr = Field(exclude=True, repr=False)
    include: str = "**/*"
    exclude: tuple[str, ...] = ()
    columns: dict[str, InputColumns] = {}
    title_order: tuple[TitleFrom, ...] | None = None
    ref: str = "HEAD"
    query: str = Field(default="", exclude=True)
    id: str = "id"
    title: str = "title"
    text: str = "text"
    metadata: tuple[str, ...] = ()
    changed: str = ""
    max_deleted: float | None = Field(default=None, ge=0, le=1, exclude=True)

    @property
    def prefix(self) -> str:
        """The beginning of the names of its files."""
        return f"@{self.name}/"

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("write up to 32 of a-z, 0-9, _ and -, such as wiki")
        return name

    @field_validator("ref")
    @classmethod
    def _is_no_option(cls, ref: str) -> str:
        if not ref or ref.startswith("-") or any(character.isspace() for character in ref):
            raise ValueError("no branch or tag; write one such as main")
        return ref

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        if not self.url.get_secret_value():
            raise ValueError("no url; name a folder, a repository or a database")
        url = self.url.get_secret_value()
        if self.type in BUCKETS:
            fault = fault_of_object_store(url)
            if not fault and kind_of_store(url) != self.type:
                fault = (
                    f"url: no address of the type {self.type}; write {self.type}://bucket/prefix"
                )
            if fault:
                raise ValueError(fault)
        elif self.type != "sql" and "://" in url:
            # The address is not shown, since it may hold a key.
            raise ValueError("url: no path; copy or clone what is there, and name the folder")
        if (self.type == "sql") != bool(self.query):
            raise ValueError("query: a select statement goes with type sql, and with no other")
        if self.type != "sql" and (self.changed or self.metadata):
            raise ValueError("changed, metadata: they name columns, so they go with type sql alone")
        return self


def check_names(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """Return the inputs; raises ValueError if two have one name."""
    names = [each.name for each in inputs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the name '{twice[0]}' is there twice; give each input its own")
    return inputs
