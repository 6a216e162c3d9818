"""Prompts for one corpus, made from a sample of it."""
