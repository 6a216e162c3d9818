"""Convert files on the workers of a Dask cluster.

A file is shared through the snapshots, and so is its conversion, as rows of tasks are. Neither the
scheduler nor a message of Dask holds any of them.
"""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from secrets import token_hex

from pipeline.contract.conversion import ConversionRules, Converted, FileToConvert
from pipeline.documents.conversion import converter_for
from pipeline.documents.converter_process import RESULT, Wanted
from pipeline.documents.kept_conversions import EachConverter
from pipeline.documents.limited_converter import LimitedConverter, converter_name, open_converter
from pipeline.engine.cluster import Cluster
from pipeline.engine.cluster_worker import slots
from pipeline.errors import GraphmillError
from pipeline.files import size_of, temporary_file
from pipeline.snapshots.folder import UNFINISHED

LEAST_FILES = 8
"""The least number of files that a cluster converts. A run with fewer needs no worker."""
MOST_SHARED_FILES = 256
"""The most files that are shared at once; enough to keep many workers busy."""
MOST_SHARED_BYTES = 2**30
"""The most bytes of files that are shared at once, so that they do not fill the snapshots' disk."""
KEY = "convert"


@dataclass(frozen=True)
class SharedFile:
    """A file for a worker to convert.

    ``name`` is that of the shared file, ``place`` its index among the files of the run, ``size`` in
    bytes. ``converter`` is the converter that this run would use, ``articles`` as in `convert`.
    """

    name: str
    place: int
    size: int
    suffix: str
    converter: str
    seconds: float
    megabytes: int
    articles: bool

    @property
    def result(self) -> str:
        """The name of the shared file with the conversion."""
        return f"{self.name}.conversion"


@dataclass(frozen=True)
class ClusterConverter:
    """A converter that lets workers of the cluster convert files; it keeps no results.

    ``here`` converts on this machine: fewer than `LEAST_FILES`, those that have a converter of the
    user's own, which workers do not get, and those that no worker could convert.
    """

    cluster: Cluster
    here: EachConverter = field(default_factory=LimitedConverter)

    def each(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        ended: Callable[[int, Converted], None],
    ) -> None:
        """Convert the files and call ``ended`` with the index and the result of each.

        Raises WorkerError if there is no worker, or if the scheduler is gone.
        """
        names = {file.suffix: converter_name(file.suffix, rules) for file in files}
        for_workers: dict[int, FileToConvert] = {}
        for place, file in enumerate(files):
            has_converter = bool(names[file.suffix])
            is_users_own = bool(rules.own_for(file.suffix))
            if has_converter and not is_users_own:
                for_workers[place] = file
        if len(for_workers) < LEAST_FILES:
            for_workers = {}
        left = [place for place in range(len(files)) if place not in for_workers]
        for place, result in self._convert_there(for_workers, rules, names):
            if result is None:
                left.append(place)
            else:
                ended(place, result)
        here = [files[place] for place in left]
        self.here.each(here, rules, lambda number, result: ended(left[number], result))

    def _convert_there(
        self,
        files: Mapping[int, FileToConvert],
        rules: ConversionRules,
        names: Mapping[str, str],
    ) -> Iterator[tuple[int, Converted | None]]:
        """Yield the place of each file with its conversion, or with None if no worker made one."""
        if not files:
            return
        waiting = list(files.items())
        under_way: dict[str, SharedFile] = {}
        shared_bytes = 0
        with ExitStack() as stack:
            calls = stack.enter_context(self.cluster.calls())
            stack.callback(lambda: self._withdraw(under_way.values()))
            while waiting or under_way:
                new: dict[str, SharedFile] = {}
                # At least one file is under way, however large it is.
                while waiting and (not under_way or has_room(len(under_way), shared_bytes)):
                    place, file = waiting.pop()
                    shared = self._share_copy(place, file, names[file.suffix], rules)
                    if shared is None:
                        yield place, None
                        continue
                    key = f"{KEY}-{token_hex(16)}"
                    new[key] = shared
                    under_way[key] = shared
                    shared_bytes += shared.size
                if new:
                    calls.submit(convert_shared, new)
                if under_way:
                    key, is_converted = calls.next()
                    shared = under_way[key]
                    result = self._take_result(shared) if is_converted else None
                    yield shared.place, result
                    self._withdraw([shared])
                    del under_way[key]
                    shared_bytes -= shared.size

    def _share_copy(
        self, place: int, file: FileToConvert, converter: str, rules: ConversionRules
    ) -> SharedFile | None:
        """Share a copy of the file; return None if it cannot be read."""
        snapshots = self.cluster.snapshots
        name = f"{KEY}-{token_hex(16)}{file.suffix}"
        with temporary_file(snapshots.root / UNFINISHED) as copy:
            try:
                shutil.copyfile(file.path, copy)
            except OSError:
                return None
            size = size_of(copy)
            snapshots.tasks.share({name: copy})
        return SharedFile(
            name=name,
            place=place,
            size=size,
            suffix=file.suffix,
            converter=converter,
            seconds=rules.seconds,
            megabytes=rules.megabytes,
            articles=rules.articles,
        )

    def _take_result(self, shared: SharedFile) -> Converted | None:
        """Return the conversion that a worker shared, or None if it cannot be read."""
        try:
            content = self.cluster.snapshots.tasks.find_shared(shared.result).read_bytes()
            return RESULT.validate_json(content)
        except (OSError, GraphmillError, ValueError):
            return None

    def _withdraw(self, files: Collection[SharedFile]) -> None:
        """Delete the shared files and their conversions."""
        names: list[str] = []
        for file in files:
            names += [file.name, file.result]
        self.cluster.snapshots.tasks.withdraw(names)


def has_room(files: int, size: int) -> bool:
    """Return whether another file may be shared beside those under way."""
    return files < MOST_SHARED_FILES and size < MOST_SHARED_BYTES


def convert_shared(file: SharedFile) -> bool:
    """Convert a shared file in a worker's process, and share the conversion.

    Returns False if the worker has another converter than the run, or cannot read or write the
    snapshots. The run then converts the file itself, and says what is wrong with it.
    """
    if converter_for(file.suffix, file.articles) != file.converter:
        return False
    snapshots = slots[0].snapshots
    try:
        path = snapshots.tasks.find_shared(file.name)
        convert = _worker_converter(file.seconds, file.megabytes)
        wanted = Wanted(path=str(path), name=file.converter, articles=file.articles)
        result = convert(wanted)
        with temporary_file(snapshots.root / UNFINISHED) as written:
            written.write_bytes(RESULT.dump_json(result))
            snapshots.tasks.share({file.result: written})
        # A worker over an object store would keep its copy of the file until it ends.
        path.unlink(missing_ok=True)
    except (OSError, GraphmillError):
        return False
    return True


@cache
def _worker_converter(seconds: float, megabytes: int) -> Callable[[Wanted], Converted]:
    """Return a function that converts a file within these limits.

    Its processes serve all files of this worker, since each takes a second to start. They end with
    the worker's process.
    """
    opened = open_converter(ConversionRules(seconds, megabytes))
    _open_converters.append(opened)
    return opened.__enter__()


_open_converters: list[object] = []
"""Contexts of converters that stay open until the process ends."""
