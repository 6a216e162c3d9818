"""Embedding and rerank models that run in this process."""
