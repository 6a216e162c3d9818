"""The parts of merge_graphs: who is meant by a name, records of named entities, and what they merge
into."""
