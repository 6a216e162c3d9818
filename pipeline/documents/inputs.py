"""List the files and rows of inputs beside the input folder.

An input that cannot be listed is a file with a fault, named ``@name``: its documents are kept.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pipeline.documents.database_rows import RowsError, list_rows
from pipeline.documents.files import LOCK_FILE, is_left_out, is_lock, is_match, list_files
from pipeline.documents.git import Blob, GitError, list_blobs
from pipeline.documents.listing import ALL, InputFile, Listing, one_line
from pipeline.errors import SettingsError
from pipeline.settings.inputs import Input

_MEGABYTE = 2**20


def with_inputs(
    first: Listing, inputs: Sequence[Input], mounts: Collection[str], most_mb: int
) -> Listing:
    """Return the files of the input folder and those of the other inputs.

    ``mounts`` are as in `list_files`. Raises SettingsError if the input folder has a folder whose
    name begins like the files of an input.
    """
    files, mounted = list(first.files), list(first.mounts)
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
            found, below = _list_folder(source, own, most_mb)
            mounted += [source.prefix + name for name in below]
        elif source.type == "git":
            found = _list_repository(source, most_mb)
        else:
            found = _list_database(source)
        files += found
    files.sort(key=lambda file: (file.name, file.place))
    return replace(first, files=tuple(files), mounts=tuple(sorted(mounted)))


def _failed(source: Input, reason: str, message: str) -> list[InputFile]:
    """Return what stands for an input that cannot be listed."""
    return [InputFile("", source.prefix.rstrip("/"), (reason, message))]


def _list_folder(
    source: Input, mounts: Collection[str], most_mb: int
) -> tuple[list[InputFile], tuple[str, ...]]:
    """Return the files of a folder, and its mount points."""
    folder = source.url.get_secret_value()
    try:
        listing = list_files(folder, source.include, mounts, most_mb=most_mb)
    except SettingsError:
        return _failed(source, "unreadable", "no such folder; create it or correct its url"), ()
    found: list[InputFile] = []
    for file in listing.files:
        if file.name == ALL:
            found.append(replace(file, name=source.prefix.rstrip("/")))
        elif not _is_excluded(file.name, source):
            found.append(replace(file, name=source.prefix + file.name))
    return found, listing.mounts


def _is_excluded(name: str, source: Input) -> bool:
    return any(is_match(name, pattern) for pattern in source.exclude)


def _list_repository(source: Input, most_mb: int) -> list[InputFile]:
    """Return the files of a git repository."""
    repository = source.url.get_secret_value()
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
        is_wanted = is_match(name, source.include) and not _is_excluded(name, source)
        if not is_wanted or any(map(is_left_out, name.split("/"))):
            continue
        fault = None
        if blob.is_module:
            fault = ("unsupported", "a repository within; make it an input of its own")
        elif blob.is_link:
            fault = ("outside", "a link; name what it leads to")
        elif is_lock(name.rpartition("/")[2]):
            fault = LOCK_FILE
        elif most_mb and blob.size > most_mb * _MEGABYTE:
            fault = ("too_large", f"over {most_mb} MB; split it or set input.max_file_mb")
        yield InputFile(
            repository, source.prefix + name, fault, kind="git", member=blob.id, content=blob.id
        )


def _list_database(source: Input) -> list[InputFile]:
    """Return the rows of a database. Of rows with one key, the first is read."""
    try:
        rows = list_rows(source)
    except RowsError as error:
        return _failed(source, "io_error", str(error))
    found: list[InputFile] = []
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        name = source.prefix + one_line(row.key)
        fault = None
        if not row.key:
            # The number of the row is no key; without a slash it names no document of the input.
            name = f"{source.prefix.rstrip('/')}:{number}"
            fault = ("parse", f"no value in '{source.id}'; fill it")
        elif seen[name]:
            fault = ("duplicate_id", f"a row with this '{source.id}' is there before; make it one")
        seen[name] += 1
        found.append(InputFile("", name, fault, kind="sql", content=row.content, fields=row.fields))
    return found
