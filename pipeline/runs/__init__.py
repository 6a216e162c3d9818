"""The composition root, and runs of a project: stages, reports, events, whose the rows are."""
