"""The code that a function's result depends on, independent of the modules, files and names it is
in.

A definition is a statement at the top of a module that binds names. Starting at a function, each
name that a definition loads is followed to the definition it refers to, through imports. In the
form of a definition, a name is replaced by the number of the definition it refers to, in order of
discovery. So code that moves to another module, is renamed or is imported in another way keeps its
form. Names within a definition, and attributes, are kept as they are.
"""

import ast
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from itertools import groupby
from pathlib import Path

PACKAGE = "pipeline"
MACHINERY = frozenset(
    {"errors", "contract.laws", "contract.registry", "contract.schemas", "models.base"}
)
"""Modules that a verb imports and that cannot change its result. Declared schemas and prompts have
fingerprints of their own; SCHEMA_VERSION stands for the order in which tables are kept."""

Form = list[str]
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def forms(module: str, name: str) -> list[Form]:
    """Return the form of the definition of ``name`` in ``module`` and of all that it depends on,
    itself first."""
    closure = _Closure()
    closure.number(module, name)
    closure.follow()
    return closure.forms


def folder_around(module: str) -> Path | None:
    """Return the folder of the package in which definitions are followed, or None if the module is
    outside of it."""
    spec = _spec(PACKAGE) if _is_ours(module) else None
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


@dataclass(frozen=True)
class _Origin:
    """The target of an imported name: a module, or a name in it."""

    module: str
    name: str | None = None


@dataclass(frozen=True)
class _Reference:
    """A name that no enclosing function binds, or that is bound by an import in one, with the
    attributes that are read from it."""

    start: str | _Origin
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Module:
    """A parsed module.

    ``definitions``: for each name, the positions in ``statements`` that bind it, each with the
    name's position among those bound there. ``stars``: modules imported by ``*``.
    """

    statements: tuple[ast.stmt, ...]
    definitions: dict[str, list[tuple[int, int]]]
    imports: dict[str, _Origin]
    stars: tuple[str, ...]
    loose: tuple[int, ...]
    """The positions of the statements that bind nothing."""
    tokens: dict[int, tuple[str | _Reference, ...]] = field(default_factory=dict)

    def form(self, place: int) -> tuple[str | _Reference, ...]:
        if place not in self.tokens:
            tokens = _Forms(at_the_top=True).of(self.statements[place])
            self.tokens[place] = tuple(_join_texts(tokens))
        return self.tokens[place]


class _Closure:
    """Numbers definitions in the order in which they are met, and builds their forms."""

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._waiting: list[tuple[str, int]] = []
        self._modules: dict[str, _Module] = {}

    def follow(self) -> None:
        while True:
            while self._waiting:
                module, place = self._waiting.pop(0)
                tokens = self._module(module).form(place)
                self.forms.append([self._token(module, token) for token in tokens])
            if not self._meets_loose():
                return

    def number(self, module: str, name: str) -> str:
        """Return the token for a name that the module defines, and add its definitions to the
        queue."""
        numbers = []
        for place, position in self._module(module).definitions[name]:
            if (module, place) not in self._numbers:
                self._numbers[module, place] = len(self._numbers)
                self._waiting.append((module, place))
            numbers.append(f"#{self._numbers[module, place]}.{position}")
        return " ".join(numbers)

    def _meets_loose(self) -> bool:
        """Add a statement to the queue that binds nothing but uses a definition that was met;
        return whether there was one."""
        for module in dict.fromkeys(module for module, _ in self._numbers):
            for place in self._module(module).loose:
                if (module, place) not in self._numbers and self._concerns(module, place):
                    self._numbers[module, place] = len(self._numbers)
                    self._waiting.append((module, place))
                    return True
        return False

    def _concerns(self, module: str, place: int) -> bool:
        read = self._module(module)
        names = {token.start for token in read.form(place) if isinstance(token, _Reference)}
        return any(
            (module, at) in self._numbers
            for name in names
            for at, _ in read.definitions.get(str(name), ())
        )

    def _token(self, module: str, token: str | _Reference) -> str:
        if isinstance(token, str):
            return token
        if isinstance(token.start, _Origin):
            return self._resolve_import(token.start, token.attributes)
        return self._resolve_name(module, token.start, token.attributes)

    def _resolve_name(self, module: str, name: str, attributes: Sequence[str]) -> str:
        """Return the token for a name in a module: its definition, its import, or the name itself
        for a builtin."""
        read = self._module(module)
        found = []
        if name in read.definitions:
            found.append(_dotted(self.number(module, name), attributes))
        if name in read.imports:
            found.append(self._resolve_import(read.imports[name], attributes))
        if not found:
            # The name may come from any module of which everything is imported.
            stars = filter(_is_followed, read.stars)
            found += [self._of(star, (name, *attributes)) for star in stars]
        return " ".join(found) or _dotted(name, attributes)

    def _resolve_import(self, origin: _Origin, attributes: Sequence[str]) -> str:
        names = (origin.name, *attributes) if origin.name else tuple(attributes)
        return self._of(origin.module, names)

    def _of(self, module: str, names: Sequence[str]) -> str:
        """Return the token for a dotted name that starts at a module; the module alone stands for
        all its definitions."""
        if not _is_ours(module):
            return _dotted(module, names)
        if names and _is_module(f"{module}.{names[0]}"):
            return self._of(f"{module}.{names[0]}", names[1:])
        if not _is_followed(module):
            return _dotted("machinery", names)
        if names:
            return self._resolve_name(module, names[0], names[1:])
        return " ".join(self.number(module, name) for name in self._module(module).definitions)

    def _module(self, module: str) -> _Module:
        if module not in self._modules:
            self._modules[module] = _parse_module(_source(module))
        return self._modules[module]


def _dotted(start: str, attributes: Sequence[str]) -> str:
    return ".".join((start, *attributes))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _is_followed(module: str) -> bool:
    return _is_ours(module) and module.removeprefix(f"{PACKAGE}.") not in MACHINERY


def _is_module(name: str) -> bool:
    return _spec(name) is not None


@cache
def _spec(module: str) -> ModuleSpec | None:
    """Return where the module is, or None, without importing anything.

    ``importlib.util.find_spec`` would import the packages around it.
    """
    package = module.rpartition(".")[0]
    if not package:
        return importlib.util.find_spec(module)
    around = _spec(package)
    places = around.submodule_search_locations if around else None
    return PathFinder.find_spec(module, places) if places else None


def _source(module: str) -> str:
    spec = _spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module}: no source to fingerprint")
    return Path(spec.origin).read_text(encoding="utf-8")


@cache
def _parse_module(source: str) -> _Module:
    """Parse a module. The cache is keyed by the source, which may change while the process runs."""
    statements = tuple(ast.parse(source).body)
    definitions: dict[str, list[tuple[int, int]]] = {}
    imports: dict[str, _Origin] = {}
    stars: list[str] = []
    loose: list[int] = []
    for place, statement in enumerate(statements):
        bound = dict.fromkeys(_bound_at_the_top(statement))
        for position, name in enumerate(bound):
            definitions.setdefault(name, []).append((place, position))
        found = [
            node
            for node in _of_this_scope([statement])
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        for node in found:
            imports |= _origins(node)
            stars += _starred(node)
        if not bound and not found and not _is_docstring(statement):
            loose.append(place)
    return _Module(statements, definitions, imports, tuple(stars), tuple(loose))


def _origins(node: ast.Import | ast.ImportFrom) -> dict[str, _Origin]:
    """Return the names that an import binds, and their targets. Relative imports are recorded but
    never followed."""
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return {
            alias.asname or alias.name: _Origin(module, alias.name)
            for alias in node.names
            if alias.name != "*"
        }
    named = {alias.asname: _Origin(alias.name) for alias in node.names if alias.asname}
    roots = [alias.name.partition(".")[0] for alias in node.names if not alias.asname]
    return named | {root: _Origin(root) for root in roots}


def _starred(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        return [node.module or ""]
    return []


def _is_docstring(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _bound_at_the_top(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module binds, except by imports."""
    for node in _of_this_scope([statement]):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            yield from _bound_by(node)


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from _origins(node)
        case _:
            return


def _of_this_scope(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes and their descendants in order, but not those in the scope of a nested
    definition.

    A comprehension is a scope of its own; only targets of ``:=`` belong to the scope around it.
    """
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, COMPREHENSIONS):
            waiting += [
                below.target for below in ast.walk(node) if isinstance(below, ast.NamedExpr)
            ]
        elif not isinstance(node, FUNCTIONS | ast.ClassDef | ast.Name | ast.Constant):
            waiting += reversed(list(ast.iter_child_nodes(node)))


@dataclass(frozen=True)
class _Scope:
    """The names that a function or comprehension binds. Names of a class body are not visible in
    nested scopes."""

    bound: frozenset[str]
    imports: dict[str, _Origin]


def _join_texts(tokens: Iterator[str | _Reference]) -> Iterator[str | _Reference]:
    """Join runs of texts between two references to one text each."""
    for kind, run in groupby(tokens, type):
        if kind is str:
            yield " ".join(map(str, run))
        else:
            yield from run


@dataclass(frozen=True)
class _Forms:
    """Builds forms within nested scopes, the innermost last.

    ``at_the_top``: names that a top-level statement binds are left out of its form.
    """

    scopes: tuple[_Scope, ...] = ()
    at_the_top: bool = False

    def of(self, node: ast.AST) -> Iterator[str | _Reference]:
        match node:
            case ast.Import() | ast.ImportFrom():
                return
            case ast.Name(id=name, ctx=ast.Load()):
                yield self._loaded(name, ())
            case ast.Name(id=name):
                yield "=" if self.at_the_top else f"={name}"
            case ast.Attribute(attr=name):
                yield from self._attribute(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from self._function(node)
            case ast.ClassDef():
                yield from self._class(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from self._comprehension(node)
            case ast.Constant(value=value):
                yield f"{type(value).__name__} {value!r}"
            case _:
                yield from self._encode_fields(node, ast.iter_fields(node))

    def _encode_fields(
        self, node: ast.AST, fields: Iterator[tuple[str, object]]
    ) -> Iterator[str | _Reference]:
        """Yield the fields of a node; empty ones are left out, since Python versions differ in
        which they set."""
        yield type(node).__name__
        for name, value in fields:
            if isinstance(value, ast.AST):
                yield from (f".{name}", *self.of(value))
            elif isinstance(value, list) and value:
                yield f".{name}["
                for element in value:
                    yield from (
                        self.of(element) if isinstance(element, ast.AST) else (repr(element),)
                    )
                yield "]"
            elif value not in (None, []):
                yield f".{name} {value!r}"

    def _loaded(self, name: str, attributes: tuple[str, ...]) -> str | _Reference:
        for scope in reversed(self.scopes):
            if name in scope.imports:
                return _Reference(scope.imports[name], attributes)
            if name in scope.bound:
                return _dotted(f"local {name}", attributes)
        return _Reference(name, attributes)

    def _attribute(self, node: ast.Attribute) -> Iterator[str | _Reference]:
        """Yield a dotted name as one reference."""
        attributes, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            attributes.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            yield self._loaded(base.id, tuple(reversed(attributes)))
        else:
            yield from self._encode_fields(node, ast.iter_fields(node))

    def _function(self, node: FUNCTIONS) -> Iterator[str | _Reference]:
        """Yield the form of a function. Its decorators, defaults and annotations belong to the
        scope around it."""
        yield type(node).__name__
        around = _Forms(self.scopes)
        if not isinstance(node, ast.Lambda):
            yield "" if self.at_the_top else node.name
            annotation = [node.returns] if node.returns else []
            yield from self._sequence(around, [*node.decorator_list, *annotation])
        yield from around.of(node.args)
        body = [node.body] if isinstance(node, ast.Lambda) else _without_docstring(node.body)
        yield from self._sequence(self._enter_function(node.args, body), body)

    def _class(self, node: ast.ClassDef) -> Iterator[str | _Reference]:
        """Yield the form of a class. Names that its body binds are treated as not bound.

        They are visible in the body alone, and before they are bound there, the name may refer to
        an outer one.
        """
        yield f"class {'' if self.at_the_top else node.name}"
        around = _Forms(self.scopes)
        yield from self._sequence(around, [*node.decorator_list, *node.bases, *node.keywords])
        yield from self._sequence(around, _without_docstring(node.body))

    def _comprehension(self, node: COMPREHENSIONS) -> Iterator[str | _Reference]:
        """Yield the form of a comprehension. Its first iterable belongs to the scope around it."""
        yield type(node).__name__
        yield from _Forms(self.scopes).of(node.generators[0].iter)
        bound = frozenset(
            name
            for part in node.generators
            for below in ast.walk(part.target)
            for name in _bound_by(below)
        )
        within = _Forms((*self.scopes, _Scope(bound, {})))
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        yield from self._sequence(within, elements)
        for place, part in enumerate(node.generators):
            iterable = [part.iter] if place else []
            yield from self._sequence(within, [part.target, *iterable, *part.ifs])

    def _enter_function(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> "_Forms":
        """Return the forms of a function's body, with the names that it binds as a scope."""
        nodes = list(_of_this_scope(body))
        elsewhere = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        imports: dict[str, _Origin] = {}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports |= _origins(node)
        bound = {argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)}
        bound |= {name for node in nodes for name in _bound_by(node)}
        local = frozenset(bound - elsewhere - set(imports))
        return _Forms((*self.scopes, _Scope(local, imports)))

    @staticmethod
    def _sequence(forms: "_Forms", nodes: Sequence[ast.AST]) -> Iterator[str | _Reference]:
        yield "("
        for node in nodes:
            yield from forms.of(node)
        yield ")"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in body if not _is_docstring(statement)]
