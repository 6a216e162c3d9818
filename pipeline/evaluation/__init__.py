"""Evaluation: quality of retrieval and of answers by mode."""
