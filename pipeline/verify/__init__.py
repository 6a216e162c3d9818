"""Do the stores hold what the snapshots say? Reads, writes nothing."""
