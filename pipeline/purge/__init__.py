"""Removes a document and every trace of it, or everything that only earlier runs have."""
