"""No query text is made of data: what a database is sent is a literal, a constant, or composed by
its driver of quoted identifiers and values. Read off the source; what a parameter of type
LiteralString may be is for the type checker."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipeline.stores.neo4j import cypher

PIPELINE = Path(cypher.__file__).parents[2]
FOLDERS = ("stores", "load", "verify", "models", "doctor", "query", "evaluation", "export")
MODULES = sorted(path for folder in FOLDERS for path in (PIPELINE / folder).rglob("*.py"))
assert Path(cypher.__file__) in MODULES

TAKES_TEXT = frozenset(
    {"text", "literal_column", "SQL", "DDL", "exec_driver_sql", "execute_query", "executescript"}
)
"""What makes its first argument, or sends it as, a part of a statement."""
SENDS = frozenset({"execute", "executemany", "run", "scalars"})
"""What sends its first argument: a constant, or what a library has composed, which has a type of
its own."""
FORMATS = frozenset({"format", "format_map", "join", "replace", "str"})
STATEMENT = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|COPY|ANALYZE|VACUUM|SET|PRAGMA|MATCH|MERGE|UNWIND|CALL|WHERE"
    r"|RETURN|FROM|VALUES)\b"
    r"|(?i:^\s*(select|insert\s+into|update\s+\S+\s+set|delete\s+from|create\s+\w+|alter\s+\w+|drop\s+\w+|copy|pragma"
    r"|(optional\s+)?match\s*\(|merge\s*\(|unwind|detach\s+delete)\b)"
    r"|(?i:\b(where|set|and|or)\s+\S+\s*=\s*'?$|\b(match|merge|create)\s*\()"
)
LOOSE = re.compile(r"\b(str|Any|object)\b")
"""Annotations of what may be any text."""


@dataclass(frozen=True)
class Names:
    """Of a module: those that are nothing but literals or of type LiteralString, those that are
    psycopg's SQL, and those that are never a text."""

    constants: frozenset[str]
    snippets: frozenset[str]
    composed: frozenset[str] = frozenset()


def made_texts(source: str) -> list[str]:
    """Where a text that is no constant becomes part of a statement, or a statement is put
    together."""
    tree = ast.parse(source)
    names = _names_of(tree)
    return [
        f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if _is_made(node, names)
    ]


def _is_made(node: ast.AST, names: Names) -> bool:
    if isinstance(node, ast.JoinedStr):
        return _has_statement(node)
    if isinstance(node, ast.BinOp):
        return _has_statement(node) and not _is_constant(node, names.constants)
    if not isinstance(node, ast.Call):
        return False
    name = _last_name(node.func)
    if name in FORMATS and isinstance(node.func, ast.Attribute):
        return not _is_composition(node.func.value, names) and _has_statement(node)
    if not node.args:
        return False
    if (
        name in SENDS
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) != "subprocess"
    ):
        return not _is_composed(node.args[0], names)
    return name in TAKES_TEXT and not _is_constant(node.args[0], names.constants)


def _has_statement(node: ast.AST) -> bool:
    texts = [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return any(map(STATEMENT.search, texts))


def _is_composition(node: ast.expr, names: Names) -> bool:
    """psycopg's own: its ``format`` and ``join`` take nothing but Identifier, Literal, Placeholder
    and SQL."""
    if isinstance(node, ast.Name):
        return node.id in names.snippets
    return isinstance(node, ast.Call) and _last_name(node.func) == "SQL"


def _is_composed(node: ast.expr, names: Names) -> bool:
    """Whether it is a constant, or what a call returns that makes no text, or holds only such."""
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        return name not in FORMATS or (
            isinstance(node.func, ast.Attribute) and _is_composition(node.func.value, names)
        )
    if isinstance(node, ast.IfExp):
        return _is_composed(node.body, names) and _is_composed(node.orelse, names)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _is_composed(node.elt, names)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_composed(item, names) for item in node.elts)
    return (isinstance(node, ast.Name) and node.id in names.composed) or _is_constant(
        node, names.constants
    )


def _is_constant(node: ast.expr, constants: frozenset[str]) -> bool:
    if isinstance(node, ast.BinOp):
        added = isinstance(node.op, ast.Add)
        return added and _is_constant(node.left, constants) and _is_constant(node.right, constants)
    if isinstance(node, ast.IfExp):
        return _is_constant(node.body, constants) and _is_constant(node.orelse, constants)
    if isinstance(node, ast.Subscript):
        return _is_constant(node.value, constants)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "cypher"
    if isinstance(node, ast.Name):
        return node.id in constants
    if isinstance(node, ast.Call):
        # Neo4j's own: a text with a limit of time.
        is_query = _last_name(node.func) == "Query" and bool(node.args)
        return is_query and _is_constant(node.args[0], constants)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _names_of(tree: ast.Module) -> Names:
    names = Names(_constants(tree), _snippets(tree))
    bound = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound[node.arg].append(
                bool(node.annotation and not LOOSE.search(ast.unparse(node.annotation)))
            )
        elif isinstance(node, ast.AugAssign):
            bound[ast.unparse(node.target)].append(False)
        for name, value in _assigned(node):
            bound[name].append(
                bool(value and _is_composed(value, replace(names, composed=frozenset({name}))))
            )
    good = (
        names.constants | {name for name, found in bound.items() if all(found)} | {"cypher", "self"}
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            sources = {part.id for part in ast.walk(node.iter) if isinstance(part, ast.Name)}
            for name in _names(node.target):
                bound[name].append(bool(sources) and sources <= good)
    return replace(names, composed=frozenset(name for name, found in bound.items() if all(found)))


def _snippets(tree: ast.Module) -> frozenset[str]:
    bound = defaultdict(list)
    for node in ast.walk(tree):
        for name, value in _assigned(node):
            bound[name].append(isinstance(value, ast.Call) and _last_name(value.func) == "SQL")
    return frozenset(name for name, found in bound.items() if all(found))


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from ((name, node.value) for name in _names(target))


def _constants(tree: ast.Module) -> frozenset[str]:
    """Names that are nothing but literals wherever they are bound, or of type LiteralString."""
    bound = defaultdict(list)
    for name, literal in _bindings(tree):
        bound[name].append(literal)
    return frozenset(name for name, literals in bound.items() if all(literals))


def _bindings(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield (
                node.arg,
                isinstance(node.annotation, ast.Name) and node.annotation.id == "LiteralString",
            )
        elif isinstance(node, ast.Assign):
            yield from (
                (target, _is_literal(node.value))
                for place in node.targets
                for target in _names(place)
            )
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            annotation = getattr(node, "annotation", None)
            # The type checker holds an annotated constant to literals, and to joins of these.
            is_declared = isinstance(annotation, ast.Name) and annotation.id == "LiteralString"
            is_literal = is_declared or _is_literal(node.value)
            yield from ((target, is_literal) for target in _names(node.target))
        elif isinstance(node, ast.AugAssign | ast.For | ast.comprehension):
            yield from ((target, False) for target in _names(node.target))


def _is_literal(node: ast.expr | None) -> bool:
    values = node.values if isinstance(node, ast.Dict) else [node]
    return all(isinstance(value, ast.Constant) and isinstance(value.value, str) for value in values)


def _names(target: ast.expr) -> list[str]:
    return [
        node.id
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize("module", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_statement_is_made_of_data(module: Path):
    assert made_texts(module.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(text(f'SELECT {name}'))",
        "connection.execute(text(statement))",
        "connection.execute('SELECT %s' % name)",
        "session.run('MATCH (n:' + label + ') RETURN n')",
        "HEAD = 'MATCH (n:'\nsession.run(HEAD + label + ') RETURN n')",
        "HEAD = 'MATCH (n)'\nHEAD = given\nsession.run(HEAD + ' RETURN n')",
        "session.run('MATCH (n:{}) RETURN n'.format(label))",
        "session.run(' '.join(['MATCH (n)', rest]))",
        "session.run('MATCH (n:LABEL) RETURN n'.replace('LABEL', label))",
        "statement = f'DROP TABLE {name}'\nconnection.exec_driver_sql(statement)",
        "statement = 'DROP'\nstatement += name\nconnection.exec_driver_sql(statement)",
        "for statement in found: driver.execute_query(statement)",
        "def send(statement: str): driver.execute_query(statement)",
        "cursor.execute(sql.SQL(name))",
        "cursor.execute(sql.SQL('DROP TABLE ' + name))",
        "select(sa.literal_column(name))",
        "cursor.execute(statement)",
        "def send(statement: str): cursor.execute(statement)",
        "def send(statement): session.run(statement)",
        "for statement in found: session.run(statement)",
        "statement = ', '.join(parts)\ncursor.execute(statement)",
        "session.run(str(statement))",
        "driver.execute_query(Query(statement))",
        "driver.execute_query(Query('MATCH (n:' + label + ') RETURN n'))",
        "session.run(texts['one'])",
        "TEXT = 'no statement {}'\nsession.run(TEXT.format(name))",
        "statement = f'select * from {table}'",
        "statement = 'delete from ' + table",
        "statement = 'match (n:' + label + ') return n'",
        "condition = f\"where name = '{name}'\"",
        "TEXTS = {'a': 'SELECT 1', 'b': other}\nconnection.execute(text(TEXTS['b']))",
    ],
)
def test_the_check_finds_statements_that_are_put_together(source: str):
    assert made_texts(source)


@pytest.mark.parametrize(
    "source",
    [
        "cursor.execute(sql.SQL('DROP TABLE {}').format(sql.Identifier(name)))",
        "sql.SQL(', ').join(map(sql.Identifier, names))",
        "driver.execute_query(cypher.LIVE, {'workspace': workspace})",
        "session.run(cypher.STATES[table], workspace=workspace)",
        "connection.execute(select(TABLE.c.id).where(TABLE.c.id == name))",
        "STATEMENT = 'SELECT 1'\nconnection.execute(text(STATEMENT))",
        "def send(statement: LiteralString): driver.execute_query(statement)",
        "sql.SQL('PLAIN' if short else 'EXTERNAL')",
        "query = select(TABLE)\nconnection.execute(query)",
        "connection.execute(nearest(vector))",
        "def send(statement: sql.Composed): cursor.execute(statement)",
        (
            "statement = sql.SQL('DROP TABLE"
            " {}').format(sql.Identifier(name))\ncursor.execute(statement)"
        ),
        "for query in cypher.STATES.values(): session.run(query)",
        "message = f'{name}: from here, set another'",
        "HEAD = 'MATCH (n)'\nsession.run(HEAD + ' RETURN n')",
    ],
)
def test_the_check_accepts_constant_statements(source: str):
    assert made_texts(source) == []
