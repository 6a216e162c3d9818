"""Examines everything that a project depends on, and says what to do."""
