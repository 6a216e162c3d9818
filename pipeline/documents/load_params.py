"""The params of load_documents, and the files that they mean."""

import codecs
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator

from pipeline.contract.conversion import (
    ConversionRules,
    OwnConverters,
    own_converters,
)
from pipeline.contract.registry import Params
from pipeline.documents.archives import DAMAGED
from pipeline.documents.archives import SUFFIX as ARCHIVE
from pipeline.documents.conversations import (
    PEOPLE,
    people_of,
)
from pipeline.documents.dates import (
    DEFAULT_FIELDS,
    DEFAULT_ORDER,
    DateFrom,
)
from pipeline.documents.encoding import decode
from pipeline.documents.files import is_match, list_files
from pipeline.documents.input_files import Listing, content_of
from pipeline.documents.limited_converter import is_converted
from pipeline.documents.titles import TITLE_ORDER, Found
from pipeline.settings.inputs import READ_AS_LISTED, Input, InputColumns, WebPages, check_names

MOUNTS, COLUMNS = "mounts", "columns_given"
"""The names of notes for the next run."""


class LoadParams(Params):
    """The files to read, and how records and encodings are read.

    ``file_pattern`` is a glob below ``path``. If ``encoding`` is "", it is detected: UTF-8, UTF-16,
    or else the most likely of all; of equally likely ones the first of ``encodings``. ``mounts``
    are folders below ``path``, and "." for it, that were mount points in the last run.
    ``columns_given`` has, by the names of inputs, the columns that their queries gave then.
    ``hashes`` is the folder in which hashes of files are kept between runs, "" for none.
    ``title_order`` has the origins of a document's title, the best first. ``dates_from`` are the
    origins of a document's date, the best first, and ``date_fields`` the fields of metadata that
    may hold it.
    ``day_first`` says whether 03/04/2024 is in April; None takes the year alone. ``columns`` has
    the columns of files of records that match a pattern, in place of those of all files. ``inputs``
    are those beside the input folder. ``web_pages`` says whether of a page in HTML the article is
    read, or all of it.
    """

    # Not part of the fingerprint: a project may move, and the stamp covers the content.
    path: str = Field(default="data/input", exclude=True)
    file_pattern: str = "**/*"
    id_column: str = "id"
    title_column: str = "title"
    text_column: str = "text"
    encoding: str = ""
    encodings: tuple[str, ...] = ("gb18030", "shift_jis", "cp1252")
    max_file_mb: int = Field(default=100, ge=1)
    title_order: tuple[Found, ...] = TITLE_ORDER
    dates_from: tuple[DateFrom, ...] = DEFAULT_ORDER
    date_fields: tuple[str, ...] = DEFAULT_FIELDS
    day_first: bool | None = None
    # The stamp covers the converter's name. Its words may be secrets, so they are never shown.
    converter: OwnConverters = Field(default="", exclude=True, repr=False)
    converter_folder: str = Field(default=".", exclude=True)
    # The stamp covers it by the converter's name, for those projects that have web pages.
    web_pages: WebPages = Field(default="whole", exclude=True)
    convert_seconds: float = Field(default=900, gt=0)
    convert_mb: int = Field(default=768, ge=1)
    # `noted` hands them to the next run.
    mounts: tuple[str, ...] = Field(default=(), exclude=True)
    columns_given: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude=True)
    hashes: str = Field(default="", exclude=True)
    columns: dict[str, InputColumns] = Field(default_factory=dict)
    inputs: Annotated[tuple[Input, ...], AfterValidator(check_names)] = ()
    # The keys of buckets, which are in no file, message or hash.
    environment: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    _watched: Listing | None = PrivateAttr(default=None)
    _listing: Listing | None = PrivateAttr(default=None)
    _people: dict[str, dict[str, str] | None] = PrivateAttr(default_factory=dict)

    def noted(self) -> Mapping[str, str]:
        """Return notes for the next run, which ``following`` reads."""
        notes: dict[str, str] = {}
        if self.mounts:
            notes[MOUNTS] = json.dumps(self.mounts)
        listed = self._listing.columns if self._listing else self.columns_given
        # An input that is gone from the settings is not noted any more.
        columns = {
            source.name: list(listed[source.name])
            for source in self.inputs
            if listed.get(source.name)
        }
        if columns:
            notes[COLUMNS] = json.dumps(columns, sort_keys=True)
        return notes

    def following(self, last: Mapping[str, str]) -> Self:
        """Return params with the files as they are now; ``last`` are the notes of the last run.

        They say which folders were mount points. If such a folder is an empty ordinary folder now,
        its file system is not mounted, and the folder counts as not read. They also say which
        columns a query gave. If one of these is gone, the input counts as not read.
        """
        before = json.loads(last.get(MOUNTS, "[]"))
        watched = self._list_watched(before)
        columns = json.loads(last.get(COLUMNS, "{}"))
        found = self.model_copy(update={"mounts": watched.mounts, "columns_given": columns})
        found._watched = watched
        found._listing = None
        found._people = {}
        return found

    @property
    def listing(self) -> Listing:
        """The files as they were listed last, or as they are now if they were not listed."""
        if self._listing is not None:
            return self._listing
        watched = self.watched
        others = [source for source in self.inputs if source.type in READ_AS_LISTED]
        listing = self._with_inputs(watched, others, self.mounts) if others else watched
        if self._watched is not None:
            self._listing = listing
        return listing

    @property
    def watched(self) -> Listing:
        """The files that may change after they were listed, as they were listed last.

        Rows of databases and files of git are none of them: they are read as they were listed. So a
        run that asks at its end whether a file has changed reads no database a second time.
        """
        return self._watched or self._list_watched(self.mounts)

    def _list_watched(self, mounts: Collection[str]) -> Listing:
        """Return the files as they are now, those of archives among them, but no rows and none of
        git.

        A converter of the user's own for archives gets them whole.
        """
        prefixes = tuple(source.prefix for source in self.inputs)
        own = [name for name in mounts if not name.startswith(prefixes)] if prefixes else mounts
        first = list_files(self.path, self.file_pattern, own, self.hashes, self._opened_mb)
        watched = [source for source in self.inputs if source.type not in READ_AS_LISTED]
        return self._with_inputs(first, watched, mounts) if watched else first

    def _with_inputs(
        self, listing: Listing, inputs: Sequence[Input], mounts: Collection[str]
    ) -> Listing:
        """Return the files with those of these inputs."""
        # Imported here, since most projects have one input.
        from pipeline.documents.inputs import with_inputs

        return with_inputs(
            listing, inputs, mounts, self.max_file_mb, self._opened_mb, self.environment,
            self.columns_given,
        )  # fmt: skip

    @property
    def _opened_mb(self) -> int:
        """The size in megabytes up to which files of archives are read; 0 leaves archives whole."""
        return 0 if is_converted(ARCHIVE, self.rules) else self.max_file_mb

    def input_of(self, name: str) -> Input | None:
        """Return the input beside the input folder that has a file, or None."""
        return next((each for each in self.inputs if name.startswith(each.prefix)), None)

    def params_for(self, name: str) -> Self:
        """Return the params for a file, which the settings of its input may change."""
        source = self.input_of(name)
        if source is None or source.title_order is None:
            return self
        return self.model_copy(update={"title_order": source.title_order})

    def with_listing(self) -> Self:
        """Return params that list the files once, and keep this list."""
        listed = self.model_copy()
        listed._listing = self.listing
        listed._people = {}
        return listed

    def columns_of(self, name: str) -> InputColumns:
        """Return the columns of a file of records: of the first pattern that its name matches."""
        of_all = InputColumns(id=self.id_column, title=self.title_column, text=self.text_column)
        source = self.input_of(name)
        columns = source.columns if source else self.columns
        below = name.removeprefix(source.prefix) if source else name
        found = (own for pattern, own in columns.items() if is_match(below, pattern))
        return next(found, of_all)

    def people_in(self, export: str) -> dict[str, str] | None:
        """Return the names of people of an export of Slack, or None if they cannot be read."""
        if export not in self._people:
            name = name_below(export, PEOPLE)
            listed = next(file for file in self.listing.files if file.name == name)
            self._people[export] = None
            with suppress(OSError, *DAMAGED):
                content = b"" if listed.fault else content_of(listed)
                self._people[export] = people_of(decode(content, "utf-8", ()))
        return self._people[export]

    @property
    def rules(self) -> ConversionRules:
        """The converters of the user, and the limits of a conversion."""
        own = own_converters(self.converter)
        return ConversionRules(
            self.convert_seconds, self.convert_mb, own, self.converter_folder,
            articles=self.web_pages == "article",
        )  # fmt: skip

    @field_validator("converter")
    @classmethod
    def _is_a_converter(cls, setting: OwnConverters) -> OwnConverters:
        own_converters(setting)
        return setting

    @field_validator("file_pattern")
    @classmethod
    def _below_the_folder(cls, pattern: str) -> str:
        path = PurePath(pattern)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"'{pattern}' is no pattern below the input folder; write one such as **/*.txt"
            )
        return pattern

    @field_validator("encoding", "encodings")
    @classmethod
    def _is_known_encoding(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        for name in names:
            if not name:
                continue
            try:
                codecs.lookup(name)
            except LookupError as error:
                raise ValueError(f"no encoding '{name}'; write one such as gb18030") from error
        return value


def name_below(folder: str, name: str) -> str:
    """Return the name of a file in a folder, of which "" is the topmost one."""
    return f"{folder}/{name}" if folder else name
