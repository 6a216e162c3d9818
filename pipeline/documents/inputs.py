"""List the files and rows of inputs beside the input folder.

An input that cannot be listed is a file with a fault, named ``@name``: its documents are kept.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pipeline.documents.bucket_reader import BucketReader
from pipeline.documents.database_rows import NO_COLUMN, RowsError, lacking, list_rows
from pipeline.documents.files import LOCK_FILE, is_left_out, is_lock, is_match, list_files
from pipeline.documents.git import Blob, GitError, list_blobs
from pipeline.documents.input_files import INPUT_FOLDER, InputFile, Listing, one_line
from pipeline.errors import ObjectStoreError, SettingsError, counted
from pipeline.settings.inputs import BUCKETS, Input
from pipeline.snapshots.objects import Objects, keys_of

_MEGABYTE = 2**20
_NO_FOLDER = "no such folder; create it or correct its url"


def with_inputs(
    first: Listing,
    inputs: Sequence[Input],
    mounts: Collection[str],
    most_mb: int,
    opened_mb: int,
    environment: Mapping[str, str],
    columns: Mapping[str, Sequence[str]],
) -> Listing:
    """Return the files of the input folder and those of the other inputs.

    ``mounts`` and ``opened_mb`` are as in `list_files`; ``most_mb`` is the size of the largest file
    that is read, and ``environment`` has the keys of buckets. ``columns`` is that of the last run's
    `Listing`. Raises SettingsError if the input folder has a folder whose name begins like the
    files of an input.
    """
    files, mounted = list(first.files), list(first.mounts)
    given = dict(first.columns)
    for source in inputs:
        if any(file.name.startswith(source.prefix) for file in first.files):
            raise SettingsError(
                f"inputs: {source.name}: the input folder has a folder {source.prefix}; give the"
                " input another name"
            )
        if source.type == "folder":
            own = [
                name.removeprefix(source.prefix)
                for name in mounts
                if name.startswith(source.prefix)
            ]
            found, below = _list_folder(source, own, opened_mb)
            mounted += [source.prefix + name for name in below]
        elif source.type == "git":
            found = _list_repository(source, most_mb)
        elif source.type in BUCKETS:
            found = _list_bucket(source, most_mb, environment)
        else:
            found, given[source.name] = _list_database(source, columns.get(source.name, ()))
        files += found
    files.sort(key=lambda file: (file.name, file.place))
    return replace(first, files=tuple(files), mounts=tuple(sorted(mounted)), columns=given)


def _failed(source: Input, reason: str, message: str) -> list[InputFile]:
    """Return what stands for an input that cannot be listed."""
    return [InputFile("", source.prefix.rstrip("/"), (reason, message))]


def _list_folder(
    source: Input, mounts: Collection[str], opened_mb: int
) -> tuple[list[InputFile], tuple[str, ...]]:
    """Return the files of a folder, and its mount points."""
    folder = source.url.get_secret_value()
    try:
        listing = list_files(folder, source.include, mounts, most_mb=opened_mb)
    except SettingsError:
        return _failed(source, "unreadable", _NO_FOLDER), tuple(mounts)
    found: list[InputFile] = []
    for file in listing.files:
        if file.name == INPUT_FOLDER:
            found.append(replace(file, name=source.prefix.rstrip("/"), place=""))
        elif not _is_excluded(file.name, source):
            found.append(replace(file, name=source.prefix + file.name))
    return found, listing.mounts


def _is_excluded(name: str, source: Input) -> bool:
    return any(is_match(name, pattern) for pattern in source.exclude)


def _list_bucket(source: Input, most_mb: int, environment: Mapping[str, str]) -> list[InputFile]:
    """Return the files of a bucket, or of a prefix in it. Their e-tags tell of a change."""
    address = source.url.get_secret_value()
    setting = f"inputs: {source.name}: url"
    store = Objects(address, keys_of(address, environment), setting, "list and read")
    try:
        objects = store.listed()
    except (ObjectStoreError, SettingsError, FileNotFoundError) as error:
        return _failed(source, "io_error", str(error))
    found: list[InputFile] = []
    reader = BucketReader(store)
    folders = {parent for each in objects for parent in _folders_around(each.name)}
    for each in objects:
        name = one_line(each.name)
        # Consoles and file systems over buckets mark a folder by an empty object of its name.
        is_folder = not each.bytes and each.name in folders
        if is_folder or not _is_wanted(name, source):
            continue
        fault = _fault_of(name, each.bytes, most_mb)
        # A store without e-tags changes the size or the time with the content.
        content = each.e_tag or f"{each.bytes} {each.changed}"
        written = datetime.fromtimestamp(each.changed, UTC).date().isoformat()
        found.append(
            InputFile(
                address, source.prefix + name, fault, member=each.name, written=written,
                kind="object", content=content, bucket=reader,
            )
        )  # fmt: skip
    return found


def _folders_around(name: str) -> Iterator[str]:
    """Yield the names of the folders that an object would be in if it were a file."""
    folder = name.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _is_wanted(name: str, source: Input) -> bool:
    """Return whether a file of a repository or bucket is read: it matches, and is not hidden."""
    is_match_of_patterns = is_match(name, source.include) and not _is_excluded(name, source)
    return is_match_of_patterns and not any(map(is_left_out, name.split("/")))


def _fault_of(name: str, size: int, most_mb: int) -> tuple[str, str] | None:
    """Return why a file is not read because of its name or its size in bytes, or None."""
    if is_lock(name.rpartition("/")[2]):
        return LOCK_FILE
    if size > most_mb * _MEGABYTE:
        return "too_large", f"over {most_mb} MB; split it or set input.max_file_mb"
    return None


def _list_repository(source: Input, most_mb: int) -> list[InputFile]:
    """Return the files of a git repository."""
    repository = source.url.get_secret_value()
    # Unlike a method of Path, this raises no error for a share that is away.
    if not os.path.isdir(repository):
        return _failed(source, "unreadable", _NO_FOLDER)
    try:
        blobs = list_blobs(repository, source.ref)
    except GitError as error:
        fact = f"git cannot read {source.ref} ({error})".replace(repository, "it")
        return _failed(source, "unreadable", f"{fact}; correct its url or ref")
    return list(_files_of(blobs, source, repository, most_mb))


def _files_of(
    blobs: Sequence[Blob], source: Input, repository: str, most_mb: int
) -> Iterator[InputFile]:
    for blob in blobs:
        name = one_line(blob.path)
        if not _is_wanted(name, source):
            continue
        fault = _fault_of(name, blob.size, most_mb)
        if blob.is_module:
            # The reason of a link, since documents may have been in a folder of this name.
            fault = ("outside", "a repository within; make it an input of its own")
        elif blob.is_link:
            fault = ("outside", "a link; name what it leads to")
        yield InputFile(
            repository, source.prefix + name, fault, kind="git", member=blob.id, content=blob.id
        )


def _list_database(source: Input, before: Sequence[str]) -> tuple[list[InputFile], Sequence[str]]:
    """Return the rows of a database, and the columns in ``metadata`` that its query gives.

    One of the rows with the same key is read. ``before``: the columns of the last run.
    """
    try:
        listed = list_rows(source, before)
    except RowsError as error:
        return _failed(source, "io_error", str(error)), before
    found = [_missing_column(source, name) for name in lacking(source, listed.columns)]
    seen: Counter[str] = Counter()
    without_key = sum(not row.key for row in listed.rows)
    if without_key:
        found.append(_part_alone(source, without_key))
    for row in listed.rows:
        name = source.prefix + one_line(row.key)
        fault = None
        if not row.key:
            # These rows are numbered among themselves: their places among the others depend on
            # the database. Without a slash the number names no document of the input.
            seen[name] += 1
            name = f"{source.prefix.rstrip('/')}:{seen[name]}"
            fault = ("parse", f"a row of the query has no value in '{source.id}'; fill it")
        elif seen[name]:
            key = one_line(row.key)
            fault = ("duplicate_id", f"another row with {source.id} {key} is read; make it one")
        seen[name] += 1
        found.append(
            InputFile("", name, fault, kind="sql", content=row.content_hash, fields=row.cells)
        )
    return found, [name for name in source.metadata if name in listed.columns]


def _part_alone(source: Input, without_key: int) -> InputFile:
    """Return what tells that rows without a key were not read.

    Each may be a row of the last run that has lost its key. So a document that is not there now is
    kept: its row may be one of these.
    """
    rows = counted(without_key, "row")
    fault = ("in_part", f"read but for {rows} without a value in '{source.id}'; fill it")
    return InputFile("", source.prefix.rstrip("/"), fault, kind="sql")


def _missing_column(source: Input, name: str) -> InputFile:
    """Return what tells of a column in ``metadata`` that the query has never given."""
    fact = f"its query gives no column '{name}', so no document has it"
    fault = (NO_COLUMN, f"{fact}; correct the query, or take it out of metadata")
    # Without a slash the name is that of no document of the input.
    return InputFile("", f"{source.prefix.rstrip('/')}:{name}", fault, kind="sql")
