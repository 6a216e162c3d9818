"""Looks at all that a project depends on and says what to do."""
