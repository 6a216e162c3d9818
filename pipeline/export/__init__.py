"""Ways out: a workflow's tables as files that other tools read."""
