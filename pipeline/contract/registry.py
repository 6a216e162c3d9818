"""@verb: declare what a function reads, writes and needs; the function itself stays plain.

Most tables have schemas of their own; a verb over any table (schemas.ANY, schemas.at_least) says
what its outputs have by a function of the schemas it reads and of its params.

A verb's parameters are bound by name: input tables, ``params`` (a Params subclass), then roles by
their annotation: Prompt, ChatModel, EmbeddingModel, Tokenizer, Tracker, Converter or LastTables. A
role ``... | None = None`` is bound only where the workflow names what for, a Converter wherever
there is an engine. It returns its outputs in declared order.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, get_args, get_type_hints

import pandas as pd
from pydantic import BaseModel, ConfigDict

from pipeline.contract.conversion import Converter
from pipeline.contract.laws import Law, Part, Touches, Uses
from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.contract.reasons import REASONS, Reason
from pipeline.contract.schemas import TableSchema, is_list, is_text
from pipeline.errors import DataError
from pipeline.models.base import ChatModel, EmbeddingModel, Tokenizer

Function = TypeVar("Function", bound=Callable[..., Any])


class Params(BaseModel):
    """A step's ``args``: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def noted(self) -> Mapping[str, str]:
        """What a source has found out of where it reads and will want to know in the next run;
        nothing empty."""
        return {}

    def trade(self) -> str:
        """What these params give up of what a full build would come to, and for what: for ``plan``
        and ``status``."""
        return ""

    def format_undecided(self) -> bool:
        """Check whether a trial of the chat model is still to decide the param ``format``."""
        return False

    def following(self, last: Mapping[str, str]) -> Self:
        """The params of a run after one that has noted ``last``. A source that looks at all it
        reads may do so here, once for its stamp, its version and its verb: this is called before it
        reads, and after."""
        return self


class Tracker:
    """Hears how far a verb is; nothing that it does changes a result. This one tells nobody: it is
    for a verb that is called by hand, or only rehearsed."""

    def expect(self, rows: int) -> None:
        """So many more are to come."""

    def finished(self, rows: int) -> None:
        """So many more are done."""


UNTRACKED = Tracker()


@dataclass(frozen=True)
class LastTables:
    """What the step wrote in its last run, by the verb's names, where nothing but its inputs has
    changed since; nothing in the first run, where the step is forced, and in a purge. A verb that
    takes it need not come out as a full build does, and says so by the ``trade`` of its params."""

    tables: Mapping[str, pd.DataFrame]


NOTHING_WRITTEN = LastTables({})

Derived = Callable[[Mapping[str, TableSchema], Any], TableSchema]
"""The schema of an output, from those of the inputs and the params; raises ValueError where they do
not fit."""
Parts = Callable[[Any], tuple[Part, ...]]
"""Params -> the pieces of a verb, in the order in which they are worked on."""


@dataclass(frozen=True)
class Verb:
    """What the engine knows of a verb.

    ``rowwise`` names the input for which f(a + b) = f(a) + f(b); without it the tables are taken
    whole. ``law``: which rows are decided together (contract/laws.py): what has not changed is kept
    from the last run. ``parts``: the pieces that have laws of their own where the verb as a whole
    has none; the last ones make its outputs, by their names. ``optional`` names the roles that may
    be left unbound. ``reasons``: those of its rejects that are its own. In ``@verb`` a text is the
    meaning of a loss; ``reasons.decided("...")`` is that of a decision, which does not count
    towards ``max_reject_ratio``. ``placeholders`` are those of the prompt for each role.
    ``libraries`` are distributions whose version can change the result. ``settings`` names the
    section of settings.yaml that gives its args their defaults. ``stamp`` digests, from the params,
    what the verb reads from outside, empty where that cannot be told for now: the step runs, and
    its record is no ground for reuse. A verb without inputs is a source. ``version`` tells,
    cheaply, whether that was written meanwhile, also to what it was before; without one the stamp
    has to.
    """

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, TableSchema]
    outputs: Mapping[str, TableSchema | Derived]
    params: type[Params]
    roles: Mapping[str, type]
    optional: frozenset[str] = frozenset()
    placeholders: Mapping[str, Placeholders] = field(default_factory=dict)
    takes_params: bool = False
    rowwise: str | None = None
    law: Law | None = None
    parts: Parts | None = None
    libraries: tuple[str, ...] = ()
    settings: str | None = None
    stamp: Callable[[Any], str] | None = None
    version: Callable[[Any], str] | None = None
    reasons: Mapping[str, Reason] = field(default_factory=dict)

    def roles_of(self, kind: type) -> list[str]:
        return [role for role, wanted in self.roles.items() if wanted is kind]

    def call(
        self, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """What the function makes of the tables, with nothing missing in those of fixed columns
        (TableSchema.filled). A Tracker that ``roles`` does not bind tells nobody, and LastTables
        have nothing.

        Raises DataError where a required cell is missing, or the function does not return a table
        for each output."""
        filled = {name: self._filled(name, table) for name, table in tables.items()}
        unbound = {Tracker: UNTRACKED, LastTables: NOTHING_WRITTEN}
        by_default = {role: unbound[kind] for role, kind in self.roles.items() if kind in unbound}
        returned = self.function(**filled, **{**by_default, **roles})
        return self._outputs(returned if isinstance(returned, tuple) else (returned,))

    def _outputs(self, frames: tuple[Any, ...]) -> dict[str, pd.DataFrame]:
        expected = (
            f"expected {' and '.join(self.outputs) or 'none'}; return a DataFrame for each, in this"
            " order"
        )
        if len(frames) != len(self.outputs):
            raise DataError(f"verb '{self.name}': returned {len(frames)} tables, {expected}")
        for name, frame in zip(self.outputs, frames, strict=True):
            if not isinstance(frame, pd.DataFrame):
                raise DataError(
                    f"verb '{self.name}': returned {type(frame).__name__} for '{name}', {expected}"
                )
        return dict(zip(self.outputs, frames, strict=True))

    def _filled(self, name: str, table: pd.DataFrame) -> pd.DataFrame:
        return self.inputs[name].filled(table, f"verb '{self.name}': table '{name}'")

    def written(self, read: Mapping[str, TableSchema], params: Params) -> dict[str, TableSchema]:
        """The schemas of what comes of tables of these schemas. Raises ValueError where the params
        do not fit."""
        return {
            name: schema if isinstance(schema, TableSchema) else schema(read, params)
            for name, schema in self.outputs.items()
        }


@dataclass
class Registry:
    verbs: dict[str, Verb] = field(default_factory=dict)


REGISTRY = Registry()
_REGISTERING: ContextVar[Registry] = ContextVar("registering", default=REGISTRY)


@contextmanager
def registering_in(registry: Registry) -> Iterator[None]:
    """Verbs that are declared meanwhile, in this thread, are this registry's."""
    token = _REGISTERING.set(registry)
    try:
        yield
    finally:
        _REGISTERING.reset(token)


def _fault(verb: Verb, parameters: list[str], unbound: list[str], params: Any) -> str:
    """What of a declaration does not fit the function; "" if all does."""
    missing = [name for name in verb.inputs if name not in parameters]
    if missing:
        return (
            f"the function has no parameter for its input {_told(missing)}; add it, or remove the"
            " input"
        )
    if verb.takes_params and not (isinstance(params, type) and issubclass(params, Params)):
        return "params has no annotation that is a subclass of Params; write params: MyParams"
    if unbound:
        return (
            f"parameter {_told(unbound)} is neither input, params nor role; annotate a role, or"
            " remove it"
        )
    if verb.rowwise and verb.rowwise not in verb.inputs:
        return (
            f"rowwise names '{verb.rowwise}', which is no input; have:"
            f" {', '.join(verb.inputs) or 'none'}"
        )
    if verb.law and (looking_back := verb.roles_of(LastTables)):
        return (
            f"parameter {_told(looking_back)} needs all rows of the last run, and the law gives"
            " some; declare no law"
        )
    return _fault_of_law(verb) or _fault_of_reasons(verb)


def _fault_of_law(verb: Verb) -> str:
    law, outputs = verb.law, ", ".join(verb.outputs)
    if law is None:
        return ""
    if unknown := [name for name in law.keyed if name not in verb.inputs]:
        return (
            f"keyed names {_told(unknown)}, which is no input; have:"
            f" {', '.join(verb.inputs) or 'none'}"
        )
    if not law.keyed or set(law.row_of) != set(verb.outputs):
        return (
            "row_of needs a rowwise or keyed input, and a column for each output; outputs:"
            f" {outputs}"
        )
    if not set(law.lookup) <= set(verb.inputs) - set(law.keyed):
        return "lookup names inputs beside those that are rowwise or keyed"
    uses = {name: use for name, use in law.lookup.items() if isinstance(use, Uses)}
    if unknown := [use.table for use in uses.values() if use.table not in law.keyed]:
        return (
            f"lookup names {_told(unknown)}, which is no rowwise or keyed input; have:"
            f" {', '.join(law.keyed)}"
        )
    naming = [
        (table, verb.inputs[table], name) for table, names in law.keyed.items() for name in names
    ]
    naming += [(table, verb.outputs[table], name) for table, name in law.row_of.items()]
    using = [(name, verb.inputs[name], use.key) for name, use in uses.items()]
    using += [
        (use.table, verb.inputs[use.table], name) for use in uses.values() for name in use.columns
    ]
    return _fault_of_columns(naming, "name groups") or _fault_of_columns(
        using, "name entries of a dictionary"
    )


def _fault_of_columns(columns: Sequence[tuple[str, TableSchema | Derived, str]], task: str) -> str:
    """``columns``: of tables, by name and schema, those whose values are to be compared. What is
    not known before there are tables is passed over."""
    kinds = set()
    for table, schema, name in columns:
        if not isinstance(schema, TableSchema) or (schema.more and name not in schema.columns):
            continue
        if name not in schema.columns:
            return (
                f"the law names column '{name}', which '{table}' does not have; have:"
                f" {', '.join(schema.columns)}"
            )
        if is_list(schema.arrow.field(name).type):
            return (
                f"the law names column '{name}' of '{table}', which holds lists; name one of texts"
                " or numbers"
            )
        kinds.add(is_text(schema.arrow.field(name).type))
    return (
        f"columns that {task} hold texts here and numbers there; name columns of one kind"
        if len(kinds) > 1
        else ""
    )


def _fault_of_reasons(verb: Verb) -> str:
    if taken := sorted(set(verb.reasons) & set(REASONS)):
        return (
            f"reason {_told(taken)} has a meaning already (pipeline.contract.reasons); give it"
            " another name"
        )
    if verb.reasons and "rejects" not in verb.outputs:
        return "declares reasons and has no output 'rejects'; add it"
    return ""


def _law(
    rowwise: str | None,
    keyed: Mapping[str, tuple[str, ...]],
    row_of: Mapping[str, str],
    lookup: Mapping[str, Uses | Touches],
) -> Law | None:
    """None where nothing is said of which group a row is."""
    of_rows = {rowwise: ("id",)} if rowwise and row_of else {}
    return Law({**of_rows, **keyed}, row_of, lookup) if keyed or row_of or lookup else None


def _told(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


ROLE_KINDS = (Prompt, ChatModel, EmbeddingModel, Tokenizer, Tracker, Converter, LastTables)


def _role_kind(hint: Any) -> type | None:
    """The kind of role that an annotation names, alone or as one that may be None."""
    return next(
        (kind for kind in ROLE_KINDS if hint is kind or set(get_args(hint)) == {kind, type(None)}),
        None,
    )


def verb(
    *,
    inputs: Mapping[str, TableSchema],
    outputs: Mapping[str, TableSchema | Derived],
    rowwise: str | None = None,
    keyed: Mapping[str, tuple[str, ...]] | None = None,
    row_of: Mapping[str, str] | None = None,
    lookup: Mapping[str, Uses | Touches] | None = None,
    parts: Parts | None = None,
    libraries: tuple[str, ...] = (),
    placeholders: Mapping[str, Placeholders] | None = None,
    settings: str | None = None,
    stamp: Callable[[Any], str] | None = None,
    version: Callable[[Any], str] | None = None,
    reasons: Mapping[str, str | Reason] | None = None,
) -> Callable[[Function], Function]:
    """Register the function under its own name and return it unchanged. Raises TypeError where what
    is declared and the function's parameters do not fit."""

    def register(function: Function) -> Function:
        hints = get_type_hints(function)
        parameters = list(inspect.signature(function).parameters)
        names = [name for name in parameters if name not in inputs]
        kinds = {name: _role_kind(hints.get(name)) for name in names}
        roles = {name: kind for name, kind in kinds.items() if kind}
        declared = Verb(
            name=function.__name__,
            function=function,
            inputs=inputs,
            outputs=outputs,
            params=hints.get("params", Params) if "params" in names else Params,
            roles=roles,
            optional=frozenset(name for name in roles if hints[name] is not roles[name]),
            placeholders=placeholders or {},
            takes_params="params" in names,
            rowwise=rowwise,
            law=_law(rowwise, keyed or {}, row_of or {}, lookup or {}),
            parts=parts,
            libraries=libraries,
            settings=settings,
            stamp=stamp,
            version=version,
            reasons={
                name: meaning if isinstance(meaning, Reason) else Reason(meaning)
                for name, meaning in (reasons or {}).items()
            },
        )
        unbound = [name for name in names if name != "params" and name not in roles]
        if fault := _fault(declared, parameters, unbound, hints.get("params")):
            raise TypeError(f"verb '{function.__name__}': {fault}")
        _REGISTERING.get().verbs[function.__name__] = declared
        return function

    return register
