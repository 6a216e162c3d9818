"""Examines the Dask cluster of the engine: the scheduler, the workers that may do tasks, and their
access to snapshots."""

from collections.abc import Iterator

from pipeline.doctor.finding import Finding, finding_of
from pipeline.errors import counted
from pipeline.runs.services import Services

AREA = "cluster"


def examine_cluster(project: Services) -> Iterator[Finding]:
    """Yield findings on the cluster; none if the engine needs no cluster."""
    engine = project.settings.engine
    if engine.kind != "dask":
        return
    from pipeline.runs.stages import cluster_of

    with cluster_of(project, bytes, lambda fact: None) as cluster:
        there = cluster.there()
        yield _workers(engine.address, len(there.fit), cluster.number)
        for worker, why in there.refused.items():
            yield finding_of(AREA, worker, "warning", f"is refused: {why}")
        if not there.fit:
            return
        from pipeline.engine.cluster import BUSY

        blind = cluster.find_blind_workers(there.fit)
        seeing = len(there.fit) - len(blind)
        if seeing:
            fact = (
                f"{project.snapshots.folder.address}: {counted(seeing, 'worker')} can read and"
                " write there"
            )
            yield Finding(AREA, "snapshots", "ok", fact)
        action = (
            "start it with GRAPHMILL_SNAPSHOTS as the run's 'snapshots', and the right to read and"
            " write there"
        )
        for worker, fault in blind.items():
            if fault == BUSY:
                yield Finding(AREA, worker, "warning", fault, "look again when no run is under way")
            else:
                yield Finding(AREA, worker, "failed", fault, action)


def _workers(address: str, fit: int, wanted: int | None) -> Finding:
    """Return the finding on the number of workers.

    ``wanted`` is the number that a run waits for, or None if the cluster grows with the waiting
    tasks.
    """
    fact = f"{address} answers, {counted(fit, 'worker')} may do tasks"
    if wanted is None:
        if not fit:
            fact = f"{fact}; others come as a run asks for them"
        return Finding(AREA, "scheduler", "ok", fact)
    if fit >= wanted:
        return Finding(AREA, "scheduler", "ok", fact)
    fact = f"{fact}, engine.workers: {wanted}"
    action = (
        f"start more with 'graphmill worker {address}': a run waits engine.wait_seconds for them"
    )
    return Finding(AREA, "scheduler", "warning" if fit else "failed", fact, action)
