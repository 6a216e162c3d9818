"""Check the style of the code in `pipeline/`: `make style` prints the figures and fails on a fault.

    python .ci/style.py                  # all rooms
    python .ci/style.py pipeline/load    # one room; names are still counted over all rooms

Three things are checked.

1. The docstring of a function begins with an imperative from `VERBS`. Other docstrings do not
   begin with a word that makes them a fragment. The first paragraph of each ends as a sentence.
2. The density of the code: AST nodes per statement and per line of code, as a thermometer. A file
   above `MOST_IN_A_FILE` needs a reason in `DENSE`.
3. A function of a module, or a private method, has a name that at most `MOST_OF_A_NAME` share.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pipeline"
MOST_PER_STATEMENT = 11.0
MOST_PER_LINE = 9.2
"""The goal is 8.5. What is above it are signatures, patterns, declarations and rows of tables."""
MOST_IN_A_FILE = 14.0
"""AST nodes per statement of one file. A very dense file hides several ideas in one statement."""
MOST_OF_A_NAME = 3
LONGEST_SENTENCE = 25
"""Words. Longer sentences are counted and printed; they are no fault."""
VERBS = frozenset(
    """
    accept add adjust advance align allow analyze answer apply append apply approximate arrange ask
    assert assign attach authenticate await balance begin bind block break bring build cache
    calculate call cancel capture carry change check choose chunk clean clear close cluster collect
    combine commit compact compare compile complete compose compress compute confirm connect
    consume continue convert copy correct count cover create cut deal decide declare decode decorate
    define delay delete deliver deny derive describe detach detect determine disable discard
    dispatch display divide do download draw drop embed empty enable encode end enforce enter
    estimate evaluate examine exclude execute exit expand explain export expose extend extract fail
    fetch fill filter find finish fix flag flatten flush fold follow forget format forward free fuse
    gather generate get give go group guard guess halve hand handle hash hide hold identify ignore
    import include index infer inform initialize insert inspect install interpret interrupt
    invalidate iterate join judge keep label lay leave let limit link list listen load locate lock
    log look lower make map mark match measure merge move name narrow normalize note notify number
    observe obtain offer omit open order pack pad page parse pass patch pause perform pick place
    plan poll pool predict prefer prepare present preserve price print probe process produce project
    propose protect prove provide prune publish purge put quote raise rank rate reach read rebuild
    receive recompute record recover reduce refer refresh refuse register reject release reload
    remember remove rename render renew reopen repair repeat replace report request require rerank
    rescale reserve reset resolve restart restore restrict resume retrieve retry return reuse
    revert rewrite roll rotate round route run sample save say scale scan schedule score search seal
    see select send separate serve set share shift shorten show shrink shuffle shut sign signal
    simplify skip sleep sort spell split stand start state steer stop store stream strip submit
    subtract suggest sum summarize support suspend swap switch take teach tell terminate test tidy
    time total touch trace track train translate treat trim try tune turn undo unite unlock unpack
    update upload upsert use validate verify view visit wait wake walk warn watch weigh widen wire
    withdraw wrap write yield
    """.split()
)
FRAGMENTS = frozenset(
    """
    what of those as by else none where whose which that whom who how when while whether at in on
    for with without from so also and or but because than then until unless too
    """.split()
)
DENSE: dict[str, str] = {
    "pipeline/cli/build.py": "declarations: each option of a command is a parameter with its help",
    "pipeline/cli/corrections.py": "declarations: each option of a command is a parameter",
    "pipeline/settings/query_fields.py": "declarations: an annotation holds type, limits and texts",
    "pipeline/contract/reasons.py": "declarations of reasons: one expression with all of them",
    "pipeline/contract/schemas.py": "declarations of tables: one expression with all columns",
    "pipeline/export/graphrag_parquet.py": "declarations: tables with all their columns",
    "pipeline/stores/postgres/drawing.py": "SQL: one expression for each statement",
    "pipeline/stores/postgres/graph.py": "SQL: one expression for each statement",
    "pipeline/stores/postgres/queries.py": "SQL: one expression for each statement",
    "pipeline/stores/postgres/reads.py": "SQL: one expression for each statement",
    "pipeline/stores/postgres/schema.py": "declarations of tables: one expression with all columns",
    "pipeline/stores/postgres/sources.py": "SQL: one expression for each condition",
    "pipeline/query/search/filtered.py": "reads of a protocol: most statements are signatures",
    "pipeline/verbs/merge_graphs.py": "declarations: each sub-step with its tables and its law",
    "pipeline/verbs/merging/tables.py": "declarations of tables: one expression with all columns",
}
"""Files that are denser than `MOST_IN_A_FILE`, each with the reason."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Figures:
    """The figures of some files; `names` maps a name to the places that define it."""

    nodes: int = 0
    statements: int = 0
    lines: int = 0
    docstrings: int = 0
    sentences: int = 0
    long_sentences: int = 0
    comments: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Add the figures of another file."""
        self.nodes += other.nodes
        self.statements += other.statements
        self.lines += other.lines
        self.docstrings += other.docstrings
        self.sentences += other.sentences
        self.long_sentences += other.long_sentences
        self.comments += other.comments
        self.faults += other.faults


def measure(path: Path) -> Figures:
    """Return the figures and the faults of one file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    place = path.relative_to(ROOT).as_posix()
    figures = Figures()
    nodes = list(ast.walk(tree))
    figures.nodes = len(nodes)
    figures.statements = sum(isinstance(node, ast.stmt) for node in nodes)
    docstrings = list(docstrings_of(tree))
    lines = lines_of_code(source)
    for node, owner in docstrings:
        lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        text = str(node.value)
        figures.docstrings += 1
        if fault := fault_of(text, owner):
            first = text.strip().split("\n")[0]
            figures.faults.append(f"{place}:{node.lineno}: {fault}: {first[:70]}")
        for sentence in sentences_of(text):
            figures.sentences += 1
            figures.long_sentences += len(sentence.split()) > LONGEST_SENTENCE
    figures.lines = len(lines)
    figures.comments = sum(line.lstrip().startswith("#") for line in source.split("\n"))
    density = figures.nodes / max(1, figures.statements)
    if density > MOST_IN_A_FILE and place not in DENSE:
        figures.faults.append(f"{place}:1: {density:.1f} nodes per statement")
    return figures


def docstrings_of(tree: ast.Module) -> Iterator[tuple[ast.Constant, ast.AST | None]]:
    """Yield each docstring with what it describes; None stands for a constant or a field."""
    for parent in ast.walk(tree):
        body = getattr(parent, "body", None)
        if not isinstance(body, list):
            continue
        for position, statement in enumerate(body):
            if not isinstance(statement, ast.Expr):
                continue
            value = statement.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                described = isinstance(parent, Definition | ast.Module) and position == 0
                yield value, parent if described else None


def fault_of(docstring: str, owner: ast.AST | None) -> str | None:
    """Return the reason why the beginning of a docstring is no plain sentence, or None."""
    paragraph = docstring.strip().split("\n\n")[0].strip()
    if not paragraph:
        return "an empty docstring"
    first_word = re.split(r"[^\w'-]+", paragraph.lstrip("`\"'(*"))[0]
    is_function = isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)
    if is_function and not is_property(owner):
        if first_word.lower() not in VERBS or not first_word[:1].isupper():
            return "begin with an imperative"
    elif first_word.lower() in FRAGMENTS:
        return f"'{first_word}' begins a fragment"
    if not paragraph.endswith((".", ".)", "?", "!", ":", "::", '."')):
        return "end the first paragraph as a sentence"
    return None


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function is read like a field: its docstring may name the value."""
    names = [ast.unparse(decorator).split("(")[0] for decorator in function.decorator_list]
    return any(name.split(".")[-1] in {"property", "cached_property"} for name in names)


def sentences_of(docstring: str) -> list[str]:
    """Return the sentences of the prose in a docstring; indented blocks are left out."""
    paragraphs = re.split(r"\n\s*\n", docstring.strip())
    prose = [" ".join(paragraph.split()) for paragraph in paragraphs if "    " not in paragraph[4:]]
    return [part for text in prose for part in re.split(r"(?<=[.?!:;])\s+", text) if part]


def lines_of_code(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blank line and no comment."""
    beside = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in beside:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def definitions(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Map each name of a module's function, or of a private method, to the places it has."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = path.relative_to(ROOT).as_posix()
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        methods = [
            node
            for parent in tree.body
            if isinstance(parent, ast.ClassDef)
            for node in parent.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
        ]
        for node in functions + methods:
            if not node.name.startswith("__"):
                found[node.name].append(f"{place}:{node.lineno}")
    return found


def name_faults(paths: Sequence[Path]) -> list[str]:
    """Return a fault for each name that more than `MOST_OF_A_NAME` places define."""
    shared = {
        name: places for name, places in definitions(paths).items() if len(places) > MOST_OF_A_NAME
    }
    often_first = sorted(shared, key=lambda name: -len(shared[name]))
    return [
        f"{name} has {len(shared[name])} definitions: {', '.join(shared[name])}"
        for name in often_first
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures and the faults; return 1 if there is a fault."""
    places = [Path(argument).resolve() for argument in arguments] or [PACKAGE]
    every_file = sorted(PACKAGE.rglob("*.py"))
    chosen = [
        path
        for path in every_file
        if any(place == path or place in path.parents for place in places)
    ]
    total = Figures()
    rooms: dict[str, Figures] = defaultdict(Figures)
    for path in chosen:
        figures = measure(path)
        total.add(figures)
        parts = path.relative_to(PACKAGE).parts
        rooms[parts[0] if len(parts) > 1 else "."].add(figures)
    print(f"{'room':<14}{'per statement':>14}{'per line':>10}{'docstrings':>12}{'faults':>8}")
    for room, figures in [*sorted(rooms.items()), ("all", total)]:
        per_statement = figures.nodes / max(1, figures.statements)
        per_line = figures.nodes / max(1, figures.lines)
        print(
            f"{room:<14}{per_statement:>14.1f}{per_line:>10.1f}"
            f"{figures.docstrings:>12,}{len(figures.faults):>8,}"
        )
    print(
        f"{total.long_sentences:,} of {total.sentences:,} sentences of docstrings have more than "
        f"{LONGEST_SENTENCE} words; {total.comments:,} full-line comments"
    )
    faults = list(total.faults)
    is_whole = not arguments
    names = name_faults(every_file)
    if is_whole:
        faults += names
        if total.nodes / total.statements > MOST_PER_STATEMENT:
            faults.append(f"more than {MOST_PER_STATEMENT} nodes per statement")
        if total.nodes / total.lines > MOST_PER_LINE:
            faults.append(f"more than {MOST_PER_LINE} nodes per line of code")
    else:
        faults += [
            name for name in names if any(str(path.relative_to(ROOT)) in name for path in chosen)
        ]
    for fault in faults:
        print(fault)
    kinds = Counter("names" if "definitions:" in fault else "other" for fault in faults)
    print(f"{len(faults):,} faults, {kinds['names']:,} of them names" if faults else "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
