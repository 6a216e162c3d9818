"""A step: one use of a verb in a workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipeline.registry import Params, Verb
from pipeline.schemas import TableSchema

REJECTS = "rejects"
"""The one output that every step may write: the run gathers them into one table."""

PLACE = "args."
"""What the names of a step's ``place`` begin with."""

Execution = Literal["direct", "batch"]


@dataclass(frozen=True)
class Step:
    """``inputs`` and ``outputs`` map the verb's table names to the workflow's; ``prompts`` and ``models`` map its roles
    to names of files and of settings. ``execution``: "batch" sends what it asks of a chat model to the endpoint's Batch
    API; the result is the same. ``place``: of a source, what its workflow itself says of where it reads, as an input of
    the step; empty where it reads what the settings name. ``reads`` and ``writes``: the schemas of inputs and outputs,
    by the verb's names, known once the step is wired."""

    id: str
    verb: Verb
    params: Params
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    prompts: Mapping[str, str]
    models: Mapping[str, str]
    execution: Execution = "direct"
    place: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, TableSchema] = field(default_factory=dict)
    writes: Mapping[str, TableSchema] = field(default_factory=dict)
