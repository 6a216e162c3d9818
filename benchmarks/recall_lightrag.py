"""Recall of LightRAG 1.5.7 over a set of benchmarks/sets.py, beside that of recall.py.

    python benchmarks/recall_lightrag.py vault company --output FOLDER

LightRAG is installed into an environment of its own (--python names one that is there). Its
replies of the extraction are recorded ones: the facts by which a file was made, as far as the
file's text names their subject, so no model extracts better. Its keywords are the names of the
question, and the question. Its vectors are the builtin ones of graphmill. `--names` puts the
file's name before each text, as LightRAG's users would have to. FOLDER/NAME.json gets the modes
`lightrag naive` and so on, with BM25, for `recall.py --compare`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import print_table

from benchmarks.beside_lightrag import LightragUnavailable, install
from benchmarks.made_set import MadeFile, MadeSet
from benchmarks.recall import KS, add_bm25, add_versions, measured, summary
from benchmarks.sets import SETS, made_set
from pipeline.models.here.builtin import DIMENSIONS, BuiltinEmbedding

SCRIPT = Path(__file__).with_name("lightrag_recall.py")
MODES = ("naive", "local", "hybrid", "mix")
FIELD, END = "<|#|>", "<|COMPLETE|>"
"""LightRAG's own delimiters."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", choices=SETS)
    parser.add_argument("--names", action="store_true", help="the file's name before each text")
    parser.add_argument("--python", type=Path, help="of an environment that has LightRAG")
    parser.add_argument("--output", type=Path, help="a folder for the JSON of each set")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graphmill-lightrag-") as folder:
        python = options.python or install(Path(folder) / "env")
        rows: list[dict[str, Any]] = []
        for name in options.sets:
            evaluation = evaluate_lightrag(made_set(name), python, Path(folder), options.names)
            if options.output:
                options.output.mkdir(parents=True, exist_ok=True)
                path = options.output / f"{name}.json"
                path.write_text(json.dumps(evaluation, ensure_ascii=False), encoding="utf-8")
            rows += [{"set": name, **row} for row in summary(evaluation)]
    print_table(rows)


def evaluate_lightrag(
    made: MadeSet, python: Path, folder: Path, with_names: bool
) -> dict[str, Any]:
    """Let LightRAG index the set and find passages of each question; return an evaluation."""
    texts: dict[str, str] = {}
    for file in made.files:
        name = f"{Path(file.source).stem}\n" if with_names else ""
        texts[file.source] = name + file.text
    asked = [line for line in made.questions if line["documents"]]
    spec: dict[str, Any] = {
        "files": texts,
        "replies": {file.source: reply(file, texts[file.source]) for file in made.files},
        "questions": [{"question": line["question"], "names": line["names"]} for line in asked],
        "modes": MODES,
        "most": max(KS),
        "dimensions": DIMENSIONS,
    }
    with vectors_server() as address:
        found = _ranked(python, folder / "spec.json", spec | {"embedding": address})
    questions = {line["id"]: line for line in asked}
    entries: list[dict[str, Any]] = []
    for place, line in enumerate(asked):
        modes = {
            f"lightrag {mode}": measured(found[mode][place], line["documents"]) for mode in MODES
        }
        entries.append({**line, "modes": modes})
    evaluation: dict[str, Any] = {
        "modes": {f"lightrag {mode}": {} for mode in MODES},
        "questions": entries,
        "passages": {},
    }
    add_bm25(evaluation, texts, questions)
    add_versions(evaluation, questions)
    return evaluation


def reply(file: MadeFile, text: str) -> str:
    """Return a reply of an extraction that has each fact of the file whose subject the text names.

    Where it does not, as in notes that are named by their files alone, the object is an entity.
    """
    described: dict[str, list[str]] = {}
    relations: list[str] = []
    for fact in file.facts:
        described.setdefault(fact.object, []).append(fact.sentence)
        if fact.subject in text:
            described.setdefault(fact.subject, []).append(fact.sentence)
            ends = [fact.subject, fact.object]
            relations.append(FIELD.join(["relation", *ends, fact.relation, fact.sentence]))
    entities = [
        FIELD.join(["entity", name, "Other", " ".join(sentences)])
        for name, sentences in described.items()
    ]
    return "\n".join([*entities, *relations, END])


@contextmanager
def vectors_server() -> Iterator[str]:
    """Serve the builtin vectors on this machine; yield the address."""
    embedding = BuiltinEmbedding()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(embedding.embed(texts).tolist()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def _ranked(
    python: Path, path: Path, spec: Mapping[str, Any]
) -> Mapping[str, Sequence[Sequence[str]]]:
    path.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    line = [str(python), str(SCRIPT), str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=path.parent)
    if done.returncode:
        raise LightragUnavailable(f"{' '.join(line)}: {done.stderr[-2000:]}")
    made = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"LightRAG: {made['entities']:,} entities", file=sys.stderr)
    return made["found"]


if __name__ == "__main__":
    main()
