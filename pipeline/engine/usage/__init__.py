"""What calls of models have cost: counted as they are made, kept whatever becomes of the run."""
