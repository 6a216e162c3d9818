"""The index that LightRAG 1.5.7 made of five made-up documents; make_lightrag_index.py makes it."""

from pathlib import Path

INDEX = Path(__file__).parent / "lightrag_1_5_7"
