"""The bill of a run before it begins: each step is computed from what is known already."""
