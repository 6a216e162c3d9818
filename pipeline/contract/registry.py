"""The decorator ``@verb``: it declares what a function reads, writes and needs; the function stays
plain.

Most tables have schemas of their own. A verb over any table (schemas.ANY, schemas.at_least)
declares its outputs by a function of the schemas it reads and of its params.

A verb's parameters are bound by name: input tables, ``params`` (a Params subclass), then roles by
their annotation: Prompt, ChatModel, EmbeddingModel, Tokenizer, Tracker, Converter or LastTables. A
role ``... | None = None`` is bound only where the workflow names a model or prompt for it; a
Converter is bound in every run. A verb returns its outputs in declared order.
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
from pipeline.contract.laws import ByParams, Law, Part, Touches, Uses
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
        """Return facts about the source that the next run needs to know; leave out empty ones."""
        return {}

    def trade(self) -> str:
        """Return in what these params make an incremental run differ from a full build, and why; ""
        if not at all.

        ``plan`` and ``status`` show it.
        """
        return ""

    def format_undecided(self) -> bool:
        """Check whether a trial of the chat model is still to decide the param ``format``."""
        return False

    def following(self, last: Mapping[str, str]) -> Self:
        """Return the params of a run after one that has noted ``last``.

        A source that examines all it reads may do so here, once for its stamp, its version and its
        verb. This is called before the source is read and after.
        """
        return self


class Tracker:
    """Receives the progress of a verb, which changes no result.

    This one ignores it: it is for a verb that is called by hand, or to estimate costs.
    """

    def expect(self, rows: int) -> None:
        """Note that ``rows`` more rows will be worked on."""

    def finished(self, rows: int) -> None:
        """Note that ``rows`` more rows are done."""


UNTRACKED = Tracker()


@dataclass(frozen=True)
class LastTables:
    """The tables that the step wrote in its last run, by the verb's names.

    They are empty in the first run, in a purge, when the step is forced, and when more than its
    inputs has changed. A verb that takes them may return something else than in a full build, and
    says so by the ``trade`` of its params.
    """

    tables: Mapping[str, pd.DataFrame]


NOTHING_WRITTEN = LastTables({})

Derived = Callable[[Mapping[str, TableSchema], Any], TableSchema]
"""A function (schemas of the inputs, params) -> schema of an output. It raises ValueError where
they do not fit."""
Parts = Callable[[Any], tuple[Part, ...]]
"""A function (params) -> the sub-steps of a verb, in the order in which they are executed."""


@dataclass(frozen=True)
class Verb:
    """A verb as the engine knows it.

    - ``rowwise``: the input for which f(a + b) = f(a) + f(b); without it the verb gets whole
      tables.
    - ``law``: which rows form a group (contract/laws.py); groups that did not change are kept from
      the last run.
    - ``parts``: sub-steps with laws of their own, for a verb that has none as a whole. The last
      ones return its outputs, by their names.
    - ``optional``: the roles that may be left unbound.
    - ``placeholders``: those of the prompt for each role.
    - ``libraries``: distributions whose version can change the result.
    - ``settings``: the section of settings.yaml that gives args their defaults.
    - ``stamp``: digests, from the params, what the verb reads from outside. It returns "" if that
      cannot be determined now: the step runs, and no later run reuses its record.
    - ``version``: tells, cheaply, whether that was written meanwhile, even to what it was before.
      Without one, ``stamp`` is used.
    - ``reasons``: reasons of rejects that the verb declares. In ``@verb`` a text is the meaning of
      a loss; ``reasons.decided("...")`` is that of a decision, which does not count towards
      ``max_reject_ratio``.

    A verb without inputs is a source.
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
        """Call the function and return its outputs by name.

        Missing cells of tables with fixed columns are filled first (TableSchema.filled). A Tracker
        that ``roles`` does not bind ignores progress, and LastTables are empty.

        Raises DataError where a required cell is missing, or the function does not return a table
        for each output.
        """
        filled = {name: self._fill_input(name, table) for name, table in tables.items()}
        defaults = {Tracker: UNTRACKED, LastTables: NOTHING_WRITTEN}
        unbound = {role: defaults[kind] for role, kind in self.roles.items() if kind in defaults}
        returned = self.function(**filled, **{**unbound, **roles})
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

    def _fill_input(self, name: str, table: pd.DataFrame) -> pd.DataFrame:
        return self.inputs[name].filled(table, f"verb '{self.name}': table '{name}'")

    def written(self, read: Mapping[str, TableSchema], params: Params) -> dict[str, TableSchema]:
        """Return the schemas of the outputs for inputs with these schemas.

        Raises ValueError where the params do not fit the inputs.
        """
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
    """Register the verbs that this thread declares within the context in this registry."""
    token = _REGISTERING.set(registry)
    try:
        yield
    finally:
        _REGISTERING.reset(token)


def _fault(verb: Verb, parameters: list[str], unbound: list[str], params: Any) -> str:
    """Return what is wrong with a declaration and its function; "" if nothing is."""
    missing = [name for name in verb.inputs if name not in parameters]
    if missing:
        return (
            f"the function has no parameter for its input {_quote(missing)}; add it, or remove the"
            " input"
        )
    if verb.takes_params and not (isinstance(params, type) and issubclass(params, Params)):
        return "params has no annotation that is a subclass of Params; write params: MyParams"
    if unbound:
        return (
            f"parameter {_quote(unbound)} is neither input, params nor role; annotate a role, or"
            " remove it"
        )
    if verb.rowwise and verb.rowwise not in verb.inputs:
        return (
            f"rowwise names '{verb.rowwise}', which is no input; have:"
            f" {', '.join(verb.inputs) or 'none'}"
        )
    if verb.law and (looking_back := verb.roles_of(LastTables)):
        return (
            f"parameter {_quote(looking_back)} needs all rows of the last run, and the law gives"
            " some; declare no law"
        )
    return _fault_of_law(verb) or _fault_of_reasons(verb)


def _fault_of_law(verb: Verb) -> str:
    law, outputs = verb.law, ", ".join(verb.outputs)
    if law is None:
        return ""
    if unknown := [name for name in law.keyed if name not in verb.inputs]:
        return (
            f"keyed names {_quote(unknown)}, which is no input; have:"
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
            f"lookup names {_quote(unknown)}, which is no rowwise or keyed input; have:"
            f" {', '.join(law.keyed)}"
        )
    if law.by_params and not verb.takes_params:
        return "by_params needs a parameter params; add it, or remove by_params"
    naming: list[ComparedColumn] = []
    for table, names in law.keyed.items():
        naming += [(table, verb.inputs[table], name) for name in names]
    for table, name in law.row_of.items():
        naming.append((table, verb.outputs[table], name))
    using: list[ComparedColumn] = [(name, verb.inputs[name], use.key) for name, use in uses.items()]
    for use in uses.values():
        using += [(use.table, verb.inputs[use.table], name) for name in use.columns]
    fault = _fault_of_columns(naming, "name groups")
    return fault or _fault_of_columns(using, "name entries of a dictionary")


ComparedColumn = tuple[str, TableSchema | Derived, str]
"""A table's name, its schema, and one of its columns."""


def _fault_of_columns(columns: Sequence[ComparedColumn], task: str) -> str:
    """Return what is wrong with columns whose values are to be compared; "" if nothing is.

    ``columns``: (table, its schema, column). A column that is unknown before tables exist is passed
    over. ``task``: what the columns are for, in the message.
    """
    kinds = set()
    for table, schema, name in columns:
        if not isinstance(schema, TableSchema) or (schema.more and name not in schema.columns):
            continue
        if name not in schema.columns:
            return (
                f"the law names column '{name}', which '{table}' does not have; have:"
                f" {', '.join(schema.columns)}"
            )
        kind = schema.arrow.field(name).type
        if is_list(kind):
            return (
                f"the law names column '{name}' of '{table}', which holds lists; name one of texts"
                " or numbers"
            )
        kinds.add("text" if is_text(kind) else "number")
    if len(kinds) > 1:
        return f"columns that {task} hold texts here and numbers there; name columns of one kind"
    return ""


def _fault_of_reasons(verb: Verb) -> str:
    if taken := sorted(set(verb.reasons) & set(REASONS)):
        return (
            f"reason {_quote(taken)} has a meaning already (pipeline.contract.reasons); give it"
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
    by_params: ByParams | None,
) -> Law | None:
    """Return the law of a declaration; None if it does not say how rows are grouped."""
    if not keyed and not row_of and not lookup:
        return None
    of_rows = {rowwise: ("id",)} if rowwise and row_of else {}
    return Law({**of_rows, **keyed}, row_of, lookup, by_params=by_params)


def _quote(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


ROLE_KINDS = (Prompt, ChatModel, EmbeddingModel, Tokenizer, Tracker, Converter, LastTables)


def _role_kind(hint: Any) -> type | None:
    """Return the kind of role that an annotation names, alone or in ``... | None``; None for no
    role."""
    for kind in ROLE_KINDS:
        if hint is kind or set(get_args(hint)) == {kind, type(None)}:
            return kind
    return None


def verb(
    *,
    inputs: Mapping[str, TableSchema],
    outputs: Mapping[str, TableSchema | Derived],
    rowwise: str | None = None,
    keyed: Mapping[str, tuple[str, ...]] | None = None,
    row_of: Mapping[str, str] | None = None,
    lookup: Mapping[str, Uses | Touches] | None = None,
    by_params: ByParams | None = None,
    parts: Parts | None = None,
    libraries: tuple[str, ...] = (),
    placeholders: Mapping[str, Placeholders] | None = None,
    settings: str | None = None,
    stamp: Callable[[Any], str] | None = None,
    version: Callable[[Any], str] | None = None,
    reasons: Mapping[str, str | Reason] | None = None,
) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as a verb under its own name and returns it
    unchanged.

    The decorator raises TypeError where the declaration does not fit the function's parameters.
    """

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
            law=_law(rowwise, keyed or {}, row_of or {}, lookup or {}, by_params),
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
