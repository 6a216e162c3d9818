"""Checks whether the stores hold the rows that the snapshots say; reads only, writes nothing."""
