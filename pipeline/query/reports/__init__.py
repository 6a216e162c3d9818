"""Modes ``community`` and ``drift``: reports on communities, read in windows."""
