"""Tell in one line what an ontology makes of a graph, without changing anything:

python examples/ontology/effect.py DIR
"""

import sys
from pathlib import Path

from graphmill import Project

from pipeline.ontology.read import read_ontology
from pipeline.ontology.step_args import check_args, conform_args
from pipeline.verbs.check_patterns import PatternParams, check_patterns
from pipeline.verbs.conform_extractions import ConformParams, conform_extractions
from pipeline.verbs.list_statements import list_statements
from pipeline.verbs.merge_graphs import merge_graphs

with Project.open(sys.argv[1]) as project:
    extractions = project.table("extractions")
    text_units = project.table("text_units")
    before = project.table("statements")

ontology = read_ontology(Path(__file__).parent)
assert ontology is not None
conformed, others = conform_extractions(
    extractions, ConformParams.model_validate(conform_args(ontology))
)
entities, _, mentions, records, _ = merge_graphs(conformed, text_units)
_, relationships, _, records, outside = check_patterns(
    entities, records, mentions, PatternParams.model_validate(check_args(ontology))
)
after = list_statements(records, relationships)
print(
    f"with examples/ontology/ontology.yaml: {len(before)} statements of {before['type'].nunique()}"
    f" types would be {len(after)} of {after['type'].nunique()}, all in the ontology;"
    f" {len(others) + len(outside)} records left out, each with a reason; 0 calls"
)
