# pyright: reportMissingImports=false, reportMissingParameterType=false
"""Make the index in graphrag_3_3_0.zip with GraphRAG 3.3.0 itself.

The tests read the committed index, not this file. Run it in an environment of its own that has
graphrag 3.3.0: ``python tests/verbs/make_graphrag_index.py DIR``. A server in this file takes the
place of the models. The prompts are short ones of our own, and the folder of vectors is left out.
"""

import json
import re
import subprocess
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread

PORT = 18779
DOCUMENTS = {
    "lamp.txt": "Ada Holm built the Skarrow Lamp in 1871. Otto Brun kept the lamp for years.",
    "harbour.txt": "Otto Brun left Skarrow Harbour for Tessing Town. Ada Holm paid Otto Brun.",
    "灯塔.txt": "林秋雁在北港修建了望海灯塔。周明看守灯塔二十年。",
    "book.txt": "Ida Vale wrote the Tide Book: it hangs in Tessing Town. Ida Vale met Otto Brun.",
    "bell.txt": "Mira Quill cast the Harbour Bell. Ida Vale heard the Harbour Bell.\n",
    "long.txt": "Ada Holm met Mira Quill at the sea wall and they spoke about the price of oil."
    " Ida Vale met Ada Holm there, and they spoke about the lamp and the tide for a long time.",
}
PROMPTS = {
    "extract_graph.txt": "Entity types: {entity_types}\nList entities and relationships.\n\n"
    "Text: {input_text}\nOutput:",
    "extract_claims.txt": "List each claim with its subject. Entities: {entity_specs}\n"
    "Claims: {claim_description}\nText: {input_text}\nOutput:",
}
NAMES = re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b|林秋雁|望海灯塔|周明")
ANSWER = "told the truth"


def reply(messages):
    """Return the reply of the model that the server takes the place of."""
    first = str(messages[0]["content"])
    text = first.rsplit("Text: ", 1)[-1].removesuffix("\nOutput:")
    names = list(dict.fromkeys(NAMES.findall(text)))
    if "List each claim" in first:
        if len(messages) > 1 or not names:
            return "<|COMPLETE|>"
        fields = [names[0], "NONE", "HONESTY", "TRUE", "1871-01-01", "1871-02-01", text, ANSWER]
        return f"({'<|>'.join(fields)})<|COMPLETE|>"
    if "List entities" in first:
        if len(messages) > 1:
            names = ["Gleaned House"] if "Skarrow Lamp" in text else []
            return "\n".join([*map(_entity, names), "<|COMPLETE|>"])
        pairs = pairwise(names)
        records = [*map(_entity, names)]
        records += [f'("relationship"<|>{a}<|>{b}<|>{a} and {b}<|>7)' for a, b in pairs]
        if "Ida Vale" in names:
            records.append('("relationship"<|>Ida Vale<|>Quiet Sea<|>She sailed there<|>3)')
        return "\n##\n".join(records) + "\n<|COMPLETE|>"
    if "rating_explanation" in first:
        capitals = re.findall(r"\b[A-Z]{3,} [A-Z]{3,}\b", first)
        name = capitals[-1] if capitals else "islanders"
        finding = {"summary": "They met", "explanation": "By the sea [Data: Entities (1)]."}
        report = {"title": f"Circle of {name}", "summary": "People of the island.", "rating": 6.5}
        return json.dumps({**report, "rating_explanation": "Local.", "findings": [finding]})
    return "A joined description."


def _entity(name):
    return f'("entity"<|>{name}<|>PERSON<|>{name} is told of here)'


class Models(BaseHTTPRequestHandler):
    """A chat model and an embedding model."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "x", "created": 1, "model": body["model"], "usage": usage}
        if "embeddings" in self.path:
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            vector = [0.5] * (body.get("dimensions") or 1536)
            data = [
                {"object": "embedding", "index": place, "embedding": vector}
                for place in range(len(texts))
            ]
            answer |= {"object": "list", "data": data}
        else:
            message = {"role": "assistant", "content": reply(body["messages"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer |= {"object": "chat.completion", "choices": [choice]}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        """Write nothing about a request."""


def main(root: Path) -> None:
    """Let GraphRAG index the documents in ``root``, and write the zip file beside this file."""
    graphrag = [sys.executable, "-m", "graphrag"]
    models = ["-m", "gpt-4o", "-e", "text-embedding-3-small"]
    subprocess.run([*graphrag, "init", "-r", str(root), *models], check=True)
    settings = (root / "settings.yaml").read_text("utf-8")
    address = f"api_base: http://127.0.0.1:{PORT}/v1\n    api_key:"
    settings = settings.replace("api_key: $", f"{address} $", 2)
    settings = settings.replace("size: 1200", "size: 24").replace("overlap: 100", "overlap: 4")
    settings = settings.replace("enabled: false", "enabled: true")
    # The extraction of claims is off in new projects, as a comment says there.
    settings = settings.replace("  # enabled: true", "  enabled: true")
    (root / "settings.yaml").write_text(settings, "utf-8")
    (root / ".env").write_text("GRAPHRAG_API_KEY=none\n", "utf-8")
    for name, text in PROMPTS.items():
        (root / "prompts" / name).write_text(text, "utf-8")
    for name, text in DOCUMENTS.items():
        (root / "input" / name).write_text(text, "utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Models)
    Thread(target=server.serve_forever, daemon=True).start()
    subprocess.run([*graphrag, "index", "-r", str(root)], check=True)
    kept = ["settings.yaml", "prompts/extract_graph.txt", "input/*", "output/*.parquet"]
    kept.append("cache/*/*")
    with zipfile.ZipFile(Path(__file__).parent / "graphrag_3_3_0.zip", "w", 8) as archive:
        for path in sorted(path for pattern in kept for path in root.glob(pattern)):
            if path.parent.name != "text_embedding":
                archive.write(path, path.relative_to(root))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
