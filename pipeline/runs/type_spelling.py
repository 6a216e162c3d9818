"""Compare the type of a correction with the spellings of the ontology and of the last run."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pipeline.corrections.decisions import Decision, SetType
from pipeline.engine.workflow import Workflow
from pipeline.errors import counted
from pipeline.ontology.read import FILE, read_ontology
from pipeline.ontology.type_names import TypeNames
from pipeline.runs.services import Services


def spell_as_ontology(project: Services, decision: Decision) -> Decision:
    """Return the decision with the name that the ontology gives the type, if it has the type.

    Otherwise a type that the ontology knows would become another one, by its case alone.
    """
    ontology = read_ontology(project.root)
    if not isinstance(decision, SetType) or ontology is None:
        return decision
    types = ((each.name, each.synonyms) for each in ontology.entity_types)
    name = TypeNames.of(types).find(decision.to)
    return decision if name is None else decision.model_copy(update={"to": name})


def note_spelling(
    project: Services,
    workflow: Workflow,
    given: Decision,
    decided: Decision,
    others: Sequence[Decision],
) -> Iterator[str]:
    """Yield that a type has got the spelling of the ontology, or that it differs only in case.

    ``given`` is the decision as it came, ``decided`` as it is written. It is compared with the
    types of the last run and those that ``others`` give.
    """
    if not isinstance(given, SetType) or not isinstance(decided, SetType):
        return
    if given.to != decided.to:
        yield f"type '{given.to}' is written '{decided.to}', its name in {FILE}"
    numbers = _count_types(project, workflow)
    for other in others:
        if isinstance(other, SetType):
            numbers.setdefault(other.to, 0)
    if decided.to in numbers:
        return
    key = decided.to.casefold()
    # Of several spellings, that which most entities have is the one that was meant.
    same = [type for type, _ in numbers.most_common() if type.casefold() == key]
    if same:
        entities = counted(numbers[same[0]], "entity", "entities")
        yield (
            f"'{decided.to}' is a new type, which differs only in case from '{same[0]}' of"
            f" {entities}; if that one is meant, undo this correction and write --to '{same[0]}'"
        )


def _count_types(project: Services, workflow: Workflow) -> Counter[str]:
    """Return how many entities of the last run have each type."""
    table = project.snapshots.manifest(workflow.name).tables.get("entities")
    if table is None:
        return Counter()
    return Counter(project.snapshots.tables.read(table, ["type"])["type"])
