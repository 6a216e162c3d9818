"""Decide which entity names mean the same thing, from rules, a judge's verdicts and pins.

The functions here are pure: they compare names and tables in memory and read no store.
"""
