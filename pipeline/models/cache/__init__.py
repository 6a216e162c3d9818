"""Replies and vectors, remembered by what was asked, in a database."""
