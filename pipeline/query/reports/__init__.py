"""Modes ``community`` and ``drift``: answers from community reports, read in windows."""
