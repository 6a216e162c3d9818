"""Check of an answer's text: citations, their support in the passages, and addresses.

The text passes through ``checker`` (marks of what was not shown are removed), ``addresses`` (links
that nothing shown contains are removed) and ``annotator`` (the final text, and each citation as
data; ``support`` compares it with the passage).
"""
