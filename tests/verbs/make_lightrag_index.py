# pyright: reportMissingImports=false, reportMissingParameterType=false
"""Make the index in lightrag_1_5_7/ with LightRAG 1.5.7 itself.

The tests read the committed index, not this file. Run it in an environment of its own that has
lightrag-hku 1.5.7: ``python tests/verbs/make_lightrag_index.py DIR``. Functions in this file take
the place of the chat model and of the embedding model. The prompts, which are LightRAG's own text,
are taken out of its cache.
"""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
from lightrag import LightRAG
from lightrag.utils import EmbeddingFunc, Tokenizer

DOCUMENTS = {
    "lamp.txt": "Ada Holm built the Skarrow Lamp in 1871. Otto Brun kept it for thirty years.",
    "harbour.txt": "Otto Brun left Skarrow harbour for Tessing. ADA HOLM paid his passage.",
    "灯塔.txt": "林秋雁在北港修建了望海灯塔。周明看守灯塔二十年。",
    "json.txt": "Ida Vale wrote the Tide Book. It hangs in Tessing town hall.",
    "unfinished.txt": "The model fails whenever it is asked about this text.",
}
REPLIES = {
    "lamp.txt": (
        "entity<|#|>Ada Holm<|#|>person<|#|>Ada Holm built the Skarrow Lamp.\n"
        "entity<|#|>Skarrow Lamp<|#|>artifact<|#|>A lamp that was built in 1871.\n"
        "relation<|#|>Skarrow Lamp<|#|>Ada Holm<|#|>construction,origin<|#|>Built by Ada Holm.\n"
        "entity<|#|>broken line\n"
        "<|COMPLETE|>",
        "entity<|#|>Otto Brun<|#|>person<|#|>Otto Brun kept the lamp for thirty years.\n"
        "entity<|#|>Ada Holm<|#|>person<|#|>Ada Holm built the Skarrow Lamp in the year 1871.\n"
        "relation<|#|>Otto Brun<|#|>Skarrow Lamp<|#|>keeping<|#|>He kept the lamp.\n"
        "<|COMPLETE|>",
    ),
    "harbour.txt": (
        "entity<|#|>Otto Brun<|#|>person<|#|>Otto Brun left for Tessing.\n"
        "entity<|#|>ADA HOLM<|#|>person<|#|>She paid the passage.\n"
        "entity<|#|>Tessing<|#|>location<|#|>A town.\n"
        "relation<|#|>ADA HOLM<|#|>Otto Brun<|#|>payment<|#|>She paid his passage.\n"
        "relation<|#|>Otto Brun<|#|>Tessing<|#|>travel<|#|>He left for Tessing.\n"
        "<|COMPLETE|>",
        "<|COMPLETE|>",
    ),
    "灯塔.txt": (
        "entity<|#|>林秋雁<|#|>person<|#|>林秋雁修建了望海灯塔。\n"
        "entity<|#|>望海灯塔<|#|>location<|#|>北港的灯塔。\n"
        "relation<|#|>林秋雁<|#|>望海灯塔<|#|>修建<|#|>林秋雁修建了灯塔。\n"
        "<|COMPLETE|>",
        "entity<|#|>周明<|#|>person<|#|>周明看守灯塔二十年。\n"
        "relation<|#|>周明<|#|>望海灯塔<|#|>看守<|#|>周明看守灯塔。\n"
        "<|COMPLETE|>",
    ),
    "json.txt": (
        '{"entities": [{"name": "Ida Vale", "type": "person", "description": "A writer."},'
        ' {"name": "Tide Book", "type": "artifact", "description": "A book."}],'
        ' "relationships": [{"source": "Ida Vale", "target": "Tide Book",'
        ' "keywords": "writing", "description": "She wrote it."}]}',
        '{"entities": [], "relationships": []}',
    ),
}
DIMENSIONS = 8


class Characters:
    """A tokenizer whose tokens are characters: that of LightRAG would need the network."""

    def encode(self, content: str) -> list[int]:
        return [ord(character) for character in content]

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


async def reply(prompt, system_prompt=None, history_messages=(), **options):
    """Return the reply for the document whose text is asked about; the second is the gleaning."""
    asked = " ".join([prompt, system_prompt or "", *(m["content"] for m in history_messages)])
    name = next((name for name, text in DOCUMENTS.items() if text in asked), None)
    if name is None:
        raise ValueError("no document in the prompt")
    if name not in REPLIES:
        raise ValueError("the model fails on purpose")
    return REPLIES[name][1 if history_messages else 0]


async def embed(texts, **options):
    """Return a vector for each text that depends on its length alone."""
    return np.array([[1.0 + len(text) % (place + 2) for place in range(DIMENSIONS)]
                     for text in texts], dtype=np.float32)  # fmt: skip


async def make(folder: str) -> None:
    def open_index(as_json: bool) -> LightRAG:
        return LightRAG(
            working_dir=folder,
            llm_model_func=reply,
            embedding_func=EmbeddingFunc(
                embedding_dim=DIMENSIONS, max_token_size=8192, func=embed, model_name="made-up"
            ),
            tokenizer=Tokenizer("characters", Characters()),
            entity_extract_max_gleaning=1,
            entity_extraction_use_json=as_json,
        )

    for as_json in (False, True):
        index = open_index(as_json)
        await index.initialize_storages()
        names = [name for name in DOCUMENTS if (name == "json.txt") == as_json]
        await index.ainsert([DOCUMENTS[name] for name in names], file_paths=names)
        if as_json:
            await index.acreate_entity(
                "Hand-made Bell", {"entity_type": "artifact", "description": "Made by hand."}
            )
            await index.aedit_entity("Tessing", {"description": "A town, as a person says."})
        await index.finalize_storages()


def take_out_prompts(cache: Path) -> None:
    replies = json.loads(cache.read_text(encoding="utf-8"))
    for reply in replies.values():
        reply["original_prompt"] = ""
    cache.write_text(json.dumps(replies, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1]))
    take_out_prompts(Path(sys.argv[1]) / "kv_store_llm_response_cache.json")
