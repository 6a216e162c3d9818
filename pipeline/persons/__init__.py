"""Finds and erases what a project holds about a person."""
