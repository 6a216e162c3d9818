"""Backs up a project into one file, and restores it into another folder."""
