"""Evaluation: quality of retrieval by mode, measured without a chat model."""
