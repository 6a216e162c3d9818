"""What may be asked of one run beside its workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.engine.selection import ALL, Selection

Rows = Mapping[str, frozenset[str]]
"""Step -> ids of its rows."""


@dataclass(frozen=True)
class RunOptions:
    """``max_cost`` (in the price table's currency) and ``max_tokens`` stop a run with exit code 5; ``allow_deletes``
    lifts ``max_delete_ratio``; ``memory_profile`` notes each step's peak; ``again``: rows to be asked for once more;
    ``manifest``: the run whose tables are loaded, by default the newest; ``may_go``: a source that may be gone whatever
    ``max_delete_ratio`` is; ``direct``: nothing is asked in batches; ``full``, ``replace``, ``re_embed`` and
    ``take_over``: see load/loader.py's LoadOptions."""

    selection: Selection = ALL
    max_cost: float | None = None
    max_tokens: int | None = None
    allow_deletes: bool = False
    memory_profile: bool = False
    again: Rows = field(default_factory=dict)
    manifest: str | None = None
    full: bool = False
    may_go: str | None = None
    direct: bool = False
    replace: bool = False
    re_embed: bool = False
    take_over: tuple[str, ...] = ()


DEFAULTS = RunOptions()
