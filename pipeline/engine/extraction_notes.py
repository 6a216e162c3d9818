"""Say what the health of an extraction means, and what to do: notes of a run and of a plan."""

from collections.abc import Iterator, Mapping

from pipeline.engine.extraction_check import FAST, extracting_steps, found_little
from pipeline.engine.workflow import Workflow
from pipeline.errors import counted

MANY_WITHOUT_END_MARK = 0.05
"""The share of replies without an end mark from which on a run reports it: a good model forgets it
now and then."""
MOSTLY = 0.5


def extraction_notes(health: Mapping[str, float], workflow: Workflow) -> Iterator[str]:
    """Yield the notes on an extraction. ``health``: as extraction_check.health returns it, also of
    an earlier version, which has fewer keys."""
    name = workflow.name
    if found_little(health):
        units = health["text_units"] - health.get("rejected_units", 0)
        empty = health.get("without_entities", 0) + health.get("only_title", 0)
        yield (
            f"extraction: in {empty:,.0f} of {units:,.0f} text units nothing was found but the"
            f" title of their document{_advice(health, workflow)}"
        )
    if cut := int(health.get("cut_units", 0)):
        yield (
            f"extraction: the replies to {counted(cut, 'text unit')} were cut, and only their whole"
            " records are used; no run asks again by itself: look at max_tokens and the server,"
            f" then 'graphmill retry {name}'"
        )
    share = health.get("share_without_end_mark", 0.0)
    if share >= MANY_WITHOUT_END_MARK:
        yield (
            f"extraction: {share:.0%} of the replies have no end mark and may have been cut between"
            f" two records; look at max_tokens and the server; 'graphmill retry {name} --unended"
            " --plan' says what asking again would cost"
        )


def _advice(health: Mapping[str, float], workflow: Workflow) -> str:
    """Return what to do about a text in which next to nothing was found, by the verb that reads
    it."""
    verbs = {step.verb.name for step in extracting_steps(workflow)}
    if FAST not in verbs:
        asks_model = any(step.models for step in extracting_steps(workflow))
        return "; look at the model with 'graphmill doctor'" if asks_model else ""
    if health.get("share_of_caseless_letters", 0.0) >= MOSTLY:
        return (
            "; in scripts without capital letters 'extract_graph_fast' finds little but what a text"
            " repeats: a chat model reads them ('graphmill run index')"
        )
    return ""
