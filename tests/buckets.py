"""Snapshots in a bucket to test with: a prefix of a real server's, and what lies there."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.snapshots.mirror import Mirror
from pipeline.snapshots.objects import Objects
from pipeline.snapshots.store import SnapshotStore
from tests.projects import ProjectFolder
from tests.servers.s3_server import BUCKET, S3Server


@dataclass(frozen=True)
class Bucket:
    server: S3Server
    prefix: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def objects(self) -> Objects:
        return Objects(self.address, self.environment)

    def by(self, endpoint: str) -> "Bucket":
        """The same by way of another endpoint."""
        return replace(self, environment={**self.environment, "AWS_ENDPOINT_URL": endpoint})

    def snapshots(self, folder: Path, period: float = 60) -> SnapshotStore:
        """Those of the bucket, with a folder that mirrors it."""
        return SnapshotStore(folder, Mirror(folder, objects=self.objects, period=period))

    def hold(self, project: ProjectFolder) -> None:
        """From now on the project's snapshots are here, and its .env has the keys."""
        project.edit_settings(snapshots=self.address)
        lines = [f"{name}={value}\n" for name, value in self.environment.items()]
        (project.root / ".env").write_text("".join(lines), encoding="utf-8")

    @property
    def names(self) -> set[str]:
        return {path.relative_to(self._folder).as_posix() for path in self._files()}

    @property
    def contents(self) -> dict[str, bytes]:
        return {name: (self._folder / name).read_bytes() for name in self.names}

    def has(self, text: str) -> list[str]:
        """The objects in which the text stands, also those of Parquet, whose pages are
        compressed."""
        return [path.name for path in self._files() if text.encode() in unpacked(path)]

    def damage(self, name: str) -> None:
        path = self._folder / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    def delete(self, name: str) -> None:
        (self._folder / name).unlink()

    @property
    def _folder(self) -> Path:
        return self.server.objects / self.prefix

    def _files(self) -> Iterator[Path]:
        return (path for path in self._folder.rglob("*") if path.is_file())


def unpacked(path: Path) -> bytes:
    """Of a Parquet file also the text of all its cells."""
    import pyarrow.parquet as pq

    content = path.read_bytes()
    if path.suffix != ".parquet":
        return content
    cells = (str(column.to_pylist()) for column in pq.read_table(path).columns)
    return b"\n".join([content, *(cell.encode() for cell in cells)])
