"""Examines the object store of the snapshots: it must answer and honour conditions, and should keep
no deleted objects."""

from collections.abc import Iterator

from pipeline.doctor.finding import Finding
from pipeline.errors import counted
from pipeline.runs.services import Services
from pipeline.snapshots.mirror import refuse_unconditional


def examine_object_store(project: Services) -> Iterator[Finding]:
    """Yield findings on the object store; none if snapshots are in a folder."""
    mirror = project.snapshots.mirror
    if mirror is None:
        return
    keeps_versions = refuse_unconditional(mirror.objects)
    found = mirror.objects.listed()
    size = sum(each.bytes for each in found) / 1e9
    fact = (
        f"{mirror.address}: honours If-None-Match and If-Match; {counted(len(found), 'object')},"
        f" {size:.2f} GB"
    )
    yield Finding("snapshots", "object store", "ok", fact)
    if keeps_versions:
        fact = (
            f"{mirror.address}: the bucket keeps what is deleted, so that a purge leaves it there"
        )
        action = (
            "turn its versions off, or let a rule of the bucket's lifecycle delete old ones soon"
        )
        yield Finding("snapshots", "versions", "warning", fact, action)
