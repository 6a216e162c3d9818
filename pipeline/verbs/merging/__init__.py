"""The sub-steps of merge_graphs. They decide who is meant by a name, give the records of text units
the ids of entities, and merge these records into one graph."""
