"""The ontology of a project: the types, patterns and properties that its owner allows in the graph.

``ontology.yaml`` is read here, and so are the schemas of other tools. The functions are pure: they
look up types and read values, and change no table.
"""
