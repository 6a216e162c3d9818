"""Tables of a project's own: their files, their columns, and what a row says."""
