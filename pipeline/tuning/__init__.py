"""Tuning of prompts to one set of documents, from a sample of it."""
