"""LightRAG over the files of a set; run by the Python of an environment that has ``lightrag-hku``.

Argument: a file of JSON with ``files`` (source -> text), ``replies`` (source -> recorded reply of
the extraction), ``questions`` (question, names), ``modes``, ``most`` (passages of a question),
``dimensions`` and ``embedding``, the address of a server of vectors. Prints JSON: by mode, for
each question, the sources of the passages in order.
"""

import asyncio
import json
import logging
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer

LIMIT = 1_000_000
"""A budget that nothing reaches: a token is a character here."""
NOTHING = "<|COMPLETE|>"


class Characters:
    """A tokenizer that needs no file of ranks: a token is a character.

    Each file is one chunk with either tokenizer.
    """

    def encode(self, content: str) -> list[int]:
        return list(map(ord, content))

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


async def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    logging.getLogger("lightrag").setLevel(logging.ERROR)
    reply_of = {text.strip(): spec["replies"][source] for source, text in spec["files"].items()}

    async def embed(texts: list[str], **_: Any) -> np.ndarray:
        body = json.dumps(texts).encode()
        request = urllib.request.Request(spec["embedding"], data=body)
        vectors = await asyncio.to_thread(_received, request)
        return np.array(vectors, dtype=np.float32)

    async def chat(prompt: str, **_: Any) -> str:
        for text, reply in reply_of.items():
            if text in prompt:
                return reply
        return NOTHING

    with tempfile.TemporaryDirectory() as folder:
        rag = LightRAG(
            working_dir=folder,
            tokenizer=Tokenizer("characters", Characters()),
            embedding_func=EmbeddingFunc(embedding_dim=spec["dimensions"], func=embed),
            llm_model_func=chat,
            entity_extract_max_gleaning=0,
            # A file is one chunk, and descriptions are joined without a model.
            chunk_token_size=20_000,
            summary_context_size=LIMIT,
            summary_max_tokens=LIMIT,
            force_llm_summary_on_merge=LIMIT,
        )
        await rag.initialize_storages()
        # LightRAG keeps the last part of a path alone.
        numbers = [f"{number}.md" for number in range(len(spec["files"]))]
        await rag.ainsert(list(spec["files"].values()), ids=numbers, file_paths=numbers)
        found = {mode: await _asked(rag, spec, mode) for mode in spec["modes"]}
        graph = rag.chunk_entity_relation_graph
        labels = await graph.get_all_labels()
        await rag.finalize_storages()
    print(json.dumps({"found": found, "entities": len(labels)}))


async def _asked(rag: LightRAG, spec: dict[str, Any], mode: str) -> list[list[str]]:
    sources = list(spec["files"])
    ranked: list[list[str]] = []
    for line in spec["questions"]:
        # Keywords are given, so that no model is asked for them.
        param = QueryParam(
            mode=mode,
            chunk_top_k=spec["most"],
            hl_keywords=[line["question"]],
            ll_keywords=line["names"],
            max_entity_tokens=LIMIT,
            max_relation_tokens=LIMIT,
            max_total_tokens=LIMIT * 3,
            enable_rerank=False,
        )
        answer = await rag.aquery_data(line["question"], param)
        chunks = answer.get("data", {}).get("chunks", [])
        places = [int(chunk["file_path"].removesuffix(".md")) for chunk in chunks]
        ranked.append([sources[place] for place in places])
    return ranked


def _received(request: urllib.request.Request) -> list[list[float]]:
    with urllib.request.urlopen(request) as response:
        return json.load(response)


if __name__ == "__main__":
    asyncio.run(main())
