"""A small corpus whose texts are what files and other tools choke on."""

from pathlib import Path

import pandas as pd

from pipeline.export.source import ExportSource
from pipeline.snapshots.store import SnapshotStore
from pipeline.text.ids import clean
from tests.load.tables import SCHEMAS, corpus, save

HOSTILE = [
    'said "no", twice""',
    "line\nbreak\n\nand\ttab",
    "a, b; c | d",
    "`tick` $(x) {y}",
    "') DETACH DELETE n //",
    "مرحبا \u202eevil\u202c",
    "👩‍🚀 e\u0301 ﷽",
    "back\\slash\\",
    "=HYPERLINK(1)",
    "<a href='x'>&amp; ]]>",
    "\ufffe\uffff noncharacters",
    clean("NUL\x00 BEL\x07 ESC\x1b US\x1f"),
    " edge spaces ",
    "L" * 10_000,
]


def hostile_tables() -> dict[str, pd.DataFrame]:
    """An entity for every text, each related to the next with itself as keyword, and both ways
    between two."""
    names = {text: text[:50] for text in HOSTILE}
    ring = zip(HOSTILE, [*HOSTILE[1:], HOSTILE[0]], strict=True)
    links = [(source, target, [source, "x;y", target]) for source, target in ring]
    tables = corpus(
        {"a, 'b'.txt": "\n".join(HOSTILE)}, names, [*links, (HOSTILE[1], HOSTILE[0], [])]
    )
    tables["entities"].loc[0, "type"] = ""
    return tables


def source_of(
    tables: dict[str, pd.DataFrame], root: Path, workspace: str = "exported", max_types: int = 5
) -> ExportSource:
    snapshots = SnapshotStore(root / "snapshots")
    manifest = save({name: table for name, table in tables.items() if name in SCHEMAS}, snapshots)
    return ExportSource(manifest, snapshots, workspace, max_types, max_source_ids=5000)
