"""Read a graph in the record format (``prompts/extract_graph.md``). No reply raises."""

from pipeline.models.parsed import Graph, Problem, Record, entity, relationship
from pipeline.models.record_format import Kind, RecordFormat, record_problem, running_text
from pipeline.models.reply_text import keywords_of, weight_of


def parse_records(reply: str) -> Graph:
    """The entities and relationships of a reply, however damaged."""
    return Graph(**vars(_FORMAT.parse(reply)))


def _entity(fields: list[str], shown: str) -> Record | Problem:
    if len(fields) < 2:
        return record_problem("fields", shown, "an entity needs a name, a type and a description")
    name, type, *description = fields
    if not description and len(type.split()) > 3:
        type, description = "", [type]
    if len(description) > 1 and weight_of(description[-1], strict=True) is not None:
        description.pop()
    return entity(name, type, running_text(description), shown)


def _relationship(fields: list[str], shown: str) -> Record | Problem:
    if len(fields) < 3:
        return record_problem("fields", shown, "a relationship needs a source, a target and a description")
    source, target, *others = fields
    weight = weight_of(others[-1], strict=len(others) < 3)
    if weight is None and len(others) > 2 and weight_of(others[-2], strict=True) is not None:
        others[-2], others[-1] = others[-1], others[-2]
        weight = weight_of(others[-1])
    if weight is not None:
        others.pop()
    keywords = others.pop() if len(others) > 1 else ""
    return relationship(source, target, running_text(others), keywords_of([keywords]), weight, shown)


_FORMAT: RecordFormat[Record] = RecordFormat(
    (
        Kind("entity|entities|实体|實體", 2, 3, _entity),
        Kind("relationships?|relations?|关系|關係", 3, 5, _relationship),
        Kind("content[ _]keywords?", 3, 5, None),
    ),
    "neither an entity nor a relationship",
)
