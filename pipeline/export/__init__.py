"""Exports: writes a workflow's tables as files that other tools read."""
