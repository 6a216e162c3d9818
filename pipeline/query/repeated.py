"""Facts that only repeat a passage: a graph that was built without a model describes a relationship
by the sentences that name both ends."""

from collections.abc import Iterable, Sequence

from pipeline.stores.records import Passage, Relationship
from pipeline.text.sentences import find_sentences

SHORTEST_REPEATED = 15
"""Characters of the shortest sentence that counts as repeated; a shorter one may stand anywhere."""


def drop_repeated_facts(
    links: Iterable[Relationship], passages: Sequence[Passage]
) -> list[Relationship]:
    """Return the relationships without those whose whole description stands in the passages."""
    flat_passages = [" ".join(passage.content.split()) for passage in passages]
    # No sentence that is looked for holds a line feed, so none is found across two passages.
    shown = "\n".join(flat_passages)
    return [link for link in links if not _is_repeated(link.description, shown)]


def with_repeated_facts(
    links: Iterable[Relationship],
    repeated: Iterable[Relationship],
    told: Sequence[Relationship],
) -> tuple[Relationship, ...]:
    """Return the relationships of ``told`` and of ``repeated`` in the order of ``links``.

    ``told``: those that the model is shown, which may be numbered copies. ``repeated``: those that
    a passage repeats, as far as there is room for them.
    """
    by_id = {link.id: link for link in (*repeated, *told)}
    return tuple(by_id[link.id] for link in links if link.id in by_id)


def _is_repeated(description: str, shown: str) -> bool:
    """Return whether each sentence stands in ``shown``, whose white space is single characters."""
    flat_description = " ".join(description.split())
    # The first sentence begins with these characters. Most descriptions repeat nothing, and finding
    # sentences takes longer than finding out.
    if flat_description[:SHORTEST_REPEATED] not in shown:
        return False
    sentences: list[str] = []
    for line in description.splitlines():
        for start, end in find_sentences(line):
            sentence = " ".join(line[start:end].split())
            if sentence:
                sentences.append(sentence)
    if not sentences or min(map(len, sentences)) < SHORTEST_REPEATED:
        return False
    return all(sentence in shown for sentence in sentences)
