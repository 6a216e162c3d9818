"""The usage of models: calls are counted as they are made, and kept whatever happens to the run."""
